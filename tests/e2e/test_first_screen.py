"""The first screen of real runs in a real browser: sentences, and the picture of all heads."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import headscope as hs
from headscope.runs.run import Run, load_run
from tests.browser import Visit, start_browser
from tests.conftest import DemoRun
from tests.shared import shared
from tests.smollm2 import smollm2_file

QUICK = {"progress": False, "examples": False}
SURFACE = "position,special-tokens,entropy,max-weight"
SHORT = "they read the books that we gave them . it was good , they said ; we came back then ."


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from start_browser()


@pytest.fixture(scope="module")
def articles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first paragraph of a dozen articles."""
    text = shared("data/text/enwiki.txt").read_text()
    path = tmp_path_factory.mktemp("text") / "articles.txt"
    path.write_text("\n\n".join(part.split("\n")[0] for part in text.split("\n\n")[:14]))
    return path


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest) -> Run:
    make: Callable[[pytest.FixtureRequest], Run] = request.param
    return make(request)


def demo(request: pytest.FixtureRequest) -> Run:
    shown: DemoRun = request.getfixturevalue("demo_run")
    return load_run(shown.folder)


def e5_small(request: pytest.FixtureRequest) -> Run:
    given = {"text": request.getfixturevalue("articles"), "token_classes": {"articles": ["the"]}}
    return hs.analyze(shared("models/e5-small"), **given, only=SURFACE, **QUICK)


def smollm2(request: pytest.FixtureRequest) -> Run:
    text = request.getfixturevalue("articles")
    return hs.analyze(smollm2_file(), text=text, only=f"{SURFACE},induction", **QUICK)


def tokens_23(request: pytest.FixtureRequest) -> Run:
    return hs.analyze("demo", text=[SHORT], only=SURFACE, **QUICK)


def one_analysis(request: pytest.FixtureRequest) -> Run:
    return hs.analyze("demo", text="starter", only="position", limit=60, **QUICK)


def open_page(browser: Any, run: Run, folder: Path) -> Visit:
    opened = Visit(browser, run.report(folder / "report.html").as_uri())
    opened.page.wait_for_function("document.readyState === 'complete'")
    return opened


@pytest.mark.parametrize("run", [demo, e5_small, smollm2], indirect=True)
def test_sentences_begin_with_where_attention_rests_and_have_intervals(
    browser: Any, run: Run, tmp_path: Path
) -> None:
    opened = open_page(browser, run, tmp_path)
    said = opened.page.locator("#answer li p").all_inner_texts()
    assert 3 <= len(said) <= 6
    assert " of all attention rests on " in said[0]
    assert all(re.search(r"\[[+-]?\d", text) for text in said)
    heads = opened.page.locator("#answer a.head")
    heads.first.click()
    assert opened.page.locator("#card-title").inner_text() == f"Head {heads.first.inner_text()}"
    opened.page.close()
    assert opened.said == []


@pytest.mark.parametrize("run", [demo, e5_small, smollm2], indirect=True)
def test_every_head_has_a_colour_and_the_legends_count_all_heads(
    browser: Any, run: Run, tmp_path: Path
) -> None:
    opened = open_page(browser, run, tmp_path)
    n_heads = opened.page.locator("table.grid td a").count()
    assert n_heads == len(run.tables["position"][["layer", "head"]].drop_duplicates())
    overview = opened.page.locator("#overview")
    for mode, button in (("looks", "where it looks"), ("finds", "what it finds")):
        overview.get_by_role("button", name=button).click()
        assert overview.get_attribute("class") == mode
        legend = overview.locator("ul.legend:visible")
        assert legend.count() == 1
        counts = re.findall(r"\((\d+) heads?\)", legend.inner_text())
        assert sum(map(int, counts)) == n_heads
        grounds = overview.locator("table.grid td a").evaluate_all(
            "cells => cells.map(cell => getComputedStyle(cell).backgroundColor)"
        )
        assert "rgba(0, 0, 0, 0)" not in grounds
        assert len(set(grounds)) >= (4 if mode == "looks" else 1)
    assert "not measured where" not in overview.locator("ul.legend").first.inner_text()
    assert opened.said == []
    opened.page.close()


@pytest.mark.parametrize("run", [tokens_23], indirect=True)
def test_of_23_tokens_the_first_line_says_that_it_is_too_little(
    browser: Any, run: Run, tmp_path: Path
) -> None:
    opened = open_page(browser, run, tmp_path)
    (said,) = opened.page.locator("#answer li p").all_inner_texts()
    assert said.startswith("23 tokens in 1 document: too little to tell.")
    assert opened.page.locator("table.grid td a").count() == 72
    opened.page.close()


@pytest.mark.parametrize("run", [one_analysis], indirect=True)
def test_one_analysis_tells_what_it_measured_and_what_it_did_not(
    browser: Any, run: Run, tmp_path: Path
) -> None:
    opened = open_page(browser, run, tmp_path)
    said = opened.page.locator("#answer li p").all_inner_texts()
    assert any("the previous token: 1-3" in text for text in said)
    assert "elsewhere (not measured where)" in opened.page.locator("ul.legend").first.inner_text()
    assert opened.said == []
    opened.page.close()


@pytest.mark.parametrize("run", [e5_small], indirect=True)
def test_a_token_class_of_the_user_has_a_sentence_and_a_line(
    browser: Any, run: Run, tmp_path: Path
) -> None:
    opened = open_page(browser, run, tmp_path)
    said = opened.page.locator("#answer li p").all_inner_texts()
    assert any("your token class articles" in text for text in said)
    opened.page.close()
    assert "token class articles" in run._repr_html_()


@pytest.mark.parametrize("run", [smollm2], indirect=True)
def test_a_real_gguf_file_is_measured_as_a_decoder(run: Run) -> None:
    assert (run.manifest["model"]["layers"], run.manifest["model"]["heads"]) == (30, 9)
    position = run.tables["position"].set_index("target")["weight"]
    assert position["next"].max() == 0
    assert position["previous"].max() > 0.5


@pytest.mark.parametrize("run", [smollm2], indirect=True)
def test_a_real_decoder_has_the_heads_that_independent_code_found(run: Run) -> None:
    expected = {
        "induction": {(19, 7): 0.87, (18, 4): 0.76, (18, 5): 0.73},
        "previous": {(17, 1): 0.88, (12, 2): 0.85},
        "duplicate": {(9, 1): 0.68, (15, 4): 0.66},
    }
    table = run.tables["induction"].set_index(["layer", "head"])
    for pattern, heads in expected.items():
        weights = table.loc[table["pattern"] == pattern, "weight"]
        assert set(weights.nlargest(len(heads)).index) == set(heads), pattern
        for head, weight in heads.items():
            assert weights[head] == pytest.approx(weight, abs=0.08), (pattern, head)
    losses = run.tables["induction-loss"].set_index("copy")["loss"]
    assert losses["first"] == pytest.approx(14.2, abs=0.5)
    assert losses["second"] == pytest.approx(3.2, abs=0.5)
