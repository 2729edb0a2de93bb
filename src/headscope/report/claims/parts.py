"""A run over several corpora: each is checked by itself, and the claim must hold in all of them."""

from collections.abc import Callable, Iterator

import pandas as pd

from headscope.report.claims.claim import Outcome, Tables

__all__ = ["PAPER_WINDOW", "in_each_corpus", "in_paper_window"]

PAPER_WINDOW = 128
LABELS = ("treebank", "corpus")


def in_each_corpus(check: Callable[[Tables], Outcome]) -> Callable[[Tables], Outcome]:
    """The check, done on every treebank or corpus that the tables tell apart."""

    def check_each(tables: Tables) -> Outcome:
        outcomes = {name: check(part) for name, part in _split(tables)}
        if len(outcomes) == 1:
            return next(iter(outcomes.values()))
        said = [f"{name}: {o.verdict}. {o.shows}" for name, o in outcomes.items()]
        known = [o.holds for o in outcomes.values() if o.holds is not None]
        return Outcome(all(known) if known else None, " ".join(said))

    return check_each


def in_paper_window(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the window that is nearest to the paper's 128 tokens."""
    if "window" not in table:
        return table
    nearest = int(min(table["window"], key=lambda window: abs(window - PAPER_WINDOW)))
    return table[table["window"].eq(nearest)]


def _split(tables: Tables) -> Iterator[tuple[str, Tables]]:
    labels = {name: _label_of(table) for name, table in tables.items()}
    told = [table[labels[name]] for name, table in tables.items() if labels[name]]
    corpora = list(dict.fromkeys(str(c) for column in told for c in column))
    if not corpora:
        yield "", tables
    for corpus in corpora:
        yield (
            corpus,
            {
                name: table[table[labels[name]].astype(str) == corpus] if labels[name] else table
                for name, table in tables.items()
            },
        )


def _label_of(table: pd.DataFrame) -> str:
    return next((label for label in LABELS if label in table), "")
