"""The report holds what the run has, says what it has not, and loads and runs nothing else's."""

import json
import re
import zlib
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headscope.errors import OutputError, StudyError
from headscope.files import read_sealed, seal
from headscope.registry import load_presentations
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run, load_run
from headscope.view.figure import list_figures
from headscope.view.page import render_report
from headscope.view.presentation import Presentation
from headscope.view.terminal import warn_of_few_documents
from tests.report.made import HOSTILE, hostile_run, large_run, planted_run

MEGABYTE = 2**20


class Page(HTMLParser):
    """Which elements a page has, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: dict[str | None, str] = {}
        self._script: str | None = None
        self._is_script = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        given = dict(attrs)
        self.ids += [given["id"]] if given.get("id") else []
        self._is_script, self._script = tag == "script", given.get("id")

    def handle_data(self, data: str) -> None:
        if self._is_script:
            self.scripts[self._script] = self.scripts.get(self._script, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._is_script = False


def render(run: Run) -> str:
    return render_report(run.tables, run.manifest, run.examples, run.findings)


@pytest.fixture(scope="module")
def text() -> str:
    return render(planted_run())


def test_a_report_has_figures_tables_claims_examples_and_every_head(text: str) -> None:
    page = Page(text)
    assert {"figure-position", "figure-entropy", "figure-heads-map", "claims", "heads"} <= {
        *page.ids
    }
    assert len(page.ids) == len(set(page.ids)), "an id stands twice"
    cards = json.loads(page.scripts["cards"])
    assert [card["name"] for card in cards][:2] == ["1-1", "1-2"]
    assert len(cards) == 15
    assert page.tags.count("table") >= 3
    assert "previous token" in text
    assert "95 % interval" in text


def test_a_report_loads_nothing_from_anywhere(text: str) -> None:
    page = Page(text)
    loading = {"src", "srcset", "poster", "data", "action", "formaction", "background"}
    assert not [(n, v) for n, v in page.attributes if n in loading]
    links = [value for name, value in page.attributes if name in ("href", "xlink:href")]
    assert all(link and link.startswith("#") for link in links)
    assert "default-src 'none'" in text
    assert "@import" not in text
    assert "link" not in page.tags


def test_every_inner_link_leads_somewhere(text: str) -> None:
    page = Page(text)
    links = {v for n, v in page.attributes if n == "href" and v and v.startswith("#")}
    assert {link[1:] for link in links} <= {*page.ids}


def test_the_page_begins_with_sentences_and_a_picture_whose_cells_lead_to_cards(text: str) -> None:
    header = text.partition("<nav")[0]
    assert "of its attention on the previous token: <a" in header
    assert re.search(r'<p title="1-2 \d+\.\d % \[', header), "the interval shows on hover"
    assert '<a class="to" href="#figure-position">' in header
    cells = re.findall(r'<td class="look-[^"]+"><a href="#head-(\d+-\d+)"', header)
    assert cells == [f"{layer}-{head}" for layer in (1, 2, 3) for head in range(1, 6)]
    assert text.index('id="claims"') > text.index('id="figure-position"')


def test_runs_of_one_document_one_analysis_or_no_table_have_a_first_screen_too() -> None:
    run = planted_run()
    position = run.tables["position"].assign(low=float("nan"), high=float("nan"))
    alone = {"documents": 1, "buckets": 1}
    counts = {key: {**own, **alone} for key, own in run.manifest["counts"].items()}
    header = render(Run({"position": position}, {**run.manifest, "counts": counts}))
    header = header.partition("<nav")[0]
    assert "looks at the previous token" in header
    assert "no intervals" in header
    assert header.count('href="#head-') > 15
    bare = render(Run({}, run.manifest)).partition("<nav")[0]
    assert "no tables that give a short answer" in bare
    assert 'class="grid' not in bare


def test_a_run_that_does_not_tell_what_heads_do_has_no_picture_of_them() -> None:
    trees = planted_run().tables["trees"]
    text = render(Run({"trees": trees}, planted_run().manifest))
    assert 'id="head-2-1"' in text
    assert 'id="overview"' not in text


def test_too_few_documents_are_told_and_so_are_documents_of_one_bucket() -> None:
    manifest = planted_run().manifest
    key, own = next(iter(manifest["counts"].items()))

    def say(**counts: int) -> str:
        return " ".join(warn_of_few_documents({**manifest, "counts": {key: {**own, **counts}}}))

    assert "need two documents" in say(documents=1, buckets=1)
    assert "fell into one bucket" in say(documents=25, buckets=1)
    assert "rough" in say(documents=5, buckets=5)
    assert "ntervals" not in say(documents=25, buckets=21)


def test_what_a_run_lacks_is_named_with_the_command_that_measures_it(text: str) -> None:
    assert "headscope analyze MODEL --coref" in text
    assert "--also gradient" in text
    only_position = Run({"position": planted_run().tables["position"]}, planted_run().manifest)
    bare = render(only_position)
    assert "headscope analyze MODEL --treebank" in bare
    assert 'id="figure-position"' in bare
    assert 'id="figure-entropy"' not in bare


def test_what_could_not_be_measured_is_given_with_its_reason() -> None:
    run = planted_run()
    manifest = {**run.manifest, "left_out": {"gradient": "This model has no head to lose with."}}
    text = render(Run(run.tables, manifest))
    assert "This model has no head to lose with." in text.partition('class="missing"')[2]


def test_a_figure_of_another_package_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole package is installed in tests/test_plugin.py; here is the place of its section."""
    reach = replace(list_figures()["position"], name="reach", title="How far heads look")
    shown = {**load_presentations(), "reach": Presentation(show=[reach])}
    monkeypatch.setattr("headscope.view.sections.load_presentations", lambda: shown)
    page = Page(render(planted_run()))
    assert "figure-reach" in page.ids
    assert page.ids.index("more") < page.ids.index("figure-reach") < page.ids.index("heads")


def test_a_corpus_that_several_passes_read_is_counted_once(text: str) -> None:
    run = planted_run()
    passes, counts = run.manifest["passes"], run.manifest["counts"]
    again = {
        **run.manifest,
        "passes": passes | {"gradients-text": passes["text"]},
        "counts": counts | {"gradients-text": counts["text"]},
    }
    tile = r"<strong>([\d,]+)</strong> tokens"
    found = [re.findall(tile, page) for page in (text, render(replace(run, manifest=again)))]
    assert found[0] == found[1] == [f"{sum(c['tokens'] for c in counts.values()):,}"]


def test_how_it_was_measured_counts_windows_and_lists_the_options_that_are_set() -> None:
    run = planted_run()
    passes = {"coref-128": {**run.manifest["passes"]["text"], "role": "coref", "examples": 10}}
    passes |= {"untrained-1": {**passes["coref-128"], "repeats": "coref-128"}}
    counts = {**run.manifest["counts"]["text"], "used": 227, "documents": 10}
    manifest = {**run.manifest, "passes": passes, "counts": dict.fromkeys(passes, counts)}
    method = render(replace(run, manifest=manifest)).partition('<section id="method"')[2]
    method = method.partition("</section>")[0]
    assert method.count("227 windows from 10 of 150 documents used") == 1, "not once more untrained"
    assert "Intervals are rough with fewer than 20 documents (coref-128)." in method
    assert "None" not in method
    assert " UTC</dd>" in method


def test_hostile_labels_stay_text() -> None:
    text = render(hostile_run())
    page = Page(text)
    assert "window.stolen" in text  # it is shown,
    assert "img" not in page.tags  # and it is no element
    assert page.tags.count("script") == text.count('<script nonce="') + text.count(
        '<script type="application/json" nonce="'
    )
    assert HOSTILE not in text
    for name, script in page.scripts.items():
        if name:
            json.loads(script)


def test_a_report_is_written_into_the_runs_folder_or_where_one_says(tmp_path: Path) -> None:
    run = planted_run()
    with pytest.raises(StudyError, match="no folder"):
        run.report()
    assert run.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    kept = Run(run.tables, run.manifest, tmp_path / "run", run.examples)
    assert kept.report() == tmp_path / "run/report.html"
    assert not list(tmp_path.rglob(".*")), "temporary files are left behind"


def test_a_report_of_24_by_16_heads_stays_below_five_megabytes() -> None:
    text = render(large_run())
    assert len(text.encode()) < 5 * MEGABYTE
    cards = Page(text).scripts["cards"]
    cards = cards if cards.startswith("[") else zlib.decompress(b64decode(cards)).decode()
    assert len(json.loads(cards)) == 384


def test_a_damaged_table_is_named_and_an_older_format_refused(tmp_path: Path) -> None:
    run, folder = planted_run(), RunFolder(tmp_path / "run")
    folder.write_manifest({**run.manifest, "status": "complete", "tables": ["position"]})
    folder.write_table("position", run.tables["position"])
    (tmp_path / "run/tables/position.parquet").write_bytes(b"no table")
    with pytest.raises(OutputError, match=r"position\.parquet is missing or damaged"):
        load_run(tmp_path / "run").report()
    path = tmp_path / "run/manifest.json"
    path.write_bytes(seal(read_sealed(path) | {"format": 0}))
    with pytest.raises(OutputError, match="written in format 0"):
        load_run(tmp_path / "run")


def test_pictures_and_tables_can_be_read_aloud(text: str) -> None:
    for canvas in re.findall(r'<div class="canvas"[^>]*>', text):
        assert 'role="group"' in canvas
        assert len(canvas.split('aria-label="')[1]) > 60
    drawings = re.findall(r'<svg[^>]* role="img"[^>]*>(.{12})', text)
    assert drawings
    assert all(opening.startswith("<title>Head") for opening in drawings)
    for table in re.findall(r'<table class="sortable.*?</table>', text, flags=re.DOTALL):
        assert "<caption>" in table
        assert 'scope="col"' in table
    for drawing in re.findall(r'<figure class="drawing.*?</figure>', text, flags=re.DOTALL):
        assert "<title>" in drawing or "aria-label" in drawing
