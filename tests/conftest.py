"""Test-wide settings: one torch thread per worker, no hub, deterministic hypothesis; the demo."""

import gc
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["NUMBA_NUM_THREADS"] = "1"
os.environ["OMP_NUM_THREADS"] = "1"  # of the commands that tests run, too

import time
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from headscope.cli import SELDOM

torch.set_num_threads(1)
settings.register_profile("headscope", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("headscope")

gc.set_threshold(*SELDOM)

DEMO_SECONDS = 600  # the most that a worker waits for another one's demo


def pytest_collection_finish() -> None:
    """What is loaded by now stays: it need not be looked through again."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class DemoRun:
    """What `headscope analyze --demo` wrote and said, 120 columns wide."""

    folder: Path
    stdout: str
    stderr: str
    exit_code: int


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> DemoRun:
    """The demo, run once however many workers there are. It is to be read, not to be changed."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent  # of all workers
    shared = place / "shared-demo"
    said, lock = shared / "said.json", shared / "lock"
    shared.mkdir(exist_ok=True)
    try:
        os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        for _ in range(10 * DEMO_SECONDS):
            if said.exists():
                break
            time.sleep(0.1)
    else:
        written = said.with_suffix(".part")
        written.write_text(json.dumps(asdict(_run_demo(shared / "run")), default=str))
        written.replace(said)  # there whole or not at all
    done = json.loads(said.read_text())
    assert done["exit_code"] == 0, done["stderr"]
    return DemoRun(**{**done, "folder": Path(done["folder"])})


def _run_demo(folder: Path) -> DemoRun:
    from typer.testing import CliRunner  # only the tests that want the demo pay for these

    from headscope.cli import app

    runner = CliRunner(env={"COLUMNS": "120"})
    done = runner.invoke(app, ["analyze", "--demo", "--out", str(folder)])
    said = done.stderr if done.exception is None else f"{done.stderr}\n{done.exception!r}"
    return DemoRun(folder, done.stdout, said, done.exit_code)
