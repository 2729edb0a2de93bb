"""The page of a dataset on the hub, written from a run or an atlas."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd

from headscope.errors import say_count
from headscope.runs.run import Run
from headscope.view.claim import sum_up
from headscope.view.figure import list_figures
from headscope.view.table import Format, TextTable, render

__all__ = ["plain", "write_atlas_card", "write_run_card"]

MARKS = re.compile(r"([\\`*_\[\]#~$])")  # what Markdown gives a meaning


def plain(text: object) -> str:
    """Text of a corpus or a user as Markdown shows it: no markup, no HTML, one line.

    >>> plain("<b>[CLS]</b>")
    '&lt;b&gt;\\\\[CLS\\\\]&lt;/b&gt;'
    """
    return MARKS.sub(r"\\\1", escape(" ".join(str(text).split()), quote=False))


def write_run_card(run: Run, name: str, tables: Sequence[str], figures: Sequence[str]) -> str:
    """The answer in short, figures, how to load the tables, and how they were measured."""
    manifest = run.manifest
    titles = {figure: list_figures()[figure].title for figure in figures}
    answers = [f"- {plain(answer)}" for answer in run.answers]
    pictures = [f"![{plain(title)}](figures/{n}.png)\n" for n, title in titles.items()]
    lines = [
        _head(tables),
        f"# Attention heads of {plain(manifest['model']['name'])}\n",
        "What every attention head of the model attends to, measured by headscope. Numbers have "
        "95 % intervals over documents where there is enough data.\n",
        *(["## In short\n", *answers, "", plain(sum_up(run.findings)), ""] if answers else []),
        *pictures,
        _load(name, tables, 'run = hs.open("hf:{name}")', "tables, figures and cards of heads"),
        "## How it was measured\n",
        _tell(_facts(manifest)),
    ]
    return "\n".join(lines)


def write_atlas_card(tables: Mapping[str, pd.DataFrame], name: str) -> str:
    """Which runs it is of, what became of every claim in each, and how to load the tables."""
    claims = next(table for table in tables.values() if "verdict" in table)
    verdicts = claims.pivot(index="says", columns="run", values="verdict").fillna("-")
    columns = ("claim", *map(plain, verdicts.columns))
    rows = tuple(tuple(map(plain, row)) for row in verdicts.reset_index().to_numpy())
    lines = [
        _head(list(tables)),
        "# Attention heads of several models\n",
        f"{say_count(len(verdicts.columns), 'run')} of headscope beside each other.\n",
        render(TextTable(columns, rows), Format.MARKDOWN),
        _load(name, list(tables), "", ""),
    ]
    return "\n".join(lines)


def _head(tables: Sequence[str]) -> str:
    """What the hub reads: the tables, which it shows. JSON is YAML too."""
    configs = [{"config_name": n, "data_files": f"tables/{n}.parquet"} for n in tables]
    head = {"configs": configs, "tags": ["headscope", "attention", "interpretability"]}
    lines = (f"{key}: {json.dumps(value)}" for key, value in head.items())
    return "\n".join(["---", *lines, "---"])


def _load(name: str, tables: Sequence[str], code: str, has: str) -> str:
    opened = f"import headscope as hs\n\n{code.format(name=name)}  # {has}\n" if code else ""
    return (
        f"## How to load it\n\n```python\n{opened}"
        "from datasets import load_dataset\n\n"
        f'table = load_dataset("{name}", "{tables[0]}")["train"]\n```\n\n'
        f"{say_count(len(tables), 'table')}, as Parquet files in `tables/`: "
        + ", ".join(f"`{table}`" for table in tables)
        + ".\n"
    )


def _facts(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What one must know to measure the same again."""
    model = manifest["model"]
    yield "model", str(model["name"])
    yield "revision", str(model.get("revision") or "-")
    yield "weights", f"digest {model['digest']}"
    yield "attention", str(model.get("weights", ""))
    for key, read in manifest.get("passes", {}).items():
        counts = manifest["counts"].get(key)
        if counts is not None and read.get("repeats") is None:
            size = f"{counts['used']:,} examples, {counts['tokens']:,} tokens"
            yield key, f"{read['corpus']} ({size}; digest {read['digest'][:16]})"
    yield "versions", ", ".join(f"{n} {v}" for n, v in manifest["versions"].items())
    yield "started", manifest.get("started", "")


def _tell(facts: Iterator[tuple[str, str]]) -> str:
    rows = tuple((plain(name), plain(value)) for name, value in facts)
    return render(TextTable(("", ""), rows), Format.MARKDOWN)
