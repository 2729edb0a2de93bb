"""`headscope table`: a table of a run for the eye, for programs, and for papers."""

import csv
import json
from io import StringIO
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result
from typer.testing import CliRunner

from headscope.cli import app
from headscope.view.table import Format, TextTable, render
from tests.engine.made import EXAMPLES, run

FORMULA = "=1+1"
AWKWARD = "50 %_of|A&B #1 {~^\\$}"
IN_LATEX = r"50 \%\_of|A\&B \#1 \{\textasciitilde{}\textasciicircum{}\textbackslash{}\$\}"


def call(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    classes = {AWKWARD: ["boat"], FORMULA: ["sea"]}
    given = {"only": "special-tokens,trees", "token_classes": classes, "examples": False}
    run(text=None, treebank=EXAMPLES[:10], out=folder, **given)
    return folder


def printed(folder: Path, name: str, format: str) -> str:
    done = call("table", folder, name, "--format", format)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def test_markdown_has_every_row_and_escapes_what_would_be_a_column(folder: Path) -> None:
    table = pd.read_parquet(folder / "tables/special-tokens.parquet")
    header, line, *rows = printed(folder, "special-tokens", "markdown").splitlines()
    assert header == f"| {' | '.join(table.columns)} |"
    assert line == "|" + "---|" * len(table.columns)
    assert len(rows) == len(table)
    for text, expected in zip(rows, table.itertuples(), strict=True):
        cells = [cell.strip() for cell in text.replace("\\|", "\0").strip("|").split("|")]
        assert len(cells) == len(table.columns)
        assert cells[3].replace("\0", "|") == expected.target
        assert float(cells[4]) == pytest.approx(expected.weight, rel=1e-3)
    assert any("50 %_of\\|A&B" in text for text in rows)


def test_latex_is_a_whole_table_in_which_no_sign_is_a_command(folder: Path) -> None:
    table = pd.read_parquet(folder / "tables/special-tokens.parquet")
    begin, top, header, middle, *rows, bottom, end = printed(
        folder, "special-tokens", "latex"
    ).splitlines()
    assert begin == r"\begin{tabular}{" + "l" * len(table.columns) + "}"
    assert (top, middle, bottom, end) == (
        r"\toprule",
        r"\midrule",
        r"\bottomrule",
        r"\end{tabular}",
    )
    assert header == " & ".join(table.columns) + r" \\"
    assert len(rows) == len(table)
    for row in rows:
        assert row.endswith(r" \\")
        assert row.replace(r"\&", "").count("&") == len(table.columns) - 1
    assert sum(IN_LATEX in row for row in rows) == (table["target"] == AWKWARD).sum() > 0


def test_names_of_columns_are_escaped_too(folder: Path) -> None:
    header = printed(folder, "trees", "latex").splitlines()[2]
    assert "_" not in header.replace(r"\_", "")
    assert render(TextTable(("a_b", "c|d"), ()), Format.LATEX).splitlines()[2] == r"a\_b & c|d \\"
    assert render(TextTable(("a_b", "c|d"), ()), Format.MARKDOWN).startswith("| a_b | c\\|d |")
    tag = render(TextTable(("a",), (("<b>",),)), Format.MARKDOWN)
    assert tag.splitlines()[2] == r"| \<b> |"
    broken = render(TextTable(("a",), (("one\ntwo\r\n  three",),)), Format.MARKDOWN)
    assert broken.splitlines()[2] == "| one two three |"


def test_csv_holds_six_digits_and_json_every_one(folder: Path) -> None:
    table = pd.read_parquet(folder / "tables/special-tokens.parquet")
    as_csv = printed(folder, "special-tokens", "csv")
    assert as_csv == (folder / "tables/special-tokens.csv").read_text()
    rows = list(csv.DictReader(StringIO(as_csv)))
    assert [float(row["weight"]) for row in rows] == pytest.approx(table["weight"], rel=5e-6)
    assert max(len(row["weight"]) for row in rows) <= len("1.23456e-05")
    records = json.loads(printed(folder, "special-tokens", "json"))
    assert [record["target"] for record in records] == table["target"].tolist()
    assert [record["weight"] for record in records] == pytest.approx(table["weight"], abs=1e-14)
    missing = json.loads(printed(folder, "trees", "json"))
    assert {record["layer"] for record in missing} == {None, 1, 2, 3}


def test_a_label_that_a_spreadsheet_would_run_is_quoted_in_csv_alone(folder: Path) -> None:
    assert f",'{FORMULA}," in printed(folder, "special-tokens", "csv")
    assert f"'{FORMULA}" not in printed(folder, "special-tokens", "json")


@pytest.mark.parametrize("format", ["table", "markdown", "latex"])
def test_what_has_no_number_is_a_dash(folder: Path, format: str) -> None:
    lines = printed(folder, "trees", format).splitlines()
    (chain,) = [line for line in lines if "adjacent chain" in line]
    assert chain.replace("|", "&").replace("  ", "&").count("-") >= 2
    assert "<NA>" not in chain
    assert "nan" not in chain


def test_for_the_eye_numbers_are_short_and_nothing_is_cut_off(folder: Path) -> None:
    shown = printed(folder, "special-tokens", "table")
    table = pd.read_parquet(folder / "tables/special-tokens.parquet")
    assert len(shown.splitlines()) == len(table) + 1
    assert f"{table['weight'].iloc[0]:.4g}" in shown.splitlines()[1]
    assert AWKWARD in shown


@pytest.mark.parametrize("format", ["markdown", "latex"])
def test_runs_are_printed_in_these_formats_one_table_after_the_other(
    folder: Path, format: str, tmp_path: Path
) -> None:
    (tmp_path / "two.txt").write_text("A keeper lit her lamp.\nShips came home late.\n")
    given = ["--text", tmp_path / "two.txt", "--only", "position,distance"]
    done = call(
        "analyze", "demo", *given, "--no-report", "--out", tmp_path / "r", "--format", format
    )
    assert done.exit_code == 0, done.stderr
    sign = {"markdown": "##", "latex": "%"}[format]
    assert [line for line in done.stdout.splitlines() if line.startswith(f"{sign} ")] == [
        f"{sign} behaviours",
        f"{sign} distance-layers",
    ]
    assert call("list", "analyses", "--format", format).exit_code == 0
