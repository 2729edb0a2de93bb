"""What the page is told of a run: measures of every head, cards, behaviours and examples."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from headscope.contracts import AttentionKind
from headscope.data.attention import head_name
from headscope.data.head_view import SHEET
from headscope.data.table import Tables, split_kinds
from headscope.runs.run import Run, explain_damage
from headscope.view.behaviour import find_kind, list_kinds
from headscope.view.card import make_cards
from headscope.view.specs import OTHER
from headscope.view.table import CORPUS_LABELS

__all__ = ["describe_run"]

ENOUGH = 0.5  # of all heads: what fewer of them have is no measure of heads
DIGITS = 5


def describe_run(run: Run, kind: AttentionKind | None = None) -> dict[str, Any] | None:
    """Everything about the run that the page shows, as plain values; None where it shows nothing.

    Of an encoder-decoder it is what is known of one kind of attention, by default the encoder's.
    """
    with explain_damage(run):
        parts = split_kinds(run.tables)
        tables = next(iter(parts.values())) if kind is None else parts.get(kind)
        return None if tables is None else _describe(run, tables, kind or AttentionKind.ENCODER)


def _describe(run: Run, tables: Tables, kind: AttentionKind) -> dict[str, Any]:
    cards = {head_name(c.layer - 1, c.head - 1): _card_values(c) for c in make_cards(tables)}
    seen = {card["kind"] for card in cards.values()}
    return {
        "kinds": [{"name": k.name, "colour": k.colour} for k in list_kinds() if k.name in seen],
        "cards": cards,
        "measures": list(find_measures(tables)),
        "examples": list(_examples(run, kind)),
    }


def find_measures(tables: Any) -> Iterator[dict[str, Any]]:
    """Every number that a run has of (nearly) all heads, with its interval where there is one.

    A value is a column that has `low` after it, or a `..._low` of its own. Other columns of words
    tell several measures of one table apart.
    """
    for table_name, table in tables.items():
        if not {"layer", "head"} <= set(table.columns):
            continue
        rows = table.dropna(subset=["layer", "head"])
        labels = [c for c in rows.columns if _is_label(rows[c]) and rows[c].nunique() > 1]
        groups = rows.groupby(labels, sort=False, dropna=False) if labels else [((), rows)]
        n_heads = rows.groupby(["layer", "head"]).ngroups
        for key, group in groups:
            is_of_heads = len(group) >= ENOUGH * n_heads and n_heads > 1
            if not is_of_heads or group.duplicated(["layer", "head"]).any():
                continue
            for value, low, high in _values(group.columns):
                labelled = " · ".join(_name_label(*pair) for pair in zip(labels, key, strict=True))
                yield _measure(table_name, labelled, group, value, low, high)


def _measure(
    table: str, said: str, group: pd.DataFrame, value: str, low: str, high: str
) -> dict[str, Any]:
    heads = [
        head_name(int(layer) - 1, int(head) - 1)
        for layer, head in group[["layer", "head"]].itertuples(index=False)
    ]
    name = f"{said} ({value})" if said else value
    return {
        "group": table.replace("-", " "),
        "name": name.replace("_", " "),
        "isShare": value in ("weight", "accuracy"),
        "heads": heads,
        **{
            part: [_round(number) for number in group[column]]
            for part, column in (("values", value), ("low", low), ("high", high))
            if column in group
        },
    }


def _values(columns: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """The columns that hold a measure, with those of its interval."""
    names = list(columns)
    for before, name in pairwise(names):
        if name == "low":
            yield before, "low", "high"
        elif name == f"{before}_low":
            yield before, name, f"{before}_high"


def _is_label(column: "pd.Series[Any]") -> bool:
    return column.name in CORPUS_LABELS or not pd.api.types.is_numeric_dtype(column)


def _name_label(label: str, value: object) -> str:
    return f"{label} {value}" if label in CORPUS_LABELS else str(value)


def _round(number: Any) -> float | None:
    return float(f"{number:.{DIGITS}g}") if np.isfinite(number) else None


def _card_values(card: Any) -> dict[str, Any]:
    """A card with the kind of the head, and the words by which the head is found."""
    return {
        "summary": card.summary,
        "facts": [[fact.topic, fact.text] for fact in card.facts],
        "kind": find_kind(card.labels[0] if card.labels else OTHER.name).name,
        "words": card.words,
    }


def _examples(run: Run, kind: AttentionKind) -> Iterator[dict[str, Any]]:
    for shown in run.examples:
        view = shown.view
        if view.kind not in ("", kind) or view.keys is not None or shown.end == SHEET:
            continue  # those of cross attention are between two texts: the report draws them
        yield {
            "head": head_name(view.layer, view.head),
            "title": shown.title,
            "end": shown.end,
            "says": shown.says,
            "id": view.example,
            "view": {
                "units": list(view.units),
                "special": [int(special) for special in view.is_special],
                "weights": view.to_json()["weights"],
                "marked": [list(pair) for pair in view.marked],
            },
        }
