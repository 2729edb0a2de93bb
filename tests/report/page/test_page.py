"""The report holds what the run has, says what it has not, and loads and runs nothing else's."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from headscope.errors import OutputError, StudyError
from headscope.registry import FIGURES, Entry
from headscope.report.figures.figure import Figure
from headscope.report.page.write import render_report
from headscope.runs.layout import lay_out
from headscope.runs.results import Run, RunFolder, load_run
from tests.report.page.made import HOSTILE, hostile_run, large_tables, planted_run

MEGABYTE = 2**20
REACH: Figure | None = None  # as another package would hold it


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


@pytest.fixture(scope="module")
def text() -> str:
    return render_report(planted_run())


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


def test_what_a_run_lacks_is_named_with_the_command_that_measures_it(text: str) -> None:
    assert "headscope analyze MODEL --coref" in text
    assert "--also gradient" in text
    only_position = Run({"position": planted_run().tables["position"]}, planted_run().manifest)
    bare = render_report(only_position)
    assert "headscope analyze MODEL --treebank" in bare
    assert 'id="figure-position"' in bare
    assert 'id="figure-entropy"' not in bare


def test_what_could_not_be_measured_is_given_with_its_reason() -> None:
    run = planted_run()
    manifest = {**run.manifest, "left_out": {"gradient": "This model has no head to lose with."}}
    text = render_report(Run(run.tables, manifest))
    assert "This model has no head to lose with." in text.partition('id="matter"')[2]


def test_a_figure_of_another_package_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    reach = replace(FIGURES.find("position").load(), name="reach", title="How far heads look")
    monkeypatch.setattr("tests.report.page.test_page.REACH", reach)
    target = "tests.report.page.test_page:REACH"
    monkeypatch.setitem(FIGURES.built_in, "reach", Entry(target, "from a plug-in"))
    page = Page(render_report(planted_run()))
    assert "figure-reach" in page.ids
    assert page.ids.index("more") < page.ids.index("figure-reach") < page.ids.index("heads")


def test_hostile_labels_stay_text() -> None:
    text = render_report(hostile_run())
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
    tables = large_tables(24, 16)
    tables |= lay_out(tables, seed=0).tables
    text = render_report(Run(tables, planted_run().manifest, None, planted_run().examples))
    assert len(text.encode()) < 5 * MEGABYTE
    assert len(json.loads(Page(text).scripts["cards"])) == 384


def test_a_damaged_table_is_named_and_an_older_format_refused(tmp_path: Path) -> None:
    run, folder = planted_run(), RunFolder(tmp_path / "run")
    folder.write_manifest({**run.manifest, "status": "complete", "tables": ["position"]})
    folder.write_table("position", run.tables["position"])
    (tmp_path / "run/tables/position.parquet").write_bytes(b"no table")
    with pytest.raises(OutputError, match=r"position\.parquet is missing or damaged"):
        load_run(tmp_path / "run").report()
    old = json.loads((tmp_path / "run/manifest.json").read_text()) | {"format": 0}
    (tmp_path / "run/manifest.json").write_text(json.dumps(old))
    with pytest.raises(OutputError, match="written in format 0"):
        load_run(tmp_path / "run")


def test_pictures_and_tables_can_be_read_aloud(text: str) -> None:
    for canvas in re.findall(r'<div class="canvas"[^>]*>', text):
        assert 'role="img"' in canvas
        assert len(canvas.split('aria-label="')[1]) > 60
    for table in re.findall(r'<table class="sortable.*?</table>', text, flags=re.DOTALL):
        assert "<caption>" in table
        assert 'scope="col"' in table
    for drawing in re.findall(r'<figure class="drawing">.*?</figure>', text, flags=re.DOTALL):
        assert "<title>" in drawing or "aria-label" in drawing
