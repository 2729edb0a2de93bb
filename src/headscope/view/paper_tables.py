"""Tables for a paper: those of the page, with the columns and rows that a paper has room for."""

from collections.abc import Sequence
from dataclasses import replace

from headscope.data.table import Tables
from headscope.errors import StudyError, suggest
from headscope.view.presentation import list_specs
from headscope.view.specs import PageTable
from headscope.view.table import Format, TextTable, lay_out, render

__all__ = ["list_paper_tables", "make_paper_tables", "write_tables"]

WIDTH = 120  # of a table as text


def list_paper_tables() -> dict[str, PageTable]:
    """The tables that have a name, in the order of the page."""
    return {table.name: table for table in list_specs(PageTable) if table.name}


def make_paper_tables(name: str, tables: Tables) -> list[TextTable]:
    """The table of this name, once for each corpus."""
    known = list_paper_tables()
    if name not in known:
        raise StudyError(
            f"No table for a paper named {name!r}.{suggest(name, known)} Expected one of "
            f"{', '.join(known)}; choose one."
        )
    made = [table.for_paper() for table in known[name].make(tables)]
    if not made:
        raise StudyError(
            f"The run cannot make {name} ({known[name].title}). Expected a run of `headscope "
            f"analyze MODEL {known[name].made_by}`; measure it first."
        )
    return made


def write_tables(tables: Sequence[TextTable], format: str) -> str:
    """The tables as text, one after the other; as data (CSV, JSON) they become one table."""
    if format not in list(Format):
        raise StudyError(
            f"No format {format!r} for tables.{suggest(format, list(Format))} Expected one of "
            f"{', '.join(Format)}; choose one."
        )
    if format == Format.TABLE:
        titled = ([table.title, *lay_out(table, WIDTH)] for table in tables)
        return "\n\n".join("\n".join(lines) for lines in titled) + "\n"
    if format in (Format.CSV, Format.JSON):
        whole = [table.with_column("table", table.title) for table in tables]
        joined = replace(whole[0], rows=tuple(row for table in whole for row in table.rows))
        return render(joined if len(whole) > 1 else tables[0], Format(format))
    return "\n".join(render(table, Format(format)) for table in tables)
