"""A run as a cell of a notebook shows it: what was measured, and where to look on."""

from collections.abc import Mapping
from html import escape
from typing import Any

from headscope.data.table import Tables
from headscope.view.behaviour import behaviour_table
from headscope.view.figure import list_figures
from headscope.view.table import TextTable
from headscope.view.terminal import summary_table

__all__ = ["describe_run"]


def describe_run(tables: Tables, manifest: Mapping[str, Any]) -> str:
    """The run in a few lines of HTML; names from files and models are escaped."""
    passes = manifest.get("passes", {})
    used = ", ".join(
        f"{name}: {counts['used']:,} examples"
        for name, counts in manifest.get("counts", {}).items()
        if not passes.get(name, {}).get("repeats")
    )
    parts = [f"<p><strong>{escape(str(manifest['model']['name']))}</strong> ({escape(used)})</p>"]
    behaviours = behaviour_table(tables)
    if len(behaviours):
        parts.append(_as_html(summary_table(behaviours)))
    figures = [name for name, figure in list_figures().items() if not figure.missing(tables)]
    for name, held in {"tables": tables, "figures": figures}.items():
        parts.append(f"<p>run.{name}: {escape(', '.join(held))}</p>")
    return "".join(parts)


def _as_html(table: TextTable) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
