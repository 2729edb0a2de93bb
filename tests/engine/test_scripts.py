"""The scripts of docs/scale.md, as they stand there, give the tables of the single run."""

import os
from pathlib import Path

import pytest

from tests.engine.test_shards import tables_in
from tests.models.tiny import build_model, build_tokenizer
from tests.test_docs import PAGES, blocks
from tests.test_pages import run_shell

PARTS = next(block for block in blocks(PAGES["scale.md"], "sh") if "xargs" in block)
SLURM, AFTER = blocks(PAGES["scale.md"], "bash")
# What sbatch does with an array: the environment is above what the script says of itself.
SBATCH = """#!/bin/bash
array=${SBATCH_ARRAY_INX:-$(sed -n 's/^#SBATCH --array=//p' "$1")}
export SLURM_ARRAY_TASK_COUNT=${array#1-}
for id in $(seq $SLURM_ARRAY_TASK_COUNT); do SLURM_ARRAY_TASK_ID=$id bash "$1" || exit; done
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the scripts name, and a run over all of it."""
    folder = tmp_path_factory.mktemp("place")
    for part in (build_model("bert"), build_tokenizer("wordpiece")):
        part.save_pretrained(folder / "models/e5-small")
    boats = "\n\n".join(f"The boat {number} sails." for number in range(2500))
    (folder / "wiki.txt").write_text(boats)  # three shards
    (folder / "parts.sh").write_text(SLURM)
    (folder / "bin").mkdir()
    (folder / "bin/sbatch").write_text(SBATCH)
    (folder / "bin/sbatch").chmod(0o755)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        run_shell(
            "headscope analyze models/e5-small --text wiki.txt --out whole --no-report", folder
        )
    return folder


@pytest.fixture(autouse=True)
def there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("PATH", f"{place / 'bin'}:{os.environ['PATH']}")


def test_parts_by_xargs(place: Path) -> None:
    run_shell(PARTS, place)
    assert tables_in(place / "runs/wiki") == tables_in(place / "whole")
    (place / "runs").rename(place / "by-xargs")


def test_parts_by_slurm(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_ARRAY_INX", "1-2")
    run_shell("sbatch parts.sh", place)
    run_shell(AFTER, place)
    assert tables_in(place / "runs/wiki") == tables_in(place / "whole")
    assert (place / "runs/wiki/examples.json").read_bytes() == (
        place / "whole/examples.json"
    ).read_bytes()
