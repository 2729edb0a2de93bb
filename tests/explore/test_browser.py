"""The explorer in a real browser: live, and as one file."""

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

import headscope as hs
from headscope.contracts import CorpusRole
from headscope.data.example import Example
from headscope.errors import OutputError
from headscope.explore.maps import PRECISION
from headscope.explore.page import render_page
from headscope.explore.server import LiveServer
from headscope.explore.start import open_session, save_page
from headscope.explore.texts import describe_tokens, encode_text, list_examples
from headscope.models.ablation import AblationSource
from headscope.models.language import HiddenStateOutcome
from headscope.models.loaded import LoadedModel
from headscope.runs.run import load_run
from tests import browser as browsing
from tests.browser import start_browser
from tests.conftest import DemoRun
from tests.explore.made import TEXT, demo_models, make_session, run_server, true_map
from tests.models.test_families import source_of
from tests.toy_seq2seq import toy_examples, toy_tokenizer, train_toy

HOSTILE = "<img src=x onerror=alert(1)> </script><script>document.title='taken'</script> \" ' & ="
GOLD = "#d92b2b"  # gold pairs in the light theme
DRAWN = "#work:not([hidden]) canvas.attention"
WIDTH = """([font, text]) => {
  const ruler = document.createElement("canvas").getContext("2d");
  ruler.font = font;
  return ruler.measureText(text).width;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("uvicorn", reason="the extra 'explore' is not installed")
    yield from start_browser()


class Visit(browsing.Visit):
    def __init__(self, browser: Any, address: str, **settings: Any) -> None:
        super().__init__(browser, address, **settings)
        self.page.wait_for_selector(DRAWN, timeout=60_000)

    def text_of(self, place: str) -> str:
        text: str = self.page.locator(place).inner_text()
        return text

    def look_at(self, text: str) -> None:
        self.page.locator("#text").fill(text)
        with self.page.expect_response(re.compile("/map$")):
            self.page.locator("#look").click()
        self.page.wait_for_function("() => !document.body.hasAttribute('aria-busy')")
        self.page.wait_for_timeout(150)

    def shown_weight(self, row: int, column: int, number: int = 0) -> float:
        """Hover a cell of the matrix, or of the second one: what the page says of it."""
        figure = self.page.locator("#drawings figure").nth(number)
        canvas = figure.locator("canvas.attention")
        canvas.scroll_into_view_if_needed()
        left, top, cell = map(float, canvas.get_attribute("data-cells").split())
        place = {"x": left + (column + 0.5) * cell, "y": top + (row + 0.5) * cell}
        canvas.hover(position=place)
        return float(figure.locator(".cell-said strong").get_attribute("data-weight"))

    def saved_svg(self) -> ElementTree.ElementTree:
        """The drawing, as the page saves it."""
        self.page.evaluate("document.getElementById('keep-part').open = true")
        with self.page.expect_download() as saved:
            self.page.locator("#keep-svg").click()
        return ElementTree.parse(saved.value.path())


@pytest.fixture(scope="module")
def server(demo_run: DemoRun) -> Iterator[LiveServer]:
    pytest.importorskip("uvicorn", reason="the extra 'explore' is not installed")
    run = load_run(demo_run.folder)
    session = make_session(run)
    session.listed = list_examples(run.manifest["passes"].values())
    yield from run_server(LiveServer(session))


@pytest.fixture
def visit(browser: Any, server: LiveServer) -> Iterator[Visit]:
    opened = Visit(browser, server.address)
    yield opened
    opened.page.close()


def test_a_typed_sentence_shows_the_models_weights(visit: Visit) -> None:
    text = "Two small boats were sailing home."
    visit.look_at(text)
    visit.page.get_by_role("button", name="Matrix").click()
    expected = true_map(text, 2, 8)
    for row, column in [(0, 0), (2, 3), (7, 1)]:
        shown = visit.shown_weight(row, column)
        assert shown == pytest.approx(expected[row, column], abs=PRECISION + 1e-6)
    assert "9 tokens" in visit.text_of("#note")
    bars = [bar.bounding_box() for bar in visit.page.locator(".weight-bar").all()]
    assert len(bars) > 2
    assert all(low["y"] >= high["y"] + 15 for high, low in pairwise(bars))  # names can be read
    assert visit.said == []


def test_words_pool_pieces_and_hidden_special_tokens_renormalise(visit: Visit) -> None:
    text = "The unbelievable lighthousekeeper slept."
    visit.look_at(text)
    visit.page.get_by_role("button", name="Matrix").click()
    visit.page.get_by_label("words", exact=True).check()
    visit.page.get_by_label("hide special tokens").check()
    source = demo_models().source
    encoding, _ = encode_text(source, Example("the text", text=text))
    weights, words = true_map(text, 2, 8), encoding.word_ids
    n_words = words.max() + 1
    assert n_words < (words >= 0).sum()  # some word is split
    rows = [weights[words == w][:, words >= 0].mean(axis=0) for w in range(n_words)]
    row = [sum(rows[1][words[words >= 0] == w]) for w in range(n_words)]
    shown = [visit.shown_weight(1, column) for column in range(n_words)]
    assert shown == pytest.approx([one / sum(row) for one in row], abs=0.001)
    assert sum(shown) == pytest.approx(1, abs=0.001)


def test_the_filter_finds_heads_by_name_behaviour_and_plain_word(visit: Visit) -> None:
    for wanted, expected in [("determiner", 1), ("previous token", 1), ("3-", 12), ("xyzzy", 0)]:
        visit.page.locator("#filter").fill(wanted)
        assert visit.text_of("#found") == f"{expected} of 72 heads", wanted
    visit.page.locator("#clear").click()
    assert visit.text_of("#found") == ""


def test_heads_are_sorted_by_a_measure(visit: Visit) -> None:
    visit.page.locator("#measure").select_option("position: previous (weight)")
    visit.page.locator("#sort").select_option("high")
    grid = visit.page.locator("#grid-over")
    grid.click(position={"x": 40, "y": 20})
    assert visit.text_of("#head-title") == "Head 1-3"  # the demo's previous-token head
    grid.hover(position={"x": 40, "y": 20})
    assert "position: previous (weight): 98" in visit.text_of("#tip")


def test_switching_a_head_off_shows_what_ablation_measures(visit: Visit) -> None:
    visit.page.locator("#change-part summary").click()
    visit.page.locator("#switch").click()
    shown = visit.page.locator("#change-mean")
    shown.wait_for()
    head = tuple(int(part) - 1 for part in visit.text_of("#head-title").split()[1].split("-"))
    source = demo_models().source
    assert isinstance(source, LoadedModel)
    encoding, _ = encode_text(source, Example("the text", text=TEXT))
    found: dict[int, Any] = {}
    means = make_session()._mean_outputs(0)
    ablated = AblationSource(HiddenStateOutcome(source), means, [head])  # type: ignore[list-item]
    ablated.attend(source.batch([encoding]), lambda change: found.update({change.layer: change}))
    zero, mean, _ = found[head[0]].changes[0, head[1]].tolist()
    assert float(shown.get_attribute("data-value")) == pytest.approx(zero, abs=1e-6)
    assert "predicts no tokens" in visit.text_of("#change-body")
    with visit.page.expect_response(re.compile("/change$")):
        visit.page.get_by_role("button", name="Mean").click()
    visit.page.wait_for_function(
        "() => !document.querySelector('#change-body').hasAttribute('aria-busy')"
    )
    assert float(shown.get_attribute("data-value")) == pytest.approx(mean, abs=1e-6)


def test_dots_of_the_scatter_are_brushed_and_opened(visit: Visit) -> None:
    visit.page.locator("#tab-scatter").click()
    canvas = visit.page.locator("#scatter")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    visit.page.mouse.move(box["x"] + box["width"] - 120, box["y"] + 5)
    visit.page.mouse.down()
    visit.page.mouse.move(box["x"] + box["width"] - 2, box["y"] + box["height"] - 8, steps=4)
    visit.page.mouse.up()
    assert visit.text_of("#found") == "1 of 72 heads"  # far right: the previous-token head
    canvas.focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("Enter")
    assert "Head 1-1" in visit.text_of("#scatter-said")
    assert visit.text_of("#head-title") == "Head 1-1"


def test_a_head_over_the_corpus_has_examples_of_its_whole_range(visit: Visit) -> None:
    visit.page.locator("#spread-part summary").click()
    visit.page.locator("#spread-role").wait_for()
    with visit.page.expect_response(re.compile("/spread$")):
        visit.page.locator("#spread-role").select_option("position: next")
    visit.page.locator("#spread-body:not([aria-busy])").wait_for()
    rows = visit.page.locator(".range-part")
    counts = [int(rows.nth(i).locator(".value").nth(1).inner_text()) for i in range(rows.count())]
    assert sum(counts) > 25  # windows of all texts of the demo
    id = rows.locator("button").first.get_attribute("title")
    with visit.page.expect_response(re.compile("/map$")):
        rows.locator("button").first.click()
    assert f"id={id}" in visit.page.url
    assert visit.said == []


def test_several_heads_are_overlaid_or_subtracted(visit: Visit) -> None:
    grid = visit.page.locator("#grid-over")
    grid.focus()
    visit.page.keyboard.press("ArrowRight")  # onto the head that is shown
    visit.page.keyboard.press("ArrowRight")
    visit.page.keyboard.press("Space")
    assert visit.text_of("#head-title").startswith("Heads ")
    first, second = re.findall(r"\d+-\d+", visit.text_of("#head-title"))
    visit.page.get_by_role("button", name="Matrix").click()
    visit.page.get_by_role("button", name="Difference").click()
    maps = [true_map(TEXT, *(int(p) - 1 for p in name.split("-"))) for name in (first, second)]
    assert visit.shown_weight(3, 2) == pytest.approx((maps[0] - maps[1])[3, 2], abs=1e-4)


def test_norms_are_those_of_the_model(visit: Visit) -> None:
    visit.page.get_by_role("button", name="Matrix").click()
    with visit.page.expect_response(re.compile("/map$")):
        visit.page.get_by_role("button", name="Norms").click()
    visit.page.wait_for_function("() => !document.body.hasAttribute('aria-busy')")
    source = demo_models().source
    assert isinstance(source, LoadedModel)
    expected = true_map(TEXT, 2, 8, replace(source, weights="norm"))
    assert abs(expected - true_map(TEXT, 2, 8)).max() > 0.1
    for row, column in [(0, 0), (2, 3), (7, 1)]:
        visit.page.wait_for_timeout(100)
        shown = visit.shown_weight(row, column)
        assert shown == pytest.approx(expected[row, column], abs=PRECISION + 1e-6)
    assert "weights=norm" in visit.page.url
    assert visit.said == []


def test_a_coreference_chain_is_drawn_from_each_mention_to_the_one_before(
    browser: Any, server: LiveServer
) -> None:
    (documents,) = (c for c in server.session.listed.corpora if c.role is CorpusRole.COREF)
    example = min(documents.examples.values(), key=lambda one: len(one.words or ()))
    asked = f"#id={quote(example.id)}&gold=coreference&view=lines&words=true&hide=true"
    opened = Visit(browser, server.address + asked)
    drawn = opened.saved_svg()
    names = [one for one in drawn.findall("{*}text") if one.get("text-anchor") == "end"][1:]
    assert len(names) == len(example.words or ())
    places = [float(one.get("y")) - 0.35 * float(one.get("font-size")) for one in names]
    red = [path.get("d") for path in drawn.findall("{*}path") if path.get("stroke") == GOLD]
    lines = re.findall(r"M\S+ (\S+?)L\S+ ([\d.]+)", "".join(red))
    nearest = [
        tuple(min(range(len(places)), key=lambda word: abs(places[word] - float(y))) for y in line)
        for line in lines
    ]
    encoding, _ = encode_text(demo_models().source, example)
    chains = describe_tokens(encoding, 0)["chains"]
    assert len(chains) > 3
    assert set(nearest) == {(mention, before) for mention, before, _ in chains}
    assert opened.said == []
    opened.page.close()


def test_an_example_has_its_gold_arcs_and_its_command(visit: Visit) -> None:
    visit.page.locator("#choose").click()
    visit.page.locator("#chooser-find").fill("beaver-5")
    visit.page.locator(".example").first.click()
    visit.page.wait_for_selector("#gold")
    visit.page.locator("#gold").select_option("det")
    visit.page.locator("#keep-part summary").click()
    command = visit.text_of("#command")
    assert "--sentence starter_encyclopedia_beaver-5 --head 3-9 --relation det" in command


def test_the_address_reproduces_the_view(visit: Visit, browser: Any) -> None:
    visit.look_at("Bees fly far.")
    visit.page.get_by_role("button", name="Matrix").click()
    visit.page.get_by_label("hide special tokens").check()
    again = Visit(browser, visit.page.url)
    assert again.page.locator("#text").input_value() == "Bees fly far."
    assert again.page.get_by_label("hide special tokens").is_checked()
    assert again.shown_weight(1, 2) == pytest.approx(visit.shown_weight(1, 2), abs=1e-9)
    again.page.close()


def test_two_texts_stand_side_by_side(visit: Visit) -> None:
    visit.page.locator("#compare").click()
    visit.page.locator("#text2").fill("The keeper lit her pipe.")
    visit.page.keyboard.press("Enter")
    visit.page.locator("#note", has_text=" 8 tokens").wait_for()
    visit.page.locator("canvas.attention").nth(1).wait_for()  # drawn once its map has come
    assert visit.page.locator("canvas.attention").count() == 2
    visit.page.locator("#side-1").click()
    assert visit.said == []


def test_two_models_stand_side_by_side(browser: Any, tmp_path: Path) -> None:
    sources = [demo_models().source, source_of("llama")]
    session = open_session(sources[0], beside=sources[1], text=TEXT, head="2-3")
    running = run_server(LiveServer(session))
    opened = Visit(browser, f"{next(running).address}#view=matrix")
    page = opened.page
    page.locator("canvas.attention[data-cells]").nth(1).wait_for()
    assert opened.text_of("#model-name") == "demo and llama"
    captions = page.locator("#drawings figcaption strong").all_inner_texts()
    assert captions == ["demo 2-3", "llama 2-3"]
    for number, source in enumerate(sources):
        expected = true_map(TEXT, 1, 2, source)
        shown = opened.shown_weight(4, 2, number)
        assert shown == pytest.approx(expected[4, 2], abs=PRECISION + 1e-6)
    page.locator("#side-1").click()  # the grid of the second
    page.locator("#filter").fill("3-")
    assert opened.text_of("#found") == "5 of 15 heads"
    left, top, wide, high = map(
        float, page.locator("#grid-over").get_attribute("data-cells").split()
    )
    with page.expect_response(re.compile("/map$")):
        page.locator("#grid-over").click(position={"x": left + 4.5 * wide, "y": top + 2.5 * high})
    page.wait_for_timeout(200)
    assert opened.text_of("#head-title") == "Head 2-3 and Head 3-5"  # each has its own
    page.locator("#side-0").click()
    assert opened.text_of("#found") == "12 of 72 heads"
    page.locator("#keep-part summary").click()
    with page.expect_download(timeout=60_000) as saved:
        page.locator("#keep-page").click()
    saved.value.save_as(tmp_path / "pair.html")
    opened.look_at("Bees fly far.")
    assert page.locator("#text2").input_value() == "Bees fly far."  # the same words for both
    page.evaluate("location.hash = '#view=matrix&heads=5-9'")
    page.locator("#drawings .problem", has_text="llama has no head 5-9").wait_for()
    assert page.locator("canvas.attention").count() == 1  # the first model has it
    assert opened.said == []
    page.close()
    next(running, None)
    kept = Visit(browser, (tmp_path / "pair.html").as_uri())
    kept.page.locator("canvas.attention[data-cells]").nth(1).wait_for()
    expected = true_map(TEXT, 2, 4, sources[1])[4, 2]
    assert kept.shown_weight(4, 2, 1) == pytest.approx(expected, abs=PRECISION + 1e-6)
    assert kept.said == []
    kept.page.close()


def test_an_encoder_decoder_shows_each_kind_of_its_attention(browser: Any, tmp_path: Path) -> None:
    model, given = train_toy("copy"), {"tokenizer": toy_tokenizer()}
    run = hs.analyze(model, text=toy_examples("copy", 20), only="position,word-alignment", **given)
    session = open_session(model, run=run, text="w1 w2 w3 ||| w4 w5", head="1-2", **given)
    kept = Visit(browser, save_page(session, tmp_path / "kinds.html").as_uri())
    page = kept.page
    options = page.locator("#model option").all_inner_texts()
    assert [option.rpartition(", ")[2] for option in options] == [
        "encoder", "decoder", "cross attention",
    ]  # fmt: skip
    n_measures = {}
    for number, n_tokens in enumerate((4, 3, 7)):
        page.locator("#model").select_option(str(number))
        page.wait_for_function(
            f"document.getElementById('note').textContent.includes('{n_tokens} tokens')"
        )
        n_measures[number] = page.locator("#measure option").count()
    assert n_measures[2] > n_measures[1]  # error rates of alignment are of cross attention alone
    assert kept.said == []
    page.close()


def test_the_keyboard_alone_is_enough(visit: Visit) -> None:
    page = visit.page
    page.locator("#text").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("Birds sing.")
    with page.expect_response(re.compile("/map$")):
        page.keyboard.press("Enter")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "grid-over":
            break
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    assert visit.text_of("#head-title") == "Head 2-8"  # from 3-9
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.className") == "attention":
            break
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "birds attends to" in visit.text_of(".row-list")


@pytest.mark.parametrize("text", [HOSTILE, "🙂 👩‍👩‍👧 שלום עולם مرحبا", "\u202eabc\u0000 x"])
def test_strange_text_is_only_ever_text(visit: Visit, text: str) -> None:
    visit.look_at(text)
    assert visit.said == []
    assert "taken" not in visit.page.title()
    assert visit.page.locator("#drawings img, #drawings script").count() == 0
    assert visit.saved_svg().getroot().tag.endswith("svg")


def test_pictures_and_numbers_are_saved(visit: Visit) -> None:
    visit.page.locator("#keep-part summary").click()
    files = {}
    for kind in ("svg", "png", "csv"):
        with visit.page.expect_download() as saved:
            visit.page.locator(f"#keep-{kind}").click()
        files[kind] = Path(saved.value.path()).read_bytes()
    assert b"keeper" in files["svg"]
    assert files["png"].startswith(b"\x89PNG")
    rows = files["csv"].decode().splitlines()
    n = len(true_map(TEXT, 0, 0))
    assert len(rows) == n * n + 1
    head, *_, weight = rows[2 * n + 4].split(",")
    assert float(weight) == pytest.approx(true_map(TEXT, 2, 8)[2, 3], abs=1e-4)
    assert head == "3-9"


def test_long_names_are_shortened_to_the_room_there_is(browser: Any, server: LiveServer) -> None:
    text = quote("The electroencephalographically WWWWWWWWWWWWWWWWWWWW lighthousekeeper slept.")
    opened = Visit(browser, f"{server.address}#words=true&text={text}", width=400)
    for view in ("Lines", "Matrix"):
        opened.page.get_by_role("button", name=view).click()
        texts = opened.saved_svg().findall("{*}text")
        ends = [one for one in texts if one.get("text-anchor") == "end" and one.text != "from"]
        assert len(ends) == 8
        for one in ends:
            font = f"{one.get('font-size')}px system-ui, sans-serif"
            width = opened.page.evaluate(WIDTH, [font, one.text])
            assert width <= float(one.get("x")), (view, one.text)
    opened.page.close()


def test_empty_text_is_told_and_the_last_view_stays(visit: Visit) -> None:
    visit.page.locator("#text").fill("   ")
    visit.page.locator("#look").click()
    assert "empty" in visit.text_of("#note")
    assert visit.page.locator(DRAWN).is_visible()


def test_a_narrow_page_does_not_scroll_sideways(browser: Any, server: LiveServer) -> None:
    opened = Visit(browser, server.address, width=400)
    width = "document.documentElement.scrollWidth"
    assert opened.page.evaluate(width) <= 400
    for part in ("card", "examples", "change", "keep"):
        opened.page.locator(f"#{part}-part summary").click()
    opened.page.locator("#tab-scatter").click()
    opened.page.wait_for_timeout(200)
    assert opened.page.evaluate(width) <= 400
    opened.page.close()


def test_a_stopped_server_is_told_and_the_page_goes_on(browser: Any) -> None:
    running = run_server(LiveServer(make_session()))
    server = next(running)
    opened = Visit(browser, server.address)
    server.stop()
    next(running, None)
    opened.page.locator("#text").fill("Something new.")
    opened.page.locator("#look").click()
    opened.page.wait_for_selector("#stopped:not([hidden])")
    assert "server has stopped" in opened.text_of("#note")
    opened.page.get_by_role("button", name="Matrix").click()
    opened.page.locator("canvas.attention[data-cells]").wait_for()
    assert opened.shown_weight(1, 0) == pytest.approx(true_map(TEXT, 0, 0)[1, 0], abs=PRECISION)
    opened.page.close()


# One file.


def test_the_saved_page_opens_offline_and_says_nothing(
    visit: Visit, browser: Any, tmp_path: Path
) -> None:
    visit.page.locator("#keep-part summary").click()
    with visit.page.expect_download(timeout=60_000) as saved:
        visit.page.locator("#keep-page").click()
    path = tmp_path / "saved.html"
    saved.value.save_as(path)
    opened = Visit(browser, path.as_uri())
    opened.page.get_by_role("button", name="Matrix").click()
    assert opened.shown_weight(3, 2) == pytest.approx(true_map(TEXT, 2, 8)[3, 2], abs=PRECISION)
    opened.page.locator("#filter").fill("determiner")
    assert opened.text_of("#found") == "1 of 72 heads"
    opened.page.locator("#change-part summary").click()
    assert "no model in it" in opened.text_of("#change-body")
    assert opened.said == []
    assert [one for one in opened.asked if not one.startswith("data:")] == [path.as_uri()]
    opened.page.close()


def test_a_long_text_is_computed_from_queries_and_keys(browser: Any, tmp_path: Path) -> None:
    text = " ".join([TEXT] * 25)
    session = make_session()
    path = tmp_path / "long.html"
    path.write_text(render_page(session, [{"text": text}], {"text": text, "heads": "4-2"}))
    opened = Visit(browser, f"{path.as_uri()}#view=matrix&heads=4-2&text={quote(text)}")
    note = opened.text_of("#note")
    assert "queries and keys" in note
    precision = float(re.search(r"exact to ([\d.e-]+)", note)[1])  # type: ignore[index]
    expected = true_map(text, 3, 1)
    for row, column in [(0, 0), (100, 99), (200, 4)]:
        shown = opened.shown_weight(row, column)
        assert shown == pytest.approx(expected[row, column], abs=1.1 * precision)
    assert opened.said == []
    opened.page.close()


def test_hostile_text_in_a_file_is_only_text(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(render_page(make_session(), [{"text": HOSTILE}], {"text": HOSTILE}))
    opened = Visit(browser, path.as_uri())
    assert opened.said == []
    assert opened.page.title() == "headscope explore: demo"
    assert opened.page.locator("#text").input_value() == HOSTILE
    opened.page.close()


def test_a_file_must_end_in_html(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"\.html"):
        save_page(make_session(), tmp_path / "page.txt")
    assert save_page(make_session(), tmp_path / "page.html").stat().st_size > 50_000
