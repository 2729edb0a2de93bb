"""Writes what stands in these pages but comes from the code: `make fix` calls it, a test checks it.

    python docs/generate.py

cli.md and glossary.md whole; the columns of each table in tables.md; the claims in claims.md; the
list of figures in figures.md.
"""

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill

from headscope.probes.tables import TABLES as PROBE_TABLES
from headscope.registry import ANALYSES
from headscope.view import glossary
from headscope.view.claim import list_claims
from headscope.view.presentation import list_specs
from headscope.view.specs import Figure

DOCS = Path(__file__).parent
COMMAND = ["--app", "app", "headscope.cli", "utils", "docs", "--name", "headscope"]
HEADER = "| claim | section | what is checked | BERT-base in the paper | measured by `headscope"
HEADER += " analyze MODEL` with |\n|---|---|---|---|---|\n"


def list_columns() -> dict[str, tuple[str, ...]]:
    """The columns of every table of a built-in analysis and of the probes."""
    columns = {**PROBE_TABLES}
    for name in ANALYSES.built_in:
        columns |= ANALYSES.find(name).load().tables
    return columns


def write_columns(page: str, columns: Mapping[str, tuple[str, ...]]) -> str:
    """tables.md with the columns of each table under its heading."""
    for name, names in columns.items():
        line = fill(f"Columns: {', '.join(names)}", 120, subsequent_indent="  ")
        pattern = rf"(\n## {re.escape(name)}\n\n)Columns: .*?\n\n"
        page, n_changed = re.subn(pattern, rf"\g<1>{line}\n\n", page, count=1, flags=re.DOTALL)
        if not n_changed:
            sys.exit(f"docs/tables.md has no section '## {name}' that begins with 'Columns: '.")
    return page


def write_claims(page: str) -> str:
    """claims.md with a row for each claim of the paper."""
    rows = [
        f"| `{c.name}` | {c.section} | {c.says} | {c.paper} | `{c.made_by}` |\n"
        for c in list_claims()
    ]
    before, _, after = page.partition(HEADER)
    rest = after.partition("\n\n")[2]
    return f"{before}{HEADER}{''.join(rows)}\n{rest}"


def write_figures(page: str) -> str:
    """figures.md with a row for each figure, in the order of the report."""
    header = "| figure | shows | paper | tables |\n|---|---|---|---|\n"
    rows = []
    for figure in list_specs(Figure):
        tables = ", ".join(f"[{name}](tables.md#{name})" for name in figure.needs)
        rows.append(f"| `{figure.name}` | {figure.title} | {figure.paper} | {tables} |\n")
    before, _, after = page.partition(header)
    return f"{before}{header}{''.join(rows)}\n{after[after.index('## ') :]}"


def main() -> None:
    """Write all of them."""
    for name, write in (
        ("tables.md", lambda page: write_columns(page, list_columns())),
        ("claims.md", write_claims),
        ("figures.md", write_figures),
        ("glossary.md", lambda page: glossary.write_page()),
    ):
        path = DOCS / name
        path.write_text(write(path.read_text()))
    output = ["--title", "Command line", "--output", str(DOCS / "cli.md")]
    subprocess.run([Path(sys.executable).parent / "typer", *COMMAND, *output], check=True)


if __name__ == "__main__":
    main()
