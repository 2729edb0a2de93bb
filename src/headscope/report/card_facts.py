"""Facts of single heads, head by head: where they look, how broadly, what they matter."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from headscope.report.cells import percent

__all__ = [
    "ATTENTION_FACTS",
    "Fact",
    "FactMaker",
    "Facts",
    "Place",
    "Tables",
    "add_rank",
    "by_head",
    "interval",
]

Tables = Mapping[str, pd.DataFrame]
Place = tuple[int, int]  # layer and head, from 1

TARGETS = {
    "previous": "previous token",
    "self": "itself",
    "next": "next token",
    "cls": "opening token",
    "sep": "closing tokens",
    "first": "first token",
    "punctuation": "period and comma",
    "other": "other tokens",
}
MODES = {
    "zero": "taken away",
    "mean": "its mean in its place",
    "sink": "its attention to the sink moved elsewhere",
}
EFFECTS = {"loss": "the loss changes by", "cosine": "the hidden states change by"}


@dataclass(frozen=True)
class Fact:
    """One thing known about a head: what it is about, and the numbers in words (not escaped)."""

    topic: str
    text: str


Facts = Iterator[tuple[Place, Fact]]
FactMaker = tuple[tuple[str, ...], Callable[[Tables], Facts]]  # the tables it needs, and itself


def add_rank(table: pd.DataFrame, column: str, *groups: str) -> pd.DataFrame:
    """The table with the place of each row among all (of its group), from the largest down."""
    values = table.groupby(list(groups), sort=False)[column] if groups else table[column]
    return table.assign(rank=values.rank(ascending=False, method="min"))


def rows_of(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, each with its columns as attributes."""
    return iter(table.itertuples(index=False))


def by_head(table: pd.DataFrame, phrase: Callable[[Any], str]) -> dict[Place, str]:
    """The rows of each head in words, one after the other."""
    found: dict[Place, list[str]] = {}
    for row in rows_of(table):
        found.setdefault((int(row.layer), int(row.head)), []).append(phrase(row))
    return {place: ", ".join(said) for place, said in found.items()}


def interval(row: Any) -> str:
    """The 95 % interval in percent, with a space before; nothing where there is none."""
    return "" if pd.isna(row.low) else f" [{percent(row.low)}-{percent(row.high)}]"


def position_facts(tables: Tables) -> Facts:
    """How much goes to neighbours."""
    yield from _share_facts("position", tables["position"])


def special_token_facts(tables: Tables) -> Facts:
    """How much goes to special tokens, from all and from closing ones."""
    table = tables["special-tokens"]
    for source, topic in {"all": "special tokens", "sep": "from closing tokens"}.items():
        yield from _share_facts(topic, table[table["source"] == source])


def entropy_facts(tables: Tables) -> Facts:
    """How broadly it attends, beside even attention."""
    table = tables["entropy"]
    ranked = add_rank(table[table["uniform"] > 0], "nats", "rows")
    n_heads = len(table[table["rows"] == "all"])

    def phrase(row: Any) -> str:
        whence = "from the first token " if row.rows == "cls" else ""
        ends = "" if pd.isna(row.low) else f" [{row.low:.2f}-{row.high:.2f}]"
        share = f"{percent(row.nats / row.uniform)} % of even attention, {row.uniform:.2f}"
        return f"{whence}{row.nats:.2f} nats{ends} ({share}; rank {row.rank:.0f} of {n_heads})"

    for place, text in by_head(ranked, phrase).items():
        yield place, Fact("entropy", text)


def gradient_facts(tables: Tables) -> Facts:
    """How far the loss depends on its attention, by target."""
    table = tables["gradient"]
    is_there = table.groupby("target")["gradient"].transform("max") > 0

    def phrase(row: Any) -> str:
        ends = "" if pd.isna(row.low) else f" [{row.low:.2g} to {row.high:.2g}]"
        return f"to {TARGETS.get(row.target, row.target)} {row.gradient:.2g}{ends}"

    for place, text in by_head(table[is_there], phrase).items():
        yield place, Fact("gradient of the loss", text)


def ablation_facts(tables: Tables) -> Facts:
    """What changes without it."""
    table = add_rank(tables["ablation"], "change", "mode")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        ends = "" if pd.isna(row.low) else f" [{row.low:.2g} to {row.high:.2g}]"
        what = f"{MODES.get(row.mode, row.mode)}: {EFFECTS.get(row.effect, row.effect)}"
        return f"{what} {row.change:.2g}{ends} (rank {row.rank:.0f} of {n_heads})"

    for place, text in by_head(table, phrase).items():
        yield place, Fact("ablation", text)


def nearest_facts(tables: Tables) -> Facts:
    """Which heads attend most like it."""

    def phrase(row: Any) -> str:
        ends = "" if pd.isna(row.low) else f" [{row.low:.3f}-{row.high:.3f}]"
        return f"{row.other_layer}-{row.other_head} ({row.divergence:.3f} nats{ends})"

    for place, text in by_head(tables["distance-nearest"], phrase).items():
        yield place, Fact("nearest heads", text)


def layer_facts(tables: Tables) -> Facts:
    """How far it is from the heads of its layer, and from others."""

    def phrase(row: Any) -> str:
        own = "" if pd.isna(row.within) else f"{row.within:.3f} nats to heads of its layer, "
        return f"{own}{row.between:.3f} to those of other layers"

    table = tables["distance-heads"]
    for place, text in by_head(table[table["between"].notna()], phrase).items():
        yield place, Fact("mean distance", text)


def cluster_facts(tables: Tables) -> Facts:
    """Which cluster it is in."""
    layout = tables["layout"]
    others = layout.groupby("cluster")["head"].transform("size") - 1

    def phrase(row: Any) -> str:
        company = f"with {row.others} others" if row.others > 1 else "with 1 other"
        return f"number {row.cluster}, {company if row.others else 'alone'}"

    for place, text in by_head(layout.assign(others=others), phrase).items():
        yield place, Fact("cluster", text)


def _share_facts(topic: str, table: pd.DataFrame) -> Facts:
    """Shares of attention by target, each with the head's rank; not of what no head can see."""
    is_seen = table.groupby("target")["weight"].transform("max") > 0
    ranked = add_rank(table[is_seen], "weight", "target")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        share = f"{TARGETS.get(row.target, row.target)} {percent(row.weight)} %{interval(row)}"
        return f"{share} (rank {row.rank:.0f} of {n_heads})"

    for place, text in by_head(ranked, phrase).items():
        yield place, Fact(topic, text)


ATTENTION_FACTS: tuple[FactMaker, ...] = (
    (("position",), position_facts),
    (("special-tokens",), special_token_facts),
    (("entropy",), entropy_facts),
    (("gradient",), gradient_facts),
    (("ablation",), ablation_facts),
    (("distance-nearest",), nearest_facts),
    (("distance-heads",), layer_facts),
    (("layout",), cluster_facts),
)
