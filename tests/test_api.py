"""The package as a script meets it: names, options, messages, and what is refused before work."""

import logging
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

import headscope as hs
from headscope.cli import app
from headscope.contracts import Watch
from headscope.engine.resolve import analysis_kinds, build_analysis
from headscope.errors import StudyError, name_parameters
from headscope.options import collect_options
from tests.engine.made import EXAMPLES, run
from tests.planted import PLANTED

TWO = ["A keeper lit her lamp.", "Ships came home late, and nobody slept."]


def call(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def done() -> hs.Run:
    return run(only="position,entropy")


@pytest.mark.parametrize(
    ("only", "measured"),
    [
        ("position", ["position"]),
        ("position,entropy", ["position", "entropy"]),
        ("position, entropy", ["position", "entropy"]),
        (["position,entropy"], ["position", "entropy"]),
        (["position", "entropy", "position"], ["position", "entropy"]),
        (("entropy",), ["entropy"]),
        (build_analysis("entropy"), ["entropy"]),
    ],
)
def test_analyses_are_named_one_by_one_in_a_list_or_with_commas(
    only: Any, measured: list[str]
) -> None:
    assert list(run(only=only, examples=False).manifest["analyses"]) == measured


def test_the_command_takes_names_with_commas_too(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("\n".join(TWO))
    for place, only in enumerate((["position,entropy"], ["position", "--only", "entropy"])):
        out = tmp_path / str(place)
        arguments = ["--text", tmp_path / "two.txt", "--only", *only, "--no-report", "--out", out]
        done = call("analyze", "demo", *arguments)
        assert done.exit_code == 0, done.stderr
        assert list(hs.load_run(out).manifest["analyses"]) == ["position", "entropy"]


def test_a_head_may_be_named_or_counted(done: hs.Run) -> None:
    assert done.card((2, 3)) == done.card("2-3")
    assert done.card((2, 3)).title == "Head 2-3"
    drawn = hs.show(PLANTED, "the boat sails home", head=(3, 5))
    assert drawn.title == "made, head 3-5"
    assert drawn.svg == hs.show(PLANTED, "the boat sails home", head="3-5").svg
    for wrong in ((0, 1), (2, 9), (1, 2, 3)):
        with pytest.raises(hs.HeadscopeError):
            done.card(wrong)
        with pytest.raises(hs.HeadscopeError):
            hs.show(PLANTED, "the boat sails home", head=wrong)


def test_a_wrong_table_is_told_with_the_right_one(done: hs.Run) -> None:
    with pytest.raises(StudyError, match=r"No table 'positon'.* Did you mean 'position'\?"):
        done.tables["positon"]
    with pytest.raises(KeyError):
        done.tables["positon"]
    assert done.tables.get("positon") is None
    assert "positon" not in done.tables


def test_a_run_knows_which_figures_it_has(done: hs.Run) -> None:
    assert "position" in done.figures
    assert "no-such-figure" not in done.figures
    assert "heads-map" not in done.figures, "its table was not measured"
    assert 3 not in done.figures
    assert set(done.figures) >= {"position", "entropy"}
    assert len(done.figures) == len(list(done.figures))
    assert done.figures["position"].to_dict()["$schema"]
    with pytest.raises(KeyError, match="Did you mean 'position'"):
        done.figures["positon"]
    with pytest.raises(StudyError):
        done.figures["positon"]


def test_what_was_left_out_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    done = run(text=["the boat sails home"], examples=False)
    told = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert told == [name_parameters(text) for text in done.manifest["left_out"].values()]
    assert [text.split("'")[1] for text in told] == [
        "dependency",
        "parts-of-speech",
        "word-pieces",
        "trees",
        "coreference",
        "gap",
        "induction",
    ]
    assert 'treebank="FILE.conllu"' in told[0]
    assert not any("--" in text for text in told)


@pytest.mark.parametrize(
    ("options", "flags", "in_python", "on_command_line"),
    [
        ({"limit": 0}, ["--limit", "0"], "limit=0 cannot", "--limit 0 cannot"),
        ({"max_tokens": 3}, ["--max-tokens", "3"], "max_tokens=3 cannot", "--max-tokens 3 cannot"),
        ({"heads": "1-1"}, ["--heads", "1-1"], 'also="ablation"', "--also ablation"),
        ({"only": "gap"}, ["--only", "gap"], 'coref="gap-valid', "--coref gap-validation.tsv"),
        (
            {"token_classes": {"cls": ["x"]}},
            ["--token-class", "cls=x"],
            "token_classes=",
            "--token",
        ),
    ],
)
def test_messages_name_parameters_in_python_and_flags_on_the_command_line(
    tmp_path: Path, options: Any, flags: list[str], in_python: str, on_command_line: str
) -> None:
    with pytest.raises(StudyError) as error:
        hs.analyze("demo", text=TWO, out=tmp_path / "run", **options)
    assert in_python in str(error.value)
    assert on_command_line not in str(error.value)
    told = call("analyze", "demo", "--text", "starter", *flags, "--out", tmp_path / "run")
    assert told.exit_code == 2
    assert on_command_line in told.stderr
    assert in_python not in told.stderr
    assert not (tmp_path / "run").exists()


WITH_PIECES = [n for n, kind in analysis_kinds().items() if "query_pieces" in collect_options(kind)]


def test_what_reads_words_lets_one_choose_pieces() -> None:
    assert WITH_PIECES == ["dependency", "parts-of-speech", "trees", "coreference", "gap"]


@pytest.mark.parametrize("name", WITH_PIECES)
def test_nonsense_about_pieces_is_refused_before_any_work(name: str, tmp_path: Path) -> None:
    message = "query_pieces=.*nonsense.* cannot be used. Expected mean or first"
    with pytest.raises(StudyError, match=message):
        build_analysis(name, {"query_pieces": "nonsense"})
    with pytest.raises(StudyError, match=message):
        run(text=None, treebank=EXAMPLES, only=[name], query_pieces="nonsense", out=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_probes_refuse_nonsense_before_any_work(tmp_path: Path) -> None:
    given = {"train": EXAMPLES, "test": EXAMPLES, "out": tmp_path / "run"}
    with pytest.raises(StudyError, match=r"query_pieces=.*nonsense.* cannot be used"):
        hs.probe("no-such-model", query_pieces="nonsense", **given)
    with pytest.raises(StudyError, match=r"No option 'limt'.*Known: "):
        hs.probe("no-such-model", limt=3, **given)
    with pytest.raises(hs.HeadscopeError, match="no-such-vectors"):
        hs.probe("no-such-model", vectors="no-such-vectors.txt", **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--train", "A", "--treebank", "A", "--treebank", "B"], "with 2 treebanks. Expected one"),
        (["--train", "A", "--treebank", "B", "--vectors", "no.txt"], "no.txt is not a file"),
        (["--train", "A", "--text", "starter"], "add --treebank"),
        (["--treebank", "A", "--vectors", "no.txt"], "add --train"),
        (["--treebank", "A", "--query-pieces", "nonsense"], "--query-pieces nonsense cannot"),
    ],
)
def test_commands_that_cannot_end_well_do_not_begin(
    tmp_path: Path, flags: list[str], message: str
) -> None:
    row = "1\tIt\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tsinks\t_\t_\t_\t_\t0\troot\t_\t_\n"
    for name in "AB":
        (tmp_path / f"{name}.conllu").write_text(row)
    places = {name: str(tmp_path / f"{name}.conllu") for name in "AB"}
    given = [places.get(flag, flag) for flag in flags]
    told = call("analyze", "demo", *given, "--out", tmp_path / "run")
    assert told.exit_code == 2
    assert message in told.stderr
    assert not (tmp_path / "run").exists()


def test_the_probe_command_refuses_missing_vectors_before_any_work(tmp_path: Path) -> None:
    trees = ["--train", "starter", "--test", "starter"]
    told = call("probe", "no-such-model", *trees, "--vectors", "no.txt", "--out", tmp_path / "run")
    assert told.exit_code == 2
    assert "no.txt" in told.stderr
    assert not (tmp_path / "run").exists()


def test_two_models_are_matched_at_a_revision() -> None:
    matched = hs.match_models("demo", "demo", text=TWO, revision="main", rows=4, progress=False)
    assert (matched.tables["head-matches"]["divergence"] < 1e-6).all()
    assert matched.manifest["analyses"]["head-matches"]["rows"] == 4


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("limt", "limit"), ("querypieces", "query_pieces"), ("max_token", "max_tokens")],
)
def test_an_unknown_option_is_told_with_the_nearest_one(wrong: str, right: str) -> None:
    with pytest.raises(StudyError, match=rf"No option '{wrong}'\..* Did you mean '{right}'\?"):
        hs.analyze("demo", text=TWO, **{wrong: 3})
    with pytest.raises(StudyError, match=r"No option 'haed'.* Did you mean 'head'"):
        hs.show("demo", TWO[0], haed="1-1")
    with pytest.raises(StudyError, match=r"No option 'revison'.* Did you mean 'revision'"):
        hs.match_models("demo", "demo", text=TWO, revison="main")


def test_an_option_that_nothing_in_the_run_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="null_arcs=3 does nothing: it is an option of dep"):
        run(only="position", null_arcs=3, out=tmp_path / "run")
    with pytest.raises(StudyError, match="rows=3 does nothing: it is an option of distance"):
        run(only="position", rows=3, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_costs_more_than_a_forward_pass_runs_only_when_asked_for() -> None:
    costly = {n for n, kind in analysis_kinds().items() if kind.watches.is_costly}
    pairs = {n for n, kind in analysis_kinds().items() if kind.watches is Watch.MODEL_PAIR}
    assert costly == {"gradient", "ablation", "importance", "induction-proof", "copying"}
    measured = run(examples=False, treebank=EXAMPLES[:5]).manifest["analyses"]
    assert not (costly | pairs) & measured.keys()


def test_a_message_shows_the_beginning_of_a_word_of_thousands_of_letters() -> None:
    said = str(StudyError(f"No list of {'x' * 5000!r}. Known: tables."))
    assert said.startswith("No list of 'xxx")
    assert said.endswith("x ... Known: tables.")
    assert len(said) < 400
