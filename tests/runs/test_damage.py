"""Damage of a run's folder is noticed, and what a failed or killed run leaves does not block."""

import copy
import os
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from headscope import files
from headscope.commands.shared import show_run
from headscope.data.table import to_csv
from headscope.engine.analyze import analyze
from headscope.engine.checkpoint import StateFile, read_checkpoint
from headscope.engine.finish import redraw_map
from headscope.engine.merge import merge_runs
from headscope.errors import HeadscopeError, InputError, ModelError, OutputError, on_command_line
from headscope.files import seal
from headscope.runs.folder import RunFolder
from headscope.runs.run import load_run
from headscope.view.table import Format
from tests.engine.made import EXAMPLES, assert_same_tables, run
from tests.making import MadeSource
from tests.models.tiny import build_model, build_tokenizer
from tests.planted import PLANTED

QUICK = {"only": ["position"]}


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def test_one_flipped_bit_in_the_sums_is_noticed(tmp_path: Path) -> None:
    run(out=tmp_path / "run", **QUICK)
    path = tmp_path / "run/tallies/text.safetensors"
    flip(path, -100)
    with pytest.raises(OutputError, match="its checksum differs"):
        read_checkpoint(path)


def test_a_run_whose_map_was_redrawn_by_half_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(out=tmp_path / "run")
    write = RunFolder.write_table
    left = iter(range(1))

    def write_one(self: RunFolder, *arguments: Any) -> str:
        next(left)  # a kill after the first table
        return write(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "write_table", write_one)
        with pytest.raises(StopIteration):
            redraw_map(tmp_path / "run", {}, n_clusters=2)
    assert "layout" in load_run(tmp_path / "run").tables


def test_a_folder_that_another_command_writes_to_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    with folder.begin({}, resume=False):
        for resume in (False, True):
            with pytest.raises(OutputError, match=r"Another headscope command|not empty"):
                run(out=tmp_path / "run", resume=resume, **QUICK)
        (tmp_path / "run/manifest.json").unlink()
        with pytest.raises(OutputError, match="Another headscope command is writing"):
            run(out=tmp_path / "run", **QUICK)
    run(out=tmp_path / "run", **QUICK)
    assert not list((tmp_path / "run").glob(".*"))


def test_a_run_within_another_leaves_its_tables_alone(tmp_path: Path) -> None:
    outer = run(out=tmp_path / "runs", **QUICK)
    run(out=tmp_path / "runs/inner", text=EXAMPLES[:3], **QUICK)
    assert_same_tables(load_run(tmp_path / "runs"), outer)


def test_another_tokenizer_is_another_run(tmp_path: Path) -> None:
    model, texts = build_model("bert"), ["The boat sails home.", "Nobody on the shore sees it."]
    options: dict[str, Any] = {"only": "position", "progress": False, "seed": 0}
    lower, other = build_tokenizer("wordpiece"), copy.deepcopy(build_tokenizer("wordpiece"))
    other.backend_tokenizer.normalizer = None
    analyze(model, tokenizer=lower, text=texts, out=tmp_path / "a", **options)
    analyze(model, tokenizer=lower, text=texts, out=tmp_path / "a", resume=True, **options)
    with pytest.raises(OutputError, match="tokenizer"):
        analyze(model, tokenizer=other, text=texts, out=tmp_path / "a", resume=True, **options)
    more = ["Two boats.", "One harbour."]
    analyze(model, tokenizer=other, text=more, out=tmp_path / "b", **options)
    with pytest.raises(OutputError, match="different tokenizers"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "c")


def test_sums_that_lack_a_tensor_are_not_merged(tmp_path: Path) -> None:
    for name, part in (("a", EXAMPLES[:20]), ("b", EXAMPLES[20:])):
        run(out=tmp_path / name, text=part, **QUICK)
    path = tmp_path / "a/tallies/text.safetensors"
    with safe_open(path, framework="numpy") as stream:
        kept = {name: stream.get_tensor(name) for name in sorted(stream.keys())[1:]}
        metadata = stream.metadata()
    save_file(kept, path, metadata)
    with pytest.raises(OutputError, match="its checksum differs"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")


def test_the_state_of_a_pass_comes_back_or_is_refused(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "means.safetensors")
    file.save({"means": torch.arange(6.0)}, {"n": 1})
    loaded = file.load()
    assert loaded is not None
    assert loaded[0]["means"].tolist() == list(range(6))
    flip(file.path, -3)
    with pytest.raises(OutputError, match="its checksum differs"):
        file.load()


def test_tables_manifest_and_examples_are_what_the_run_wrote(tmp_path: Path) -> None:
    run(out=tmp_path / "run", **QUICK)
    manifest = tmp_path / "run/manifest.json"
    good = manifest.read_text()
    manifest.write_text(good.replace('"used": 40', '"used": 41'))
    with pytest.raises(OutputError, match="its checksum differs"):
        load_run(tmp_path / "run")
    manifest.write_bytes(seal({"format": 3, "status": "done"}))
    with pytest.raises(OutputError, match=r"status: Input should be 'running'"):
        load_run(tmp_path / "run")
    manifest.write_text(good)
    examples = tmp_path / "run/examples.json"
    kept = examples.read_bytes()
    examples.write_bytes(seal({"examples": [{"title": 3}]}))
    with pytest.raises(OutputError, match=r"examples\.0\.title: .*rebuild it with"):
        load_run(tmp_path / "run")
    examples.write_bytes(kept)
    table = tmp_path / "run/tables/position.parquet"
    pd.DataFrame({"layer": [0], "head": [1]}).to_parquet(table)
    with pytest.raises(
        OutputError, match=r"its checksum differs\)\. .*rebuild it from the tallies"
    ):
        load_run(tmp_path / "run")
    run(out=tmp_path / "run", resume=True, **QUICK)
    assert load_run(tmp_path / "run").tables["position"]["layer"].min() == 1


def reseal(folder: Path, **changes: object) -> None:
    manifest = folder / "manifest.json"
    manifest.write_bytes(seal(files.read_sealed(manifest) | changes))


def change_table(folder: Path, name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    """Another table of this name, with its checksum in the manifest."""
    path = folder / f"tables/{name}.parquet"
    change(pd.read_parquet(path)).to_parquet(path, index=False)
    known = files.read_sealed(folder / "manifest.json")["checksums"]
    reseal(folder, checksums=known | {f"tables/{name}": files.checksum(path.read_bytes())})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(out=folder, treebank=EXAMPLES, only=["position", "entropy", "dependency"])
    return folder


def show(folder: Path) -> None:
    """All that commands show of a run."""
    loaded = load_run(folder)
    loaded.report(folder / "again.html")
    loaded.card("1-1")
    with on_command_line():
        show_run(loaded, Format.TABLE)


COUNTS = {"used": 1, "truncated": 0, "tokens": 9, "unaligned_words": 0, "skipped": {"x": 1}}


@pytest.mark.parametrize(
    "changes",
    [
        *({"counts": {"text": {}}}, {"counts": {"text": {**COUNTS, "notes": {}}}}),
        *({"counts": {"text": {**COUNTS, "tokenization": {"words": 1}}}}, {"left_out": []}),
        *({"left_out": {"gap": 3}}, {"seconds": {"text": {"model": "x"}}}, {"analyses": {}}),
        *({"started": 3}, {"failed": 3}, {"derived": [None]}, {"model": {"name": "x"}}),
        *({"model": {"name": "x", "digest": "y", "layer_numbers": "x"}}, {"passes": {"text": {}}}),
    ],
    ids=str,
)
def test_a_manifest_of_another_shape_is_refused_when_it_is_read(
    whole: Path, tmp_path: Path, changes: dict[str, object]
) -> None:
    shutil.copytree(whole, tmp_path / "run")
    reseal(tmp_path / "run", **changes)
    with pytest.raises(OutputError, match=r"manifest\.json is missing or damaged"):
        load_run(tmp_path / "run")


CHANGES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "lists": lambda column: [[1]] * len(column),
    "infinite": lambda column: np.inf,
    "huge": lambda column: 1e308,
    "texts": lambda column: "x",
    "missing": lambda column: None,
    "negative": lambda column: -5,
}


@pytest.mark.parametrize("change", [*CHANGES, "dropped"])
@pytest.mark.parametrize(
    ("name", "columns"),
    [("position", slice(7)), ("entropy", slice(2, 4)), ("dependency-best", slice(7))],
    ids=["position", "entropy", "dependency-best"],
)
def test_tables_of_another_shape_are_refused_or_shown(
    whole: Path, tmp_path: Path, name: str, columns: slice, change: str
) -> None:
    folder = tmp_path / "run"
    for column in pd.read_parquet(whole / f"tables/{name}.parquet").columns[columns]:
        shutil.copytree(whole, folder)

        def alter(table: pd.DataFrame, column: str = column) -> pd.DataFrame:
            if change == "dropped":
                return table.drop(columns=column)
            return table.assign(**{column: CHANGES[change](table[column])})

        change_table(folder, name, alter)
        with suppress(OutputError):
            show(folder)
        shutil.rmtree(folder)


def test_a_map_is_not_drawn_from_damaged_tables(tmp_path: Path) -> None:
    run(out=tmp_path / "run", only=["position", "entropy", "distance"])
    shutil.copytree(tmp_path / "run", tmp_path / "twice")
    change_table(tmp_path / "run", "entropy", lambda table: table[["documents"]])
    with pytest.raises(OutputError, match="is not what headscope writes"):
        redraw_map(tmp_path / "run", {})
    change_table(tmp_path / "twice", "layout", lambda table: pd.concat([table, table]))
    twice = load_run(tmp_path / "twice")
    with pytest.raises(OutputError, match="is not what headscope writes"):
        twice.report()


def test_links_to_the_run_itself_do_not_make_it_endless(tmp_path: Path) -> None:
    made = run(out=tmp_path / "run", **QUICK)
    for name in "abc":  # a walk through links to links would see 3 ** 40 folders
        (tmp_path / "run" / name).symlink_to(".")
    assert load_run(tmp_path / "run").tables.keys() == made.tables.keys()


def test_a_killed_runs_temporary_files_are_swept_and_a_living_ones_stay(tmp_path: Path) -> None:
    run(out=tmp_path / "run", **QUICK)
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = {"dead": ended.pid, "living": os.getpid()}
    made = {
        key: tmp_path / f"run/tables/.position.csv.{files.HOST}-{process}-{'0' * 16}"
        for key, process in names.items()
    }
    for path in made.values():
        path.touch()
    run(out=tmp_path / "run", resume=True, **QUICK)
    assert not made["dead"].exists()
    assert made["living"].exists()


def test_a_run_killed_before_its_first_file_does_not_block(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f".manifest.json.{files.HOST}-{ended.pid}-{'0' * 16}").touch()
    run(out=tmp_path, resume=True, **QUICK)


def test_a_model_of_nan_leaves_no_folder_that_blocks_the_next_try(tmp_path: Path) -> None:
    def broken(encoding: object) -> torch.Tensor:
        return PLANTED.maps(encoding) * float("nan")  # type: ignore[arg-type]

    with pytest.raises(ModelError, match="not numbers"):
        run(MadeSource(broken), out=tmp_path / "new/run", **QUICK)
    assert not (tmp_path / "new").exists()


def test_no_usable_example_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"No example of memory could be measured \(2 no tokens"):
        run(text=["", " "], out=tmp_path / "run", **QUICK)
    assert not (tmp_path / "run").exists()


def test_a_corpus_that_changes_during_a_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(f"w{i} w{i + 1}" for i in range(30)))

    def change(encoding: object) -> torch.Tensor:
        path.write_text(path.read_text().replace("w29", "w3"))
        return PLANTED.maps(encoding)  # type: ignore[arg-type]

    with pytest.raises(InputError, match="has changed since the run first read it"):
        run(MadeSource(change), text=path, out=tmp_path / "run", **QUICK)


@pytest.mark.parametrize(
    "options",
    [
        *({"seed": -1}, {"seed": 10**30}, {"limit": 10**5000}, {"null": 10**9}, {"limit": 1.5}),
        *({"shard_examples": 2**70}, {"weights": "\ud800"}, {"device": "a\0b"}, {"coarse": "x"}),
        *({"token_classes": "x"}, {"out": 3}, {"out": "x" * 300}, {"text": "\ud800 \ud800"}),
        *({"only": [10**5000]}, {"text": 10**5000}, {"text": ["a.txt", 10**5000]}),
        *({"shard": ["1/2"]}, {"shard": 3}, {"weights": []}, {"only": "x" * 5000}),
    ],
    ids=lambda options: next(iter(options)),
)
def test_values_that_no_option_can_have_are_refused(
    options: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeadscopeError) as raised:
        run(**options)
    assert len(str(raised.value)) < 500
    str(raised.value).encode()


def test_formulas_in_csv_are_made_harmless() -> None:
    table = pd.DataFrame({"word": ["=1+1", "@x", "-", "sea"], "difference": [-1.5, 2, 3, np.nan]})
    lines = to_csv(table).splitlines()
    assert lines == ["word,difference", "'=1+1,-1.5", "'@x,2", "'-,3", "sea,"]
