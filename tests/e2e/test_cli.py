"""The command line as people meet it."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from headscope.cli import app
from headscope.corpora.starter import STARTER
from tests.conftest import DemoRun
from tests.models.tiny import build_model, build_tokenizer
from tests.terminal import CTRL_C, stop_in_the_middle

MEASURED = ("position", "special-tokens", "entropy")
COMMAND = [sys.executable, "-c", "from headscope.cli import main; main()"]
TEXT = "\n".join(
    f"The keeper of lighthouse {i} lit her lamp, and ship {i} found its way home.\n"
    f"Nobody on board of ship {i} knew the keeper's name."
    for i in range(30)
)


def call(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "ships.txt"
    path.write_text(TEXT)
    return path


def test_the_demo_writes_tables_and_prints_a_summary(demo_run: DemoRun) -> None:
    assert demo_run.exit_code == 0, demo_run.stderr
    assert "previous token" in demo_run.stdout
    assert "1-3" in demo_run.stdout  # the head of this model that looks back
    assert f"{demo_run.folder}" in demo_run.stderr.replace("\n", "")
    position = pd.read_csv(demo_run.folder / "tables/position.csv")
    assert len(position) == 6 * 12 * 3
    back = position[(position["layer"] == 1) & (position["head"] == 3)].iloc[0]
    assert back["low"] > 0.9


def test_data_goes_to_stdout_and_talk_to_stderr(tmp_path: Path, text: Path) -> None:
    options = ["--text", text, "--limit", 5, "--no-report"]
    csv = call("analyze", "demo", *options, "--out", tmp_path / "a", "--format", "csv")
    blocks = dict(block.split("\n", 1) for block in csv.stdout.split("# ")[1:])
    assert blocks.keys() == {"behaviours", "distance-layers"}
    table = pd.read_csv(StringIO(blocks["behaviours"]))
    assert set(table["behaviour"]) >= {"previous token", "everything, broadly"}
    assert "In short:\n- " in csv.stderr
    assert " examples used" in csv.stderr.partition("In short:")[2]
    assert "text: 5 of " in csv.stderr
    as_json = call("analyze", "demo", *options, "--out", tmp_path / "b", "--format", "json")
    assert len(json.loads(as_json.stdout)["behaviours"]) == len(table)


def test_fewer_examples_than_asked_for_are_all_used_and_said(tmp_path: Path, text: Path) -> None:
    only = ["--only", "position", "--out", tmp_path / "run"]
    done = call("analyze", "demo", "--text", text, "--limit", 99, *only)
    assert done.exit_code == 0
    assert "ships.txt has 30 examples, fewer than --limit 99." in done.stderr


@pytest.mark.parametrize("kind", ["analyses", "corpora", "models"])
def test_lists_name_everything_in_every_format(kind: str) -> None:
    rows = json.loads(call("list", kind, "--format", "json").stdout)
    assert rows
    for format in ("table", "csv"):
        printed = call("list", kind, "--format", format).stdout
        assert all(row["name"] in printed for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["analyze"], "No model was named"),
        (["analyze", "demo", "--only", "position"], "nothing to read"),
        (["analyze", "demoo", "--text", "TEXT"], "Did you mean 'demo'"),
        (["analyze", "demo", "--text", "no-such.txt"], "no such file or folder"),
        (["analyze", "demo", "--text", "EMPTY"], "is empty"),
        (["analyze", "demo", "--text", "TEXT", "--only", "positon"], "Did you mean 'position'"),
        (["analyze", "demo", "--text", "TEXT", "--max-tokens", "513"], "takes at most 512"),
        (["analyze", "demo", "--text", "TEXT", "--dtype", "float8"], "No dtype 'float8'"),
        (["analyze", "demo", "--text", "TEXT", "--rows", "0"], "--rows 0 cannot be used"),
        (["distance", "demo", "demo", "--text", "no.txt", "--out", "OUT"], "no such file"),
        (["layout", "OUT"], "is not a run"),
        (["analyze", "demo", "--text", "TEXT", "--device", "tpu9"], "Device 'tpu9'"),
        (["analyze", "demo", "--text", "TEXT", "--token-class", "x"], "Token class 'x'"),
        (["list", "modles"], "Did you mean 'models'"),
        (["merge", "nowhere", "--out", "OUT"], "is not a run"),
    ],
)
def test_mistakes_end_with_a_clear_message_and_exit_code_2(
    tmp_path: Path, text: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "empty.txt").touch()
    places = {"TEXT": text, "EMPTY": tmp_path / "empty.txt", "OUT": tmp_path / "out"}
    given = [str(places.get(argument, argument)) for argument in arguments]
    if given[0] == "analyze":
        given += ["--out", str(tmp_path / "out")]
    done = call(*given)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.output
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_treebank_gives_the_best_heads_and_single_tables_print(tmp_path: Path) -> None:
    options = ["--treebank", "starter", "--limit", 30, "--null", 1]
    only = ["--only", "dependency", "--only", "trees", "--min-count", 20, "--no-report"]
    done = call("analyze", "demo", *options, *only, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "untrained" in done.stdout
    assert "8-11 94.3 (51.7)" in done.stdout  # the paper's determiners
    printed = call("table", tmp_path / "run", "trees", "--format", "csv").stdout
    assert {"head", "right-branching"} <= set(pd.read_csv(StringIO(printed))["system"])
    unknown = call("table", tmp_path / "run", "tree")
    assert unknown.exit_code == 2
    assert "No table 'tree'" in unknown.stderr
    assert "Did you mean 'trees'" in unknown.stderr
    assert unknown.stdout == ""


def test_coreference_prints_the_papers_table_and_skips_bad_files_when_told(tmp_path: Path) -> None:
    (tmp_path / "good.conllu").write_text(STARTER.read_text())
    (tmp_path / "bad.conllu").write_text("junk\n")
    options = ["--coref", tmp_path, "--only", "coreference", "--no-report"]
    stopped = call("analyze", "demo", *options, "--out", tmp_path / "a")
    assert stopped.exit_code == 2
    assert "bad.conllu:1" in stopped.stderr
    assert "--skip-bad" in stopped.stderr
    done = call("analyze", "demo", *options, "--skip-bad", "--out", tmp_path / "b")
    assert done.exit_code == 0, done.output
    assert "27/52/69/65" in done.stdout
    assert "bad.conllu:1" in done.stderr
    said = done.stderr.replace("\n", " ")
    assert "mentions not scored because every antecedent is in another window: 82" in said
    table = pd.read_csv(tmp_path / "b/tables/coreference-best.csv")
    assert set(table["window"]) == {128, 512}
    best = table[(table["mention_type"] == "all") & (table["candidates"] == "mentions")]
    assert (best["accuracy"] > best["head_match"]).all()  # as in the paper
    assert (best["head_match"] > best["nearest"]).all()


def test_heads_of_two_models_are_matched_and_a_map_is_drawn_anew(
    tmp_path: Path, text: Path
) -> None:
    options = ["--text", text, "--limit", 4]
    done = call("distance", "demo", "random-init:demo", *options, "--out", tmp_path / "pair")
    assert done.exit_code == 0, done.output
    assert "mean divergence of matches" in done.stdout
    assert re.search(r"4( of \d+)? examples used", done.stderr)
    assert len(pd.read_csv(tmp_path / "pair/tables/head-matches.csv")) == 6 * 12
    folder = ["--out", tmp_path / "run"]
    assert call("analyze", "demo", *options, "--only", "distance", *folder).exit_code == 0
    before = (tmp_path / "run/report.html").read_text()
    drawn = call("layout", tmp_path / "run", "--clusters", 5, "--format", "json")
    assert {row["cluster"] for row in json.loads(drawn.stdout)} == {1, 2, 3, 4, 5}
    readable = call("layout", tmp_path / "run", "--clusters", 5)
    assert readable.stdout.count("\n") == 1 + 5
    assert "Stress of the map" in readable.stderr
    after = (tmp_path / "run/report.html").read_text()
    maps = [
        page.partition('id="spec-heads-map"')[2].partition("</script>")[0]
        for page in (before, after)
    ]
    assert "cluster" in maps[0]
    assert maps[0] != maps[1], "the page still shows the old clusters"


def test_a_report_does_without_a_table_that_is_gone_and_says_so(tmp_path: Path, text: Path) -> None:
    options = ["--text", text, "--limit", 3, "--only", "position,entropy", "--null", 1]
    assert call("analyze", "demo", *options, "--out", tmp_path / "run").exit_code == 0
    (tmp_path / "run/tables/entropy.parquet").unlink()
    (tmp_path / "run/untrained/entropy.parquet").unlink()
    done = call("report", tmp_path / "run", "--figures", "svg")
    assert done.exit_code == 0, done.stderr
    assert "Table tables/entropy of" in done.stderr
    assert "Table untrained/entropy of" in done.stderr
    page = (tmp_path / "run/report.html").read_text()
    assert 'id="figure-position"' in page
    assert 'id="figure-entropy"' not in page
    assert "Broad and narrow attention: measure it with" in page
    assert [path.name for path in (tmp_path / "run/figures").iterdir()].count("position.svg") == 1
    (tmp_path / "run/tables/position.parquet").write_bytes(b"no table")
    damaged = call("report", tmp_path / "run")
    assert damaged.exit_code == 2
    assert "position.parquet is missing or damaged" in damaged.stderr


def test_a_sentence_too_long_for_the_model_is_skipped_and_named(tmp_path: Path) -> None:
    row = "{}\tword\t_\t_\t_\t_\t{}\t{}\t_\t_\n"
    long = "".join(row.format(i, i - 1, "dep" if i > 1 else "root") for i in range(1, 600))
    short = row.format(1, 0, "root") + row.format(2, 1, "obj")
    path = tmp_path / "bank.conllu"
    path.write_text(f"# sent_id = endless\n{long}\n# sent_id = short\n{short}")
    done = call("analyze", "demo", "--treebank", path, "--no-report", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert "1 skipped: longer than 512 tokens (endless)" in done.stderr.replace("\n", "")


def test_a_treebank_without_heads_leaves_dependencies_out_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "words.conllu"
    path.write_text("1\tword\t_\t_\t_\t_\t_\t_\t_\t_\n")
    done = call("analyze", "demo", "--treebank", path, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert "Skipped 'dependency': no treebank with dependency trees was given" in done.stderr
    assert "(--treebank FILE.conllu)" in done.stderr
    asked = call("analyze", "demo", "--treebank", path, "--only", "dependency", "--out", "b")
    assert asked.exit_code == 2
    assert "Skipped 'dependency': no treebank with dependency trees was given" in asked.stderr
    assert not Path("b").exists()


def test_a_second_run_into_the_same_folder_needs_resume(tmp_path: Path, text: Path) -> None:
    command = ["analyze", "demo", "--text", text, "--limit", 3, "--out", tmp_path / "run"]
    command += ["--only", "position,distance", "--no-report"]
    assert call(*command).exit_code == 0
    refused = call(*command)
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    assert call(*command, "--resume").exit_code == 0


def analyze_slowly(place: Path, out: Path, *more: str) -> list[str]:
    """The arguments of a run of the model and the text in a folder, with many saves."""
    options = ["--shard-examples", "1", "--no-report", "--only", ",".join(MEASURED)]
    text = ["--text", str(place / "ships.txt")]
    return ["analyze", str(place / "model"), *text, "--out", str(out), *options, *more]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny model, a text that is long enough to be interrupted at, and a run."""
    folder = tmp_path_factory.mktemp("ships")
    for part in (build_model("bert"), build_tokenizer("wordpiece")):
        part.save_pretrained(folder / "model")
    (folder / "ships.txt").write_text("\n".join([TEXT] * 2))
    done = call(*analyze_slowly(folder, folder / "whole"))
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.mark.parametrize("key", [CTRL_C, None])
def test_a_stopped_run_resumes_to_the_same_tables(
    tmp_path: Path, uninterrupted: Path, key: bytes | None
) -> None:
    sums = tmp_path / "killed/tallies/text.safetensors"
    command = [*COMMAND, *analyze_slowly(uninterrupted, tmp_path / "killed")]
    code, said = stop_in_the_middle(command, sums.exists, key)
    if key:
        assert code == 130, said
        assert "\nInterrupted.\nFinished work is saved. Continue with:\n  headscope analyze" in said
        assert "Traceback" not in said
    stages = ["loading libraries", "reading corpora", "loading the model"]
    assert sorted(stages, key=said.index) == stages
    assert not (tmp_path / "killed/tables").exists(), "the run ended before it was killed"
    resumed = call(*analyze_slowly(uninterrupted, tmp_path / "killed", "--resume"))
    assert resumed.exit_code == 0, resumed.stderr
    for name in MEASURED:
        one, other = (
            (run / "tables" / f"{name}.csv").read_bytes()
            for run in (uninterrupted / "whole", tmp_path / "killed")
        )
        assert one == other


def test_without_finished_work_nothing_is_said_of_it(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    command = ["analyze", "demo", "--text", text, "--only", "position", "--out"]
    for out in ("/proc/headscope-run", text / "run"):
        done = call(*command, out)
        assert done.exit_code == 2
        assert "cannot be written" in done.stderr
        assert "resume" not in done.stderr
    monkeypatch.setattr("headscope.engine.work.Worker.measure", interrupt)
    done = call(*command, tmp_path / "run")
    assert done.exit_code == 130
    assert "resume" not in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_run_beside_the_usual_folder_is_continued_there(
    tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs/demo").mkdir(parents=True)
    (tmp_path / "runs/demo/notes").write_text("")
    monkeypatch.setattr("headscope.engine.analyze.finish_run", interrupt)
    done = call("analyze", "demo", "--text", text, "--limit", 3, "--only", "position")
    assert done.exit_code == 130
    assert "--out runs/demo-2 --resume" in done.stderr


def test_a_disk_that_fills_up_ends_with_a_message(tmp_path: Path, text: Path) -> None:
    command = ["analyze", "demo", "--text", text, "--out", tmp_path / "run"]
    command += ["--limit", 5, "--only", "position,entropy"]
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, usual[1]))  # the longest that a file may be
    try:
        done = call(*command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert done.exit_code == 2, done.output
    assert "cannot be written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "run/tables").exists()
    assert not list((tmp_path / "run").rglob(".*"))


def test_ctrl_c_ends_probes_that_learn_side_by_side_at_once(tmp_path: Path) -> None:
    few = tmp_path / "few.conllu"
    few.write_text(STARTER.read_text().partition("# newdoc id = starter_news")[0])
    options = ["--train", str(few), "--test", str(few), "--allow-overlap", "--only"]
    folder = tmp_path / "run"
    process = subprocess.Popen(
        [*COMMAND, "probe", "demo", *options, "structural-probe", "--out", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "2"},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not list(folder.glob("checkpoints/*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert "--resume" in said
    assert "terminate" not in said
    assert "Traceback" not in said
