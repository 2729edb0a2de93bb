"""Damage of a run's folder is noticed, and what a failed or killed run leaves does not block."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from headscope import files
from headscope.data.table import to_csv
from headscope.engine.checkpoint import StateFile, read_checkpoint
from headscope.engine.merge import merge_runs
from headscope.errors import HeadscopeError, InputError, ModelError, OutputError
from headscope.files import seal
from headscope.runs.run import load_run
from tests.engine.made import EXAMPLES, run
from tests.making import MadeSource
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
    assert lines == ["word,difference", "'=1+1,-1.5", "'@x,2.0", "'-,3.0", "sea,"]
