"""Parts of a run: whatever the parts, the run that they make is the same to the last bit."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headscope.corpora import lines
from headscope.corpora.opening import open_corpus
from headscope.engine.merge import merge_runs
from headscope.engine.sample import Part, Shard, cut_shards, draw_sample, part_of
from headscope.errors import InputError, OutputError, StudyError
from headscope.runs.run import load_run
from tests.engine.made import EXAMPLES, run

TEXT = "".join(
    "".join(f"Paragraph {p} of document {d} is here.\n" for p in range(1 + d % 4))
    + "\n" * (1 + d % 2)
    for d in range(30)
)
TREEBANK = "".join(
    f"# newdoc{' id = d' + str(i) if i % 7 else ''}\n" * (i % 3 == 0)
    + f"# sent_id = s{i}\n1\tA\ta\tX\t_\t_\t0\troot\t_\t_\n2\tb{i}\tb\tX\t_\t_\t1\tdep\t_\t_\n\n"
    for i in range(40)
)


def tables_in(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted((folder / "tables").iterdir())}


def run_parts(folder: Path, n_parts: int, **options: Any) -> list[Path]:
    """The folders of a run in parts."""
    folders = [folder / f"{n_parts}-{number}" for number in range(1, n_parts + 1)]
    for number, place in enumerate(folders, start=1):
        run(out=place, shard=f"{number}/{n_parts}", **options)
    return folders


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(out=folder, shard_examples=3)
    return folder


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/0", "1", "9" * 5000 + "/2", "x/2"])
def test_a_part_that_is_not_one_of_several_is_refused(text: str) -> None:
    with pytest.raises(StudyError, match=r"^shard=.{1,70} cannot be used\. Expected the number"):
        Part.parse(text)


@pytest.mark.parametrize("n_parts", [2, 5])
def test_parts_make_the_run_byte_for_byte(tmp_path: Path, whole: Path, n_parts: int) -> None:
    folders = run_parts(tmp_path, n_parts, shard_examples=3)
    with pytest.raises(OutputError, match=rf"part 1/{n_parts} of a run"):
        load_run(folders[0])
    merge_runs(folders[::-1], tmp_path / "merged")
    assert tables_in(tmp_path / "merged") == tables_in(whole)
    again = run(out=tmp_path / "merged", resume=True, shard_examples=3)  # adds what is drawn
    assert tables_in(tmp_path / "merged") == tables_in(whole)
    assert (whole / "examples.json").read_bytes() == (
        tmp_path / "merged/examples.json"
    ).read_bytes()
    counts = json.loads((whole / "manifest.json").read_text())["counts"]
    assert again.manifest["counts"] == counts


def test_parts_that_make_no_whole_are_told(tmp_path: Path) -> None:
    quick = {"only": ["position"], "shard_examples": 3}
    one, two, three = run_parts(tmp_path, 3, **quick)
    run(out=tmp_path / "again", shard="2/3", **quick)
    run(out=tmp_path / "other", shard="2/3", only=["position"], shard_examples=3, seed=1)
    run(out=tmp_path / "quarter", shard="2/4", **quick)
    run(out=tmp_path / "whole", **quick)
    for folders, problem in [
        ([one, three], "part 2 of 3 is missing"),
        ([two], "parts 1, 3 of 3 are missing"),
        ([one, two, tmp_path / "again", three], "2 are given twice"),
        ([one, tmp_path / "other", three], "not a part of the same run.*seed 0 there, 1 now"),
        ([one, tmp_path / "quarter", three], "in 3 and 4 parts"),
        ([one, two, tmp_path / "whole"], "is a whole run"),
    ]:
        with pytest.raises(OutputError, match=problem):
            merge_runs(folders, tmp_path / "x")
        assert not (tmp_path / "x").exists()
    (two / "tallies/text.safetensors").unlink()
    with pytest.raises(OutputError, match="shards of text"):
        merge_runs([one, two, three], tmp_path / "x")


def test_a_part_without_a_shard_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(text=EXAMPLES[:2], only=["position"], out=tmp_path / "x", shard="1/2")
    (said,) = (text for text in caplog.messages if "nothing to measure" in text)
    assert re.search(r"\b1 shard\b", said)


def test_what_cannot_be_done_in_parts_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match='shard="0/3" cannot be used'):
        run(out=tmp_path / "x", shard="0/3")
    with pytest.raises(StudyError, match="without out"):
        run(shard="1/3")
    assert not (tmp_path / "x").exists()


def test_shards_are_whole_documents_and_parts_are_of_equal_length() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(1, 200, 1000)
    begins = random.random(1000) < 0.2
    shards = cut_shards(lengths, begins, 30)
    assert [s.start for s in shards] == [0, *[s.stop for s in shards[:-1]]]
    assert shards[-1].stop == 1000
    for shard in shards[1:]:
        assert len(shard) <= 30
        assert begins[shard.start] or not begins[shard.start - 30 : shard.start + 1].any()
    for n in (1, 3, 7, 100):
        parts = [part_of(shards, Part(number, n)) for number in range(1, n + 1)]
        assert [shard for part in parts for shard in part] == shards
        sizes = [sum(s.length for s in part) for part in parts]
        assert max(sizes) - min(sizes) <= 2 * max(s.length for s in shards)
    assert cut_shards(np.zeros(0, np.int64), np.zeros(0, bool), 5) == []
    assert part_of([Shard(0, 0, 1, 0)], Part(1, 2)) == [Shard(0, 0, 1, 0)]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.conllu", "a.jsonl", "folder"])
@pytest.mark.parametrize("limit", [None, 25])
def test_any_shards_are_read_as_the_whole_corpus_is(
    tmp_path: Path, name: str, limit: int | None
) -> None:
    records = "".join(
        json.dumps({"text": f"Line {i}."}) + "\n\n" * (i % 2) + "\n" for i in range(60)
    )
    role = "treebank" if name == "a.conllu" else "text"
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "b.txt").write_text(TEXT)
        (path / "c.jsonl").write_text(records)
        (path / "d.conllu").write_text(TREEBANK)
    else:
        kinds = {".conllu": TREEBANK, ".jsonl": records}
        content = kinds.get(path.suffix, TEXT).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    corpus = open_corpus(path, role)
    sample = draw_sample(corpus, limit, 3)
    examples = list(sample)
    ids = [example.id for example in examples]
    assert [example.id for example in corpus if example.id in ids] == ids
    assert sample.n_available == len(list(corpus))
    assert len(ids) == (limit or sample.n_available)
    for loaded in (sample, sample.load_into_memory()):
        assert list(loaded) == examples
        shards = loaded.shards(8)
        for some in (shards, shards[1:2], shards[::2], []):
            read = list(loaded.read(some))
            assert [shard for shard, _ in read] == some
            assert [e for _, own in read for e in own] == [
                e for shard in some for e in examples[shard.start : shard.stop]
            ]
        few = [examples[-1], examples[0]]
        assert list(loaded.find([example.key for example in few])) == few[::-1]
    assert sample.load_into_memory().load_into_memory().loaded == examples


def test_a_pass_reads_its_corpus_once_more_if_anything_is_to_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_text("".join(f'{{"text": "Line {i}."}}\n' for i in range(60)))
    opened: list[Path] = []
    open_bytes = lines.open_bytes
    monkeypatch.setattr(lines, "open_bytes", lambda path: opened.append(path) or open_bytes(path))
    quick: dict[str, Any] = {"text": tmp_path / "a.jsonl", "only": "position", "examples": False}
    run(out=tmp_path / "run", **quick)
    assert len(opened) == 3  # what it provides, the facts, the examples
    run(out=tmp_path / "run", resume=True, **quick)
    assert len(opened) == 5


def test_a_corpus_that_changes_under_a_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    sample = draw_sample(open_corpus(path, "text"), None, 0)
    first, *_, last = sample.shards(8)
    path.write_text(TEXT.replace("document 29", "document XX"))
    assert list(sample.read([first]))
    with pytest.raises(InputError, match="has changed since the run first read it"):
        list(sample.read([last]))
    path.write_text(TEXT[: len(TEXT) // 2])
    with pytest.raises(InputError, match="changed while it was being read"):
        list(sample.read([last]))
