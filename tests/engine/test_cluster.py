"""A run on a cluster of two nodes: the same tables, whatever dies."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any

import psutil
import pytest
import torch
from typer.testing import CliRunner

from headscope.cli import build_app
from headscope.contracts import CorpusRole
from headscope.corpora.collection import MemoryCorpus
from headscope.engine import analyze as analyze_module
from headscope.engine import checkpoint
from headscope.engine.batch_models import analyze_models
from headscope.engine.cluster import Handle, open_pool
from headscope.engine.measure import Result
from headscope.engine.passes import Pass
from headscope.engine.sample import Shard, draw_sample
from headscope.engine.word_maps import StoredMaps
from headscope.engine.work import measure_on_cluster
from headscope.errors import InputError, StudyError, WriteError
from headscope.options import ClusterOptions, RunOptions
from headscope.runs.run import load_run
from tests.engine.made import EXAMPLES, run
from tests.engine.made_workers import Doubler, MeetingCorpus, open_doubler
from tests.engine.test_batch_models import COMMAND as MODELS_COMMAND
from tests.engine.test_shards import tables_in
from tests.making import MadeSource
from tests.planted import PLANTED, Starve
from tests.terminal import stop_in_the_middle

ray = pytest.importorskip("ray", reason="the extra 'ray' is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

FACTS = {"version of headscope": "same"}
QUICK: dict[str, Any] = {"only": ["position", "distance"], "shard_examples": 4}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, logging_level="warning", log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def double(worker: Doubler, numbers: range, window: int | None = None, **more: Any) -> list[Any]:
    """What comes back from a pool, in the order in which it comes."""
    options = ClusterOptions(ray="auto", workers=more.pop("workers", None))
    with open_pool(options, partial(open_doubler, worker, **more), FACTS) as pool:
        waiting = ((number, 0.02) for number in numbers)
        return list(pool.run("double", lambda: next(waiting, None), window))


def test_tasks_of_dead_workers_are_done_by_others_and_count_once(
    cluster: Any, tmp_path: Path
) -> None:
    faults = {3: "killed", 5: "fails", 8: "killed", 11: "always fails"}
    found = double(Doubler(tmp_path, faults), range(20))
    assert sorted(number for number, _ in found) == list(range(20))
    results = dict(found)
    assert "MemoryError: 11 is too much" in results.pop(11)
    assert results == {number: 2 * number for number in range(20) if number != 11}


def test_a_worker_outlives_an_error_of_code_or_data(cluster: Any, tmp_path: Path) -> None:
    found = dict(double(Doubler(tmp_path, {2: "always wrong"}), range(5), workers=1))
    assert "ValueError: 2 is too much" in found.pop(2)
    assert found == {number: 2 * number for number in (0, 1, 3, 4)}
    assert len({begun.read_text() for begun in tmp_path.glob("begun-*")}) == 1, "it was replaced"


def test_a_worker_that_starts_late_has_work_too(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Doubler(tmp_path, {0: "meets", 1: "meets"})
    assert sorted(double(worker, range(2), fact="late")) == [(0, 0), (1, 2)]
    assert "was alone" not in caplog.text


def test_two_models_are_measured_at_the_same_time(cluster: Any, tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("demo", "random-init:demo")}
    text = MeetingCorpus(["A small text.", "Another one."], folder=tmp_path)
    study = {"text": text, "only": ["position"], "ray": "auto", "examples": False}
    assert dict(analyze_models(folders, **study)) == {"demo": "", "random-init:demo": ""}


def test_results_come_in_order_where_that_is_asked_for(cluster: Any, tmp_path: Path) -> None:
    found = double(Doubler(tmp_path, {0: "killed"}), range(12), window=4)
    assert found == [(number, 2 * number) for number in range(12)]


def test_workers_that_differ_are_refused_before_any_work(cluster: Any, tmp_path: Path) -> None:
    with pytest.raises(
        StudyError, match="a different version of headscope: other; the driver has sa"
    ):
        double(Doubler(tmp_path), range(3), fact="other")
    with pytest.raises(InputError, match=r"A worker cannot start: no corpus here\."):
        double(Doubler(tmp_path), range(3), fact="blind")
    assert not list(tmp_path.iterdir())


def test_a_worker_that_runs_out_of_memory_loses_nothing(
    cluster: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few: dict[str, Any] = {"only": ["position"], "shard_examples": 2, "examples": False}
    run(out=tmp_path / "plain", **few)
    starving = MadeSource(Starve(tmp_path, EXAMPLES[9].id))
    done = run(starving, out=tmp_path / "run", ray="auto", workers=1, **few)
    assert "MemoryError: Unable to allocate 1.00 GiB" in caplog.text
    assert done.manifest["status"] == "complete"
    assert tables_in(tmp_path / "run") == tables_in(tmp_path / "plain")


@contextmanager
def small_disk(place: Path) -> Iterator[Callable[[], None]]:
    """A full disk at a folder; what it gives makes room on it."""
    mount = ["mount", "-t", "tmpfs", "-o"]
    place.mkdir(parents=True)
    if subprocess.run([*mount, "size=4k", "tmpfs", str(place)], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield lambda: subprocess.run([*mount, "remount,size=9m", "tmpfs", str(place)], check=True)
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_of_the_driver_is_told_and_nothing_is_lost(
    cluster: Any, tmp_path: Path
) -> None:
    run(out=tmp_path / "plain", **QUICK)
    with small_disk(tmp_path / "disk") as make_room:
        with pytest.raises(WriteError, match=r"cannot be written: No space left"):
            run(out=tmp_path / "disk/run", ray="auto", workers=1, **QUICK)
        make_room()
        run(out=tmp_path / "disk/run", resume=True, **QUICK)
        assert tables_in(tmp_path / "disk/run") == tables_in(tmp_path / "plain")


def test_a_node_with_a_full_disk_loses_what_it_cannot_keep_and_no_more(
    cluster: Any, tmp_path: Path
) -> None:
    disk, options = tmp_path / "disk", ClusterOptions(ray="auto", cpus_per_worker=2)
    with small_disk(disk):
        room = {"object_store_memory": 80 << 20, "object_spilling_directory": str(disk)}
        node = cluster.add_node(num_cpus=2, **room)
        with open_pool(options, partial(open_doubler, Doubler(tmp_path)), FACTS) as pool:
            waiting = iter([(0, 1), (1, 120), (2, 1)])
            found = dict(pool.run("fill", lambda: next(waiting, None)))
        cluster.remove_node(node)
    assert found[1].startswith(f"on {gethostname()}: OutOfDiskError: Local disk is full")
    assert [int(found[number].max()) for number in (0, 2)] == [0, 2]
    assert len({begun.read_text() for begun in tmp_path.glob("begun-*")}) == 1, "it was replaced"


def test_many_models_side_by_side_past_a_full_disk_and_one_that_is_not_there(
    cluster: Any, tmp_path: Path
) -> None:
    folder, listed = tmp_path / "runs", tmp_path / "models.txt"
    listed.write_text("demo\nno/such/model\nrandom-init:demo\n")
    command = [*MODELS_COMMAND, "--models", str(listed), "--out", str(folder), "--resume"]
    app = build_app("analyze")
    with small_disk(folder / "demo") as make_room:
        first = CliRunner().invoke(app, [*command, "--ray", "auto"])
        assert first.exit_code == 3, first.output
        assert re.search("demo failed: .*No space left on device", first.stderr)
        assert "no/such/model failed: " in first.stderr
        assert "2 of 3 models failed" in first.stderr
        kept = (folder / "random-init:demo/tallies/text.safetensors").stat().st_mtime_ns
        listed.write_text("demo\nrandom-init:demo\n")
        make_room()
        again = CliRunner().invoke(app, command)
        assert again.exit_code == 0, again.output
        assert kept == (folder / "random-init:demo/tallies/text.safetensors").stat().st_mtime_ns
        alone = [*MODELS_COMMAND, "demo", "--out", str(tmp_path / "alone")]
        assert CliRunner().invoke(app, alone).exit_code == 0
        assert tables_in(folder / "demo") == tables_in(tmp_path / "alone")


def test_ctrl_c_at_a_terminal_ends_the_workers(cluster: Any, tmp_path: Path) -> None:
    def workers() -> list[psutil.Process]:
        found = []
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                found += [process] * ("ray::Actor" in " ".join(process.cmdline()))
        return found

    sums = tmp_path / "run/tallies/text.safetensors"
    command = [sys.executable, "-m", "headscope", "analyze", "demo", "--text", "starter"]
    command += ["--only", "position", "--shard-examples", "1", "--no-report"]
    command += ["--out", str(tmp_path / "run"), "--ray", cluster.address]
    code, said = stop_in_the_middle(command, lambda: sums.exists() and bool(workers()))
    assert code == 130, said
    assert "\nInterrupted.\nFinished work is saved. Continue with:\n  headscope analyze" in said
    assert "Traceback" not in said
    deadline = time.monotonic() + 30
    while workers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not workers()


def test_a_node_may_come_and_go(cluster: Any, tmp_path: Path) -> None:
    options = ClusterOptions(ray="auto")
    with open_pool(options, partial(open_doubler, Doubler(tmp_path)), FACTS) as pool:
        waiting = ((number, 0.3) for number in range(40))
        found, node, is_gone = {}, cluster.add_node(num_cpus=2), False
        for number, result in pool.run("double", lambda: next(waiting, None)):
            found[number] = result
            n_workers = sum(handle.is_ready for handle in pool.handles)
            if not is_gone and n_workers > 2:
                cluster.remove_node(node, allow_graceful=False)
                is_gone = True
    assert found == {number: 2 * number for number in range(40)}
    assert is_gone, "no worker came to the node that was added"


def test_a_run_on_the_cluster_equals_one_without_and_either_resumes_the_other(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(out=tmp_path / "plain", **QUICK)
    add = checkpoint.SavedSums.add

    def stop(self: Any, shards: Any, result: Any) -> None:
        if len(self.shards) >= 4:
            raise KeyboardInterrupt
        add(self, shards, result)

    on_ray = {"ray": "auto", "workers": 1}
    for first, then in [(on_ray, {}), ({}, on_ray)]:
        folder = tmp_path / f"stopped-{len(first)}"
        with monkeypatch.context() as stopped:
            stopped.setattr(checkpoint.SavedSums, "add", stop)
            with pytest.raises(KeyboardInterrupt):
                run(out=folder, **first, **QUICK)
        run(out=folder, resume=True, **then, **QUICK)
        assert tables_in(folder) == tables_in(tmp_path / "plain")


def open_planted() -> MadeSource:
    return PLANTED


def test_the_store_of_probes_is_the_same_written_side_by_side(cluster: Any, tmp_path: Path) -> None:
    sample = draw_sample(MemoryCorpus(EXAMPLES), None, 0)
    options = RunOptions(shard_examples=5)
    ray = {"cluster": ClusterOptions(ray="auto", workers=1), "open_source": open_planted}
    given: dict[str, dict[str, Any]] = {"plain": {}, "ray": ray}
    for folder, on_cluster in given.items():
        StoredMaps(PLANTED, tmp_path / folder, options, **on_cluster).treebank(sample)
    one, other = (next((tmp_path / f).rglob("maps.u16")).read_bytes() for f in ("plain", "ray"))
    assert one == other


def test_clusters_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(analyze_module, "open_models", pytest.fail)  # it is told before
    with pytest.raises(StudyError, match=r"No Ray cluster can be used at ray=.127"):
        run(ray="127.0.0.1:1", **QUICK)
    with pytest.raises(StudyError, match=r"ray=.nonsense. \(it has no port\)"):
        run(ray="nonsense", **QUICK)
    with pytest.raises(StudyError, match="of a Ray cluster were given"):
        run(workers=2, **QUICK)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(StudyError, match=r"install it with `pip install 'headscope\[ray\]'`"):
        run(ray="local", **QUICK)


PASS = Pass("text", CorpusRole.TEXT, None)


class FakePool:
    """Does tasks here, the last one first; those that hold shard 5 fail."""

    handles = (Handle(None, is_ready=True),)

    def share(self, value: Any) -> Any:
        return value

    def run(self, method: str, take: Any) -> Iterator[tuple[int, Any]]:
        number, quick = 0, Result(seconds={"model": 0.0001})
        while (some := [task for _ in range(4) if (task := take())]) != []:
            for place, (*_, numbers) in reversed(list(enumerate(some))):
                yield number + place, "it fails" if 5 in numbers else quick
            number += len(some)


def test_large_sums_are_added_by_workers_and_a_bad_shard_is_found_among_others() -> None:
    shards = [Shard(number, number, number + 1, 1) for number in range(200)]
    measured: list[int] = []
    sizes: list[int] = []
    pool: Any = FakePool()
    given: Any = ((shard, shard.number) for shard in shards)  # its number for its examples
    for group, result in measure_on_cluster(pool, PASS, None, given, len(shards), lambda n: None):
        time.sleep(0.002)  # adding takes longer than measuring
        sizes.append(len(group))
        numbers = [shard.number for shard, _ in group]
        assert isinstance(result, str) == (numbers[0] == 5)
        measured += numbers
    assert sorted(measured) == list(range(200))
    assert max(sizes) > 4


def test_a_run_that_lacks_a_shard_says_so_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run(out=tmp_path / "whole", **QUICK)

    def measure(worker: Any, pass_: Any, means: Any, shards: Any, *_: Any) -> Any:
        for shard, examples in shards:
            is_bad = shard.number == 1
            result = "MemoryError" if is_bad else worker.measure(pass_, means, [examples])
            yield [(shard, examples)], result

    with monkeypatch.context() as patched:
        patched.setattr(torch, "set_num_threads", lambda n: None)  # those of this process
        patched.setattr(analyze_module, "open_pool", lambda _, r, facts: nullcontext(r()))
        patched.setattr(analyze_module, "measure_on_cluster", measure)
        lacking = run(out=tmp_path / "run", ray="local", **QUICK)
    assert lacking.manifest["status"] == "partial"
    (failed,) = lacking.manifest["failed"]
    assert failed["documents"] == [f"made:{number}" for number in range(4, 8)]
    assert load_run(tmp_path / "run").manifest["counts"]["text"]["used"] == len(EXAMPLES) - 4
    again = run(out=tmp_path / "run", resume=True, **QUICK)
    assert "failed" not in again.manifest
    assert tables_in(tmp_path / "run") == tables_in(tmp_path / "whole")
    assert again.manifest["counts"] == whole.manifest["counts"]
