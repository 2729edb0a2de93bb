"""`headscope card`: everything that a run knows about one head."""

from pathlib import Path
from typing import Annotated

import typer

from headscope.commands.shared import Format, FormatOption

__all__ = ["card"]


def card(
    run: Annotated[Path, typer.Argument(help="Folder of a run.")],
    head: Annotated[str, typer.Argument(help="Layer and head, counted from 1, e.g. 8-10.")],
    format: FormatOption = Format.TABLE,
) -> None:
    """Print all that a run knows about one head."""
    from headscope.report.cards import make_card, read_head  # pandas: only when it is needed
    from headscope.report.terminal import print_rows
    from headscope.runs.results import load_run

    tables = load_run(run).tables
    found = make_card(tables, *read_head(head, tables))
    rows = [("gist", found.gist), *((fact.topic, fact.text) for fact in found.facts)]
    is_table = format is Format.TABLE
    print_rows((found.title.lower() if is_table else "topic", "text"), rows, format)
