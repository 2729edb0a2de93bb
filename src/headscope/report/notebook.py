"""A run as a cell of a notebook shows it: what was measured, and where to look on."""

from html import escape

from headscope.report.summary import behaviour_table, summary_lines
from headscope.runs.results import Run

__all__ = ["describe_run"]


def describe_run(run: Run) -> str:
    """The run in a few lines of HTML; names from files and models are escaped."""
    counts = run.manifest.get("counts", {})
    used = ", ".join(f"{name}: {count['used']} examples" for name, count in counts.items())
    parts = [
        f"<p><strong>{escape(str(run.manifest['model']['name']))}</strong> ({escape(used)})</p>"
    ]
    behaviours = behaviour_table(run.tables)
    if len(behaviours):
        parts.append(_table(("looks at", "heads", "strongest"), summary_lines(behaviours)))
    parts += [
        f"<p>run.tables: {escape(', '.join(run.tables))}</p>",
        f"<p>run.figures: {escape(', '.join(run.figures))}</p>",
    ]
    return "".join(parts)


def _table(header: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
