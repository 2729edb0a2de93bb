"""Parts of a run: whatever the parts, the run that they make is the same to the last bit."""

import gzip
import json
import pickle
from glob import glob
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headscope.corpora import lines as lines_module
from headscope.corpora.collection import FilesCorpus
from headscope.corpora.opening import open_corpus
from headscope.engine import index as index_module
from headscope.engine.index import CorpusReader, build_index, find_index
from headscope.engine.merge import merge_runs
from headscope.engine.sample import Part, Sample, Shard, cut_shards, draw_sample, hold, part_of
from headscope.engine.work import find_here
from headscope.errors import InputError, OutputError, StudyError
from headscope.runs.run import load_run
from tests.engine.made import run

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


def test_what_is_kept_beside_parts_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "LEAST_BYTES", 1)
    text = tmp_path / "a.txt"
    text.write_text(TEXT)
    quick: dict[str, Any] = {"only": ["position"], "text": text, "examples": False}
    run_parts(tmp_path / "parts", 2, shard_examples=8, **quick)
    assert len(list(tmp_path.glob("parts/.indexes/*"))) == 1, "it is made once"
    parts = [Path(name) for name in glob(f"{tmp_path}/parts/*")]  # as a shell lists them
    merge_runs(parts, tmp_path / "merged")


def test_parts_that_make_no_whole_are_told(tmp_path: Path) -> None:
    quick = {"only": ["position"], "shard_examples": 3}
    one, two, three = run_parts(tmp_path, 3, **quick)
    run(out=tmp_path / "again", shard="2/3", **quick)
    run(out=tmp_path / "other", shard="2/3", only=["position"], shard_examples=3, seed=1)
    run(out=tmp_path / "quarter", shard="2/4", **quick)
    run(out=tmp_path / "whole", **quick)
    for folders, problem in [
        ([one, three], "of 3 parts, 2 are missing"),
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


LINES = "".join(f"\nParagraph {n} of no document.\n" if n == 0 else f"{n}.\n" for n in range(999))


@pytest.mark.parametrize("name", ["a.txt", "lines.txt", "lines.txt.gz", "folder"])
def test_texts_are_read_once_for_their_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "b.txt").write_text(LINES)
        (path / "c.txt").write_text(TEXT)
        (path / "d.txt").write_text(LINES + "\nA second document.\n")
    else:
        content = (TEXT if name == "a.txt" else LINES).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    examples = list(open_corpus(path, "text"))
    opened: list[Path] = []
    open_bytes = lines_module.open_bytes
    monkeypatch.setattr(
        lines_module, "open_bytes", lambda path: opened.append(path) or open_bytes(path)
    )
    corpus = open_corpus(path, "text")
    index = find_index(corpus, None, None)
    assert len(opened) == len(set(opened)), "a file was read twice"
    documents = [None, *[example.document for example in examples]]
    begins = [d is None or d != before for before, d in pairwise(documents)]
    assert index.begins.tolist() == begins
    again = build_index(corpus)  # now it is known whether documents are marked
    assert all(np.array_equal(value, vars(again)[n]) for n, value in vars(index).items())
    reader = CorpusReader(corpus, index)
    order = np.random.default_rng(1).permutation(len(examples)).tolist()
    assert [next(reader.read([number])) for number in order] == [examples[i] for i in order]
    assert not reader._is_whole, "files were read from their start"
    assert max(np.bincount(index.places)) < 40 or name == "folder"


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.conllu", "a.jsonl", "folder"])
def test_any_example_can_be_read_alone(tmp_path: Path, name: str) -> None:
    lines = "".join(json.dumps({"text": f"Line {i}."}) + "\n\n" * (i % 2) + "\n" for i in range(60))
    role = "treebank" if name == "a.conllu" else "text"
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
        (path / "b.txt").write_text(TEXT)
        (path / "c.jsonl").write_text(lines)
        (path / "d.conllu").write_text(TREEBANK)  # paragraphs of it: read from the start
    else:
        kinds = {".conllu": TREEBANK, ".jsonl": lines}
        content = kinds.get(path.suffix, TEXT).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    corpus = open_corpus(path, role)
    examples, digest = list(corpus), open_corpus(path, role).digest()
    index = find_index(corpus, None, None)
    assert corpus.digest() == digest
    if not isinstance(corpus, FilesCorpus):
        assert corpus._known["digest"] == digest, "it was read once more"  # type: ignore[attr-defined]
        assert len(set(index.places.tolist())) > 10
    reader = CorpusReader(open_corpus(path, role), index)
    order = np.random.default_rng(1).permutation(len(examples)).tolist()
    for number in [*order, *range(len(examples))]:
        assert list(reader.read([number])) == [examples[number]], number
    far = [0, len(examples) - 1]
    assert list(CorpusReader(corpus, index).read(far)) == [examples[i] for i in far]


def test_a_corpus_that_changes_under_a_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    sample = draw_sample(open_corpus(path, "text"), None, 0)
    first, *_, last = sample.shards(8)
    path.write_text(TEXT.replace("document 29", "document XX"))
    assert sample.read(first)
    with pytest.raises(InputError, match="has changed since the run first read it"):
        sample.read(last)


def test_an_index_is_kept_beside_large_corpora_and_made_again_for_other_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, kept = tmp_path / "a.txt", tmp_path / "indexes"
    path.write_text(TEXT)
    find_index(open_corpus(path, "text"), None, kept)
    assert not kept.exists(), "a small corpus is read again as quickly"
    monkeypatch.setattr(index_module, "LEAST_BYTES", 1)
    made = find_index(open_corpus(path, "text"), None, kept)
    (file,) = kept.iterdir()
    monkeypatch.setattr(index_module, "build_index", pytest.fail)
    again = find_index(open_corpus(path, "text"), None, kept)
    assert all(np.array_equal(value, vars(again)[n]) for n, value in vars(made).items())
    monkeypatch.setattr(index_module, "build_index", build_index)
    file.write_bytes(b"damaged")
    assert len(find_index(open_corpus(path, "text"), None, kept)) == len(made)
    path.write_text(TEXT + "\nOne more.\n")
    assert len(find_index(open_corpus(path, "text"), None, kept)) == len(made) + 1


def test_a_worker_finds_a_corpus_where_it_was_or_a_copy_by_its_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    sample = draw_sample(open_corpus(path, "text"), None, 0)
    first, *_ = sample.shards(8)
    examples = sample.read(first)
    assert find_here(sample).read(first) == examples
    copy = tmp_path / "copies" / sample.corpus.digest() / "a.txt"
    copy.parent.mkdir(parents=True)
    path.rename(copy)
    with pytest.raises(InputError, match=r"a\.txt is not on .*HEADSCOPE_CORPORA"):
        find_here(sample)
    monkeypatch.setenv("HEADSCOPE_CORPORA", str(tmp_path / "copies"))
    assert find_here(sample).read(first) == examples


@pytest.mark.parametrize("limit", [None, 25])
def test_a_held_sample_is_the_sample_and_draws_what_the_corpus_would(
    tmp_path: Path, limit: int | None
) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(TREEBANK)
    corpus = open_corpus(path, "treebank")
    sample = draw_sample(corpus, limit, 3)
    held = hold(sample)
    path.unlink()  # nothing is read again
    assert hold(held) is held
    assert held.draw(50) is held
    assert held.shards(10) == sample.shards(10)
    assert [e for s in held.shards(10) for e in held.read(s)] == list(held)
    path.write_text(TREEBANK)
    assert list(held) == list(sample)
    for drawn, expected in ((held, sample), (held.draw(12), draw_sample(corpus, 12, 3))):
        sent = pickle.loads(pickle.dumps(drawn))
        assert type(sent) is Sample  # another process reads only what it needs
        assert drawn.highest_rank == expected.highest_rank
        assert drawn.shards(5) == expected.shards(5) == sent.shards(5)
        for shard in drawn.shards(5):
            assert drawn.read(shard) == expected.read(shard) == sent.read(shard)
