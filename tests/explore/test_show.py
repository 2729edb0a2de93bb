"""`show`, in Python and on the command line, with the embedded model."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.testing import CliRunner

import headscope
from headscope.cli import app
from headscope.corpora.starter import STARTER
from headscope.errors import HeadscopeError, StudyError, on_command_line
from headscope.models.loaded import LoadedModel
from headscope.view.drawing import RED
from tests.models.tiny import N_HEADS, N_LAYERS, build_model, build_tokenizer

TEXT = "The keeper lit her lamp."
TREES = """# sent_id = ship-1
1	The	the	DET	_	_	2	det	_	_
2	ship	ship	NOUN	_	_	3	nsubj	_	_
3	sails	sail	VERB	_	_	0	root	_	_

# sent_id = ship-2
1	It	it	PRON	_	_	2	nsubj	_	_
2	sinks	sink	VERB	_	_	0	root	_	_

"""


@pytest.fixture(scope="module")
def demo() -> LoadedModel:
    return headscope.load_model("demo")


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    path = tmp_path / "ships.conllu"
    path.write_text(TREES)
    return path


def call(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["show", *map(str, arguments)])


def test_the_previous_token_head_draws_dark_lines_one_row_up(demo: LoadedModel) -> None:
    drawing = headscope.show(demo, TEXT, head="1-3")
    assert drawing.title == "demo, head 1-3"
    for pair in ("keeper → the", "lit → keeper", "her → lit", "lamp → her"):
        assert re.search(rf"<title>{pair} (9\d|100)%", drawing.svg)


def test_several_heads_stand_beside_each_other_in_their_order(demo: LoadedModel) -> None:
    drawing = headscope.show(demo, TEXT, head="3-1, 1-3")
    assert re.findall(r">Head (\d+-\d+)<", drawing.svg) == ["3-1", "1-3"]
    assert drawing.title == "demo, heads 3-1, 1-3"
    assert headscope.show(demo, TEXT, head=["3-1", "1-3"]).svg == drawing.svg
    assert headscope.show(demo, TEXT, head=(1, 3)).title == "demo, head 1-3"
    with pytest.raises(StudyError, match="'x' cannot be read"):
        headscope.show(demo, TEXT, head="1-3,x")


def test_a_layer_has_its_heads_and_no_choice_has_all(demo: LoadedModel) -> None:
    layer = headscope.show(demo, TEXT, layer=6)
    assert layer.svg.count(">Head 6-") == 12
    assert "keeper" in layer.svg.partition("</desc>")[2]
    overview = headscope.show(demo, TEXT)
    assert overview.svg.count("<title>Head ") == 72
    assert "keeper" not in overview.svg.partition("</desc>")[2]


def test_words_are_drawn_whole_with_their_punctuation_apart(demo: LoadedModel) -> None:
    text = "(Donaudampfschiffe don't sink!)"
    drawing = headscope.show(demo, text, head="1-3", words=True, hide_special=True)
    root = ElementTree.fromstring(drawing.svg)
    right = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text") if t.text][-6:]
    assert right == ["(", "Donaudampfschiffe", "don't", "sink", "!", ")"]


def test_a_sentence_of_a_treebank_has_its_arcs_in_red(demo: LoadedModel, trees: Path) -> None:
    whole = headscope.show(demo, treebank=trees, sentence="ship-1", head="3-9")
    one = headscope.show(demo, treebank=trees, sentence="ship-1", head="3-9", relation="det")
    assert whole.svg.count(RED) == 2
    assert one.svg.count(RED) == 1


def test_a_word_of_several_pieces_is_red_in_all_of_them(demo: LoadedModel) -> None:
    drawing = headscope.show(demo, "A Zoogoer slept.", head="1-3", red=["zoogoer"])
    n_pieces = len(demo.encoder.tokenizer.tokenize("zoogoer"))
    assert n_pieces > 1
    assert drawing.svg.count(f'fill="{RED}"') == 2 * n_pieces


def test_a_decoder_can_be_shown() -> None:
    model, tokenizer = build_model("gpt2"), build_tokenizer("gpt2")
    text = "The old boat sails home."
    overview = headscope.show(model, text, tokenizer=tokenizer)
    assert overview.svg.count("<title>Head") == N_LAYERS * N_HEADS
    drawing = headscope.show(model, text, tokenizer=tokenizer, head="2-4", words=True)
    assert "The → The 100%, " in drawing.svg  # the first token sees itself alone


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text": " "}, "The text is empty"),
        ({}, "The text is empty"),
        ({"text": "half \udc80 of it"}, "has half a character"),
        ({"text": TEXT, "head": "9" * 5000 + "-1"}, "Head .{1,70} cannot be read"),
        ({"text": TEXT, "head": "1-3", "layer": 1}, "Both head 1-3 and layer 1"),
        ({"text": TEXT, "head": "3"}, "Head '3' cannot be read"),
        ({"text": TEXT, "head": "7-1"}, "Expected layers 1 to 6 and heads 1 to 12"),
        ({"text": TEXT, "layer": 0}, "no layer 0. Expected layers 1 to 6"),
        ({"text": "boat " * 600}, "takes at most 512 tokens; the text has 602"),
        ({"text": TEXT, "red": ["kepper"]}, "Did you mean 'keeper'"),
        ({"text": TEXT, "relation": "det"}, "a plain text has none"),
        ({"text": TEXT, "sentence": "ship-1"}, "no treebank was given"),
        ({"text": TEXT, "treebank": "TREES"}, "Both a text and a treebank"),
        ({"treebank": "TREES"}, "its first ids are ship-1, ship-2"),
        ({"treebank": "TREES", "sentence": "ship-3"}, "similar ids are ship-"),
        ({"treebank": "TREES", "sentence": "ship-2", "relation": "det"}, "relations: nsubj"),
    ],
)
def test_mistakes_are_explained(
    demo: LoadedModel, trees: Path, options: dict[str, object], message: str
) -> None:
    given = {key: trees if value == "TREES" else value for key, value in options.items()}
    with pytest.raises(StudyError, match=message):
        headscope.show(demo, **given)  # type: ignore[arg-type]


def test_the_command_writes_a_file_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = call("demo", TEXT, "--head", "1-3", "--red", "lamp", "--red", "her")
    assert done.exit_code == 0, done.output
    assert done.stdout == "demo-1-3.svg\n"
    assert "keeper" in (tmp_path / "demo-1-3.svg").read_text()
    page = call("demo", "--treebank", STARTER, "--sentence", "nothing")
    assert page.exit_code == 2
    assert "similar ids are" in page.stderr
    assert page.stdout == ""


def test_an_unknown_ending_is_refused_before_the_model_loads(tmp_path: Path) -> None:
    done = call("no-such-model", TEXT, "--out", tmp_path / "a.jpeg")
    assert done.exit_code == 2
    assert "Expected .svg, .html, .png, .pdf" in done.stderr


def test_errors_of_the_command_are_the_librarys(tmp_path: Path) -> None:
    done = call("demo", "", "--out", tmp_path / "a.svg")
    assert done.exit_code == 2
    with pytest.raises(HeadscopeError) as error:
        headscope.show("demo", "")
    assert "--treebank" not in str(error.value), "Python names parameters"
    with on_command_line():
        assert str(error.value) in done.stderr
