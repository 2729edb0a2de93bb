"""The report in a real browser: it works, it is quiet, and it stays by itself."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headscope.runs.run import Run
from headscope.view.claim import list_claims
from tests import browser as browsing
from tests.browser import start_browser
from tests.report.made import hostile_run, large_run, matched_run, planted_run

FIRST_DRAWN = "document.querySelector('.canvas').dataset.drawn === 'yes'"
DRAWN = "[...document.querySelectorAll('.canvas')].every(place => place.dataset.drawn === 'yes')"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from start_browser()


class Visit(browsing.Visit):
    def __init__(self, browser: Any, path: Path, **settings: Any) -> None:
        super().__init__(browser, path.as_uri(), width=1200, **settings)

    def wait_until_drawn(self) -> None:
        self.page.wait_for_function(DRAWN, timeout=60_000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted_run().report(tmp_path_factory.mktemp("report") / "report.html")


@pytest.fixture
def visit(browser: Any, path: Path) -> Iterator[Visit]:
    opened = Visit(browser, path)
    yield opened
    opened.page.close()


@pytest.fixture(scope="module")
def searched(browser: Any, path: Path) -> Iterator[Visit]:
    """A page for searches alone, one after the other."""
    opened = Visit(browser, path)
    yield opened
    opened.page.close()


def test_all_figures_draw_without_an_error_or_a_request(visit: Visit, path: Path) -> None:
    visit.wait_until_drawn()
    assert visit.said == []
    assert visit.asked == [path.as_uri()]
    assert visit.page.locator(".canvas svg, .canvas canvas").count() >= 10


def test_the_first_figure_is_drawn_before_the_rest_of_the_page_is_read(
    browser: Any, path: Path, tmp_path: Path
) -> None:
    before, first, *_ = path.read_text().split('<figure id="figure-')
    cut = tmp_path / "cut.html"
    cut.write_text(f'{before}<figure id="figure-{first}')
    opened = Visit(browser, cut)
    opened.wait_until_drawn()
    assert opened.page.locator(".canvas svg.marks").count() == 1
    assert opened.said == []
    opened.page.close()


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (400, 850)])
def test_the_first_screen_has_the_answer_and_the_picture(
    visit: Visit, width: int, height: int
) -> None:
    visit.page.set_viewport_size({"width": width, "height": height})
    answer, picture = visit.page.locator("#answer"), visit.page.locator("#overview")
    assert answer.locator("li").count() >= 3
    assert answer.bounding_box()["y"] + 100 < height
    assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
    box = picture.locator("table.grid").bounding_box()
    if width > 1000:  # beside each other, and both within the screen
        assert box["y"] + box["height"] < height
        assert box["x"] > answer.bounding_box()["x"] + answer.bounding_box()["width"]
        assert box["width"] > 500
    numbers = answer.locator("details").first
    numbers.locator("summary").click()
    assert "[" in numbers.inner_text()


def test_cells_and_heads_in_sentences_open_cards_by_mouse_and_keyboard(visit: Visit) -> None:
    title = visit.page.locator("#card-title")
    visit.page.locator('.grid a[href="#head-2-3"]').click()
    assert title.inner_text() == "Head 2-3"
    visit.page.keyboard.press("Escape")
    named = visit.page.locator("#answer a.head").first
    name = named.inner_text()
    named.click()
    assert title.inner_text() == f"Head {name}"
    visit.page.keyboard.press("Escape")
    assert visit.page.locator(".grid a[tabindex='0']").count() == 1, "one stop of the Tab key"
    visit.page.locator(".grid a[tabindex='0']").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp", "Enter"):
        visit.page.keyboard.press(key)
    assert title.inner_text() == "Head 1-3"


def test_a_card_has_an_address_and_an_unknown_one_is_told(browser: Any, path: Path) -> None:
    opened = Visit(browser, path)
    for name, title in (("3-1", "Head 3-1"), ("99-1", "There is no head 99-1")):
        opened.page.goto("about:blank")
        opened.page.goto(f"{path.as_uri()}#head-{name}")
        assert opened.page.locator("#card-title").inner_text() == title
    assert "15 heads, from 1-1 to 3-5" in opened.page.locator("#card-summary").inner_text()
    assert opened.said == []
    opened.page.close()


def test_a_click_on_a_dot_opens_the_card_of_its_head(visit: Visit) -> None:
    visit.wait_until_drawn()
    dots = visit.page.locator('#figure-position path[aria-roledescription="circle"]')
    assert dots.count() == 3 * 15
    said = dots.nth(3).get_attribute("aria-label") or ""
    name = re.search(r"head: (\d+-\d+)", said)
    assert name, said
    dots.nth(3).click(force=True)
    dialog = visit.page.locator("dialog#card")
    assert dialog.is_visible()
    assert dialog.locator("h2").inner_text() == f"Head {name[1]}"
    visit.page.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_a_click_on_a_cell_of_a_grid_opens_its_card(visit: Visit) -> None:
    visit.wait_until_drawn()
    cell = visit.page.locator('#figure-heads-entropy path[aria-roledescription="rect mark"]').nth(7)
    name = re.search(r"head: (\d+); layer: (\d+)", cell.get_attribute("aria-label") or "")
    assert name
    cell.click(force=True)
    assert visit.page.locator("#card-title").inner_text() == f"Head {name[2]}-{name[1]}"


def test_cards_open_and_turn_by_keyboard(visit: Visit) -> None:
    visit.page.locator('#heads-table button[data-head="2-3"]').focus()
    visit.page.keyboard.press("Enter")
    assert visit.page.locator("#card-title").inner_text() == "Head 2-3"
    assert visit.page.locator("#card-facts dt").count() > 3
    visit.page.keyboard.press("ArrowRight")
    assert visit.page.locator("#card-title").inner_text() == "Head 2-4"
    assert visit.page.evaluate("location.hash") == "#head-2-4"
    visit.page.keyboard.press("ArrowLeft")
    visit.page.keyboard.press("ArrowLeft")
    assert visit.page.locator("#card-title").inner_text() == "Head 2-2"
    visit.page.keyboard.press("Escape")
    visit.page.wait_for_function("location.hash === ''")  # the browser tells of closing a bit later


def test_a_card_draws_bars_ranks_neighbours_and_the_best_example(visit: Visit) -> None:
    visit.page.locator('#heads-table button[data-head="1-2"]').click()
    card = visit.page.locator("dialog#card")
    assert card.locator("#card-summary").inner_text().startswith("Looks at the previous token (")
    bar = card.locator(".part", has_text="previous token").first
    assert "rank 1 of 15" in bar.inner_text()
    assert (
        bar.locator("i").bounding_box()["width"] > 0.5 * bar.locator(".bar").bounding_box()["width"]
    )
    assert card.locator("#card-drawings svg").count() == 1
    link = card.locator("#card-drawings a", has_text="previous token")
    neighbour = card.locator("#card-facts a.head").first
    name = neighbour.inner_text()
    neighbour.click()
    assert card.locator("h2").inner_text() == f"Head {name}"
    visit.page.goto(visit.page.url.split("#")[0] + "#head-1-2")
    link.click()
    assert not card.is_visible()
    place = visit.page.evaluate("location.hash")
    example = visit.page.locator(f"details{place}")
    assert example.get_attribute("open") is not None
    assert example.locator(".drawing svg").first.is_visible()


def test_a_card_charts_the_relations_of_a_head_beside_their_baselines(
    browser: Any, tmp_path: Path
) -> None:
    run = planted_run()
    many = run.tables["dependency"].assign(count=lambda table: 100 * table["count"])
    opened = Visit(
        browser, Run({**run.tables, "dependency": many}, run.manifest).report(tmp_path / "r.html")
    )
    opened.page.locator('#heads-table button[data-head="2-4"]').click()
    topic = opened.page.locator("#card-facts dt", has_text="relations, most above")
    chart = topic.locator("xpath=following-sibling::dd[1]")
    assert chart.locator(".part").count() >= 2
    assert chart.locator(".part .bar b").count() == chart.locator(".part").count()
    opened.page.close()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("2-", [f"2-{head}" for head in range(1, 6)]),
        ("2-3", ["2-3"]),
        ("previous", ["1-2"]),
        ("heads that look at the token before", ["1-2"]),
        ("[SEP]", ["3-1"]),
        ("separator", ["3-1"]),
        ("no such head", []),
        ("the", []),
    ],
)
def test_the_search_understands_plain_words(
    searched: Visit, wanted: str, expected: list[str]
) -> None:
    searched.page.fill("#search", "")
    rows = searched.page.locator("#heads-table tbody tr:visible")
    assert rows.count() == 15
    searched.page.fill("#search", wanted)
    assert rows.locator("button").all_text_contents() == expected  # drawn or not
    found = searched.page.locator("#found").inner_text()
    n_found = len(expected)
    assert (
        found == ("1 head" if n_found == 1 else f"{n_found} heads")
        if expected
        else "No head" in found
    )


def test_claims_are_grouped_under_a_strip_of_counts(visit: Visit) -> None:
    strip = visit.page.locator(".strip").first.get_attribute("aria-label") or ""
    counts = [int(count) for count in re.findall(r"\d+", strip)]
    assert len(counts) == 4
    of_paper = [claim for claim in list_claims() if claim.section[0].isdigit()]
    assert sum(counts) == len(of_paper)
    groups = visit.page.locator("details.claims-group")
    assert groups.count() >= 5
    assert groups.locator("table.claims tbody tr").count() >= sum(counts[:3])
    assert visit.page.locator("details.example[open]").count() == 0, "examples are folded"


def test_the_glossary_is_on_the_page_and_opens_by_its_address(browser: Any, path: Path) -> None:
    opened = Visit(browser, path)
    opened.page.goto(f"{path.as_uri()}#term-held-out")
    assert opened.page.locator("#term-held-out").is_visible()
    assert opened.page.locator("#glossary dt").count() >= 30
    assert "not by itself an explanation" in opened.page.locator("#reading").inner_text()
    opened.page.close()


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(browser: Any, path: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    opened = Visit(browser, path, color_scheme=scheme)
    opened.page.set_viewport_size({"width": width, "height": 850})
    opened.wait_until_drawn()
    for address in ("", "#head-1-2"):
        opened.page.goto(path.as_uri() + address)
        found = axe.run(opened.page).response["violations"]
        serious = [
            (one["id"], one["nodes"][0]["html"][:200])
            for one in found
            if one["impact"] in ("serious", "critical")
        ]
        assert serious == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.page.close()


WIDER = """[...document.querySelectorAll('.canvas')].filter(place => {
    const drawn = place.querySelector('svg, canvas');
    return (drawn.viewBox?.baseVal.width ?? drawn.width / devicePixelRatio) > place.clientWidth;
}).map(place => place.dataset.figure)"""


@pytest.mark.parametrize("of", [planted_run, matched_run])
def test_on_a_phone_figures_are_redrawn_to_fit_and_verdicts_are_in_sight(
    browser: Any, tmp_path: Path, of: Callable[[], Run]
) -> None:
    opened = Visit(browser, of().report(tmp_path / "report.html"))
    opened.wait_until_drawn()
    width = opened.page.locator(".canvas svg").first.evaluate(
        "drawn => drawn.viewBox.baseVal.width"
    )
    opened.page.set_viewport_size({"width": 400, "height": 850})
    opened.page.wait_for_function(f"!({WIDER}).length", timeout=30_000)
    narrow = opened.page.locator(".canvas svg").first.evaluate(
        "drawn => drawn.viewBox.baseVal.width"
    )
    assert narrow < 400 < width, "drawn anew, not scaled"
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    for verdict in opened.page.locator(".claims .verdict").all()[:5]:
        box = verdict.bounding_box()
        assert box["x"] + box["width"] <= 400
    assert opened.said == []
    opened.page.close()


def test_two_models_have_a_page_of_their_own(browser: Any, tmp_path: Path) -> None:
    opened = Visit(browser, matched_run().report(tmp_path / "pair.html"))
    opened.wait_until_drawn()
    assert (
        opened.page.locator("h1").inner_text() == "Do the heads of first and second attend alike?"
    )
    assert opened.page.locator("#pair .canvas").count() == 2
    assert opened.page.locator("#pair table").count() == 2
    assert opened.page.locator("#claims, #heads, #overview").count() == 0
    assert opened.page.locator("#answer li").count() >= 3
    assert opened.said == []
    opened.page.close()


def test_a_run_with_one_analysis_has_no_empty_parts(browser: Any, tmp_path: Path) -> None:
    run = planted_run()
    only = Run({"position": run.tables["position"]}, run.manifest, None)
    opened = Visit(browser, only.report(tmp_path / "one.html"))
    opened.wait_until_drawn()
    links = opened.page.locator("nav a").all_inner_texts()
    assert links == [
        "Surface patterns",
        "Claims",
        "Heads",
        "How to read this",
        "How it was measured",
    ]
    assert opened.page.locator("nav ul").bounding_box()["height"] < 45, "one line"
    assert opened.said == []
    opened.page.close()


def test_tables_sort_by_number_and_back(visit: Visit) -> None:
    table = visit.page.locator("#syntax table.sortable").first
    column = table.locator("thead th", has_text="words")
    place = column.evaluate("cell => cell.cellIndex")

    def cells() -> list[str]:
        return table.locator(f"tbody tr > :nth-child({place + 1})").all_text_contents()

    def numbers() -> list[int]:
        return [int(cell) for cell in cells() if cell != "-"]

    column.locator("button").click()
    assert len(numbers()) > 3
    assert numbers() == sorted(numbers())
    assert cells()[-1] == "-", "what has no number comes last"
    assert column.get_attribute("aria-sort") == "ascending"
    column.locator("button").click()
    assert numbers() == sorted(numbers(), reverse=True)
    assert cells()[-1] == "-"


def test_the_dark_page_has_light_words_in_its_figures(browser: Any, path: Path) -> None:
    for scheme, is_light in (("dark", True), ("light", False)):
        opened = Visit(browser, path, color_scheme=scheme)
        opened.wait_until_drawn()
        fill = opened.page.locator("#figure-position .role-axis-label text").first.evaluate(
            "label => getComputedStyle(label).fill"
        )
        levels = [int(level) for level in re.findall(r"\d+", fill)[:3]]
        assert (min(levels) > 150) is is_light, fill
        opened.page.close()


def test_hostile_labels_run_nothing(browser: Any, tmp_path: Path) -> None:
    opened = Visit(browser, hostile_run().report(tmp_path / "hostile.html"))
    opened.wait_until_drawn()
    for button in opened.page.locator("#heads-table button.head").all()[:5]:
        button.click()
        opened.page.keyboard.press("Escape")
    assert opened.page.evaluate("window.stolen") is None
    assert opened.said == []
    opened.page.close()


def test_a_large_model_opens_at_once_and_draws_all_figures(browser: Any, tmp_path: Path) -> None:
    opened = Visit(browser, large_run().report(tmp_path / "large.html"))
    opened.wait_until_drawn()
    assert opened.said == []
    opened.page.fill("#search", "24-16")
    assert opened.page.locator("#heads-table tbody tr:visible").count() == 1
    opened.page.close()


def test_the_largest_models_open_soon_in_a_page_of_bounded_size(
    browser: Any, tmp_path: Path
) -> None:
    n_layers, n_heads = 80, 64
    path = large_run(n_layers, n_heads).report(tmp_path / "large.html")
    assert path.stat().st_size < 10_000_000
    opened = Visit(browser, path)
    opened.page.wait_for_function(FIRST_DRAWN, timeout=30_000)
    seconds = opened.page.evaluate("performance.now()") / 1000
    assert opened.page.locator("#figure-position canvas").count() == 1  # no element for each dot
    name = f"{n_layers}-{n_heads}"
    opened.page.locator(f'.grid a[href="#head-{name}"]').click()
    opened.page.locator("#card-title", has_text=f"Head {name}").wait_for()
    opened.page.keyboard.press("Escape")
    opened.wait_until_drawn()
    assert opened.said == []
    opened.page.fill("#search", name)
    rows = opened.page.locator("#heads-table tbody tr:visible")
    assert rows.count() == 1
    rows.first.locator("button").click()
    assert opened.page.locator("#card-title").inner_text() == f"Head {name}"
    assert opened.page.locator("#card-facts dt").count() > 3
    opened.page.keyboard.press("Escape")
    opened.page.fill("#search", "previous token")
    assert rows.count() > 1
    opened.page.close()
    print(f"{path.stat().st_size / 1e6:.1f} MB, first figure after {seconds:.1f} s")


def test_a_printed_report_is_short_and_shows_figures_and_best_examples(
    browser: Any, tmp_path: Path
) -> None:
    opened = Visit(browser, large_run(12, 12).report(tmp_path / "report.html"))
    opened.wait_until_drawn()
    pdf = opened.page.pdf(format="A4")
    assert len(re.findall(rb"/Type\s*/Page[^s]", pdf)) <= 15
    opened.page.emulate_media(media="print")
    assert opened.page.locator("#figure-position svg").first.is_visible()
    assert not opened.page.locator("nav").is_visible()
    assert opened.page.locator(".drawing.best:visible").count() > 0
    assert opened.page.locator(".drawing.worst:visible").count() == 0
    assert opened.page.evaluate(
        "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
    opened.page.close()


def test_the_first_screen_needs_no_script_in_a_small_file(browser: Any, tmp_path: Path) -> None:
    path = large_run(12, 12).report(tmp_path / "report.html")
    assert path.stat().st_size < 5_000_000
    opened = Visit(browser, path, java_script_enabled=False)
    assert opened.page.locator("#answer li").count() >= 3
    assert opened.page.locator("#overview .grid a").count() == 144
    assert opened.page.locator("#overview").is_visible()
    before_script = path.read_text().partition("<script")[0]
    assert 'id="overview"' in before_script, "what is read first is drawn first"
    assert len(before_script) < 300_000
    opened.page.close()


def test_tables_and_figures_can_be_copied_for_a_paper(browser: Any, path: Path) -> None:
    visit = Visit(browser, path, permissions=["clipboard-read", "clipboard-write"])
    visit.wait_until_drawn()
    read = "navigator.clipboard.readText()"
    visit.page.locator(".copy button", has_text="LaTeX").first.click()
    visit.page.wait_for_function(f"{read}.then(text => text.includes('toprule'))")
    visit.page.locator(".copy button", has_text="CSV").first.click()
    visit.page.wait_for_function(f"{read}.then(text => text.startsWith('relation,'))")
    for name, part in (("Copy LaTeX", "includegraphics"), ("Copy CSV", "layer")):
        visit.page.locator(".canvas summary").first.click()
        visit.page.locator(".vega-actions a", has_text=name).first.click()
        visit.page.wait_for_function(f"{read}.then(text => text.includes('{part}'))")
        visit.page.locator(".canvas summary").first.click()
    assert visit.said == []
    visit.page.close()
