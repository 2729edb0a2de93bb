"""`headscope explore` as a command: what it writes, and what it refuses."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor
from typer.testing import CliRunner

import headscope as hs
from headscope.cli import app
from headscope.contracts import AttentionKind
from headscope.data.example import Example
from headscope.errors import StudyError
from headscope.explore.start import open_session
from headscope.explore.texts import list_foreign
from headscope.files import read_sealed, seal
from headscope.models.seq2seq import OneKind
from headscope.runs.run import load_run
from tests.conftest import DemoRun
from tests.toy_seq2seq import toy_examples, toy_tokenizer, train_toy

TEXT = "The keeper lit her lamp."


def explore(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["explore", "demo", *arguments])
    return done.exit_code, done.output


def test_a_page_is_written_from_a_text(tmp_path: Path) -> None:
    path = tmp_path / "lamp.html"
    code, said = explore("--text", TEXT, "--head", "3-9", "--out", str(path))
    assert code == 0, said
    page = path.read_text()
    assert '"tokens":["[CLS]","the","keeper","lit","her","lamp",".","[SEP]"]' in page
    assert '"heads":"3-9"' in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_lines_of_a_file_are_texts_of_one_page(tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text(f"{TEXT}\n\nBees fly far.\n")
    path = tmp_path / "two.html"
    assert explore("--text", str(tmp_path / "two.txt"), "--out", str(path))[0] == 0
    page = path.read_text()
    assert 'id="layer-1-5"' in page
    assert 'id="layer-2-0"' not in page


@pytest.mark.parametrize("n_characters", [256, 999, 1000])
def test_a_text_may_be_longer_than_the_name_of_a_file(tmp_path: Path, n_characters: int) -> None:
    path = tmp_path / "long.html"
    code, said = explore("--text", ("bees " * 250)[:n_characters], "--out", str(path))
    assert code == 0, said


def test_a_file_of_texts_that_is_not_utf8_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"good\nb\xe4d\n")
    code, said = explore("--text", str(tmp_path / "bad.txt"), "--out", str(tmp_path / "x.html"))
    assert code == 2
    assert "bad.txt:2: byte 2 of the line is not valid UTF-8" in " ".join(said.split())


def test_an_example_of_a_run_is_written_with_the_run(demo_run: DemoRun, tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    sentence = "starter_encyclopedia_beaver-5"
    code, said = explore("--run", str(demo_run.folder), "--sentence", sentence, "--out", str(path))
    assert code == 0, said
    page = path.read_text()
    assert '[0,1,"det"]' in page  # the gold tree
    assert "looks at the previous token" in page  # a card


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", " ", "--out", "x.html"], "empty"),
        (["--text", TEXT, "--out", "x.pdf"], ".html"),
        (["--text", TEXT, "--head", "9-9", "--out", "x.html"], "no head 9-9"),
        (["--text", TEXT, "--head", "first", "--out", "x.html"], "8-10"),
        (["--text", TEXT, "--sentence", "y", "--out", "x.html"], "leave one out"),
        (["--sentence", "nowhere", "--out", "x.html"], "nowhere"),
        (["--run", "nowhere", "--out", "x.html"], "not a run"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = explore(*arguments)
    assert code == 2
    assert message in said
    assert list(tmp_path.iterdir()) == []


def test_a_report_names_the_command_that_opens_a_drawing(demo_run: DemoRun) -> None:
    page = (demo_run.folder / "report.html").read_text()
    assert "headscope explore demo --run RUN --head 3-9 --sentence starter_" in page


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over a file of the user."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "secret.txt").write_text("A secret word.\n")
    hs.analyze("demo", text=folder / "secret.txt", out=folder / "run", only="position")
    return folder


def page_of(folder: Path, *options: str) -> str:
    code, said = explore("--run", str(folder / "run"), "--out", str(folder / "x.html"), *options)
    assert code == 0, said
    return (folder / "x.html").read_text()


SECRET = ["--sentence", "secret.txt:1"]


def test_a_corpus_is_read_if_it_is_allowed_and_as_it_was_measured(own_run: Path) -> None:
    assert "secret" in page_of(own_run, "--read-corpus", *SECRET)
    arguments = ["--run", str(own_run / "run"), "--out", str(own_run / "x.html"), *SECRET]
    for options in ([], ["--no-read-corpus"]):
        code, said = explore(*arguments, *options)
        assert (code, "--read-corpus" in said) == (2, True)


@pytest.mark.parametrize("changes", [{"digest": ""}, {"digest": "0" * 64}, {"path": "hf:x/y"}])
def test_no_file_without_its_digest_and_no_address_is_read(
    own_run: Path, tmp_path: Path, changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(own_run / "run", tmp_path / "run")
    manifest = read_sealed(tmp_path / "run/manifest.json")
    manifest["passes"]["text"] |= changes
    (tmp_path / "run/manifest.json").write_bytes(seal(manifest))
    arguments = ["--run", str(tmp_path / "run"), "--out", str(tmp_path / "x.html"), *SECRET]
    code, said = explore(*arguments, "--read-corpus")
    assert (code, "is listed" in said) == (2, True)


def test_a_relative_path_is_read_only_if_its_content_agrees(
    own_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pass_ = load_run(own_run / "run").manifest["passes"]["text"] | {"path": "secret.txt"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.txt").write_text("Another one.\n")
    assert list_foreign([pass_]) == []
    monkeypatch.chdir(own_run)
    assert list_foreign([pass_]) == ["secret.txt"]


def test_a_run_of_other_weights_is_refused(own_run: Path, tmp_path: Path) -> None:
    shutil.copytree(own_run / "run", tmp_path / "run")
    manifest = read_sealed(tmp_path / "run/manifest.json")
    manifest["model"]["digest"] = "0" * 64
    (tmp_path / "run/manifest.json").write_bytes(seal(manifest))
    code, said = explore("--run", str(tmp_path / "run"), "--out", str(tmp_path / "x.html"))
    assert (code, "other weights" in " ".join(said.split())) == (2, True)


def test_a_run_of_a_whole_encoder_decoder_is_one_of_its_encoder(tmp_path: Path) -> None:
    model, given = train_toy("copy"), {"tokenizer": toy_tokenizer()}
    examples = toy_examples("copy", 6)
    hs.analyze(model, text=examples, out=tmp_path / "run", only="position", **given)
    assert open_session(model, run=tmp_path / "run", **given).run is not None


def test_all_attention_of_an_encoder_decoder_is_shown(tmp_path: Path) -> None:
    model, given = train_toy("copy"), {"tokenizer": toy_tokenizer()}
    examples = toy_examples("copy", 6)
    run = hs.analyze(model, text=examples, only="position", **given)
    session = open_session(model, run=run, text="w1 w2 w3 ||| w4 w5", **given)
    boot = session.boot()
    parts = ["encoder", "decoder", "cross attention"]
    assert [shown["part"] for shown in boot["models"]] == parts
    pair = Example("pair", text="w1 w2 w3", text_pair="w4 w5")
    whole = session.models[0].whole
    assert whole is not None
    n_source, n_target = 4, 3  # </s> after the source, an opening token before the target
    rows = {1: (0, 0, n_target, n_target), 2: (n_source, 0, n_target, n_source)}
    for number, (top, left, height, width) in rows.items():
        kind = OneKind(whole, list(AttentionKind)[number])
        seen: list[Tensor] = []
        kind.attend(kind.batch(kind.encode([pair], 32)), lambda x, s=seen: s.append(x.weights[0]))
        asked = {"text": session.texts[0], "model": number, "head": "2-1"}
        numbers = np.frombuffer(session.map(asked, lambda: None), "<u2") / 65535.0
        n_tokens = len(session.look(asked, lambda: None)["tokens"])
        shown = (numbers**2).reshape(n_tokens, n_tokens)
        block = shown[top : top + height, left : left + width]
        np.testing.assert_allclose(block, seen[1][0], atol=1e-4)
        assert shown.sum() == pytest.approx(block.sum())
        table = run.tables["position"]
        own = table[(table["attention"] == kind.kind.value) & (table["target"] == "previous")]
        (measure,) = [m for m in boot["runs"][number]["measures"] if "previous" in m["name"]]
        assert measure["values"] == pytest.approx(own["weight"].tolist(), rel=1e-4)


def test_a_decoder_needs_a_target() -> None:
    session = open_session(train_toy("copy"), tokenizer=toy_tokenizer(), text="w1 w2 w3")
    assert len(session.look({"text": "w1 w2 w3", "model": 0}, lambda: None)["tokens"]) == 4
    with pytest.raises(StudyError, match=r"Expected a source and its target"):
        session.look({"text": "w1 w2 w3", "model": 2}, lambda: None)
