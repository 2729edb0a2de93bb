"""Tables in a terminal: columns drop out by priority, and no word or number is split."""

import re

import pytest

from headscope.view.table import Column, TextTable, build_table, lay_out, print_table

ROWS = [
    {"name": f"relation-{n}", "number": "42.0 [40.6-43.3]", "more": "abc def " * 6}
    for n in range(3)
]
COLUMNS = (
    Column("relation", lambda row: row["name"]),
    Column("held out %", lambda row: row["number"]),
    Column("offset", lambda row: "-1 (40.0 %)", drop=1),
    Column("folds", lambda row: "8/8", drop=2),
    Column("text", lambda row: row["more"].strip()),
)
TABLE = build_table(ROWS, COLUMNS, note="A note.")


def words(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("width", [120, 80, 72, 65])
def test_lines_fit_and_split_no_word(width: int) -> None:
    lines = lay_out(TABLE, width)
    assert max(map(len, lines)) <= width
    allowed = {
        word for row in (TABLE.columns, *TABLE.rows) for cell in row for word in cell.split()
    }
    table = "\n".join(lines).partition("A note.")[0]
    assert words(table) <= allowed


def test_columns_leave_in_their_order_and_the_last_line_names_them() -> None:
    assert "Left out" not in "\n".join(lay_out(TABLE, 120))
    narrow = " ".join(lay_out(TABLE, 72))
    assert "Left out at 72 columns: folds." in narrow
    narrower = " ".join(lay_out(TABLE, 60))
    assert "Left out at 60 columns: offset, folds." in narrower
    assert "8/8" not in narrower


def test_a_number_stays_with_its_unit_however_narrow() -> None:
    table = TextTable(
        ("a", "b"), (("x", "one of these is 82.0 % and the other is 7.5 % of all cases"),)
    )
    for width in range(30, 60):
        assert not any(re.match(r"\s*%", line) for line in lay_out(table, width))


def test_an_empty_column_and_an_empty_table_do_no_harm() -> None:
    assert lay_out(TextTable(("a", ""), (("x", ""),)), 80) == ["a", "x"]
    assert lay_out(TextTable(("a", "b"), ()), 80) == ["a  b"]


def test_a_table_without_rows_says_why_and_has_no_heading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(TextTable(("relation", "head"), (), note="No relation has 50 words."))
    assert capsys.readouterr().out == "No relation has 50 words.\n"
