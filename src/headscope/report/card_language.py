"""Facts of single heads, head by head: the relations, antecedents and parses they are good for."""

from typing import Any

import pandas as pd

from headscope.report.card_facts import (
    Fact,
    FactMaker,
    Facts,
    Tables,
    add_rank,
    by_head,
    interval,
    rows_of,
)
from headscope.report.cells import percent

__all__ = ["LANGUAGE_FACTS", "MIN_COUNT"]

MIN_COUNT = 50  # words; of rarer relations little can be said
LABELS = ("treebank", "corpus", "window")
WAYS = {
    "dependent-to-head": "the dependent attends to its head",
    "head-to-dependent": "the head attends to its dependent",
    "mention-to-antecedent": "the mention attends to its antecedent",
    "antecedent-to-mention": "the antecedent attends to the mention",
}
UNTRAINED = "random-init-"  # probes of another model: the same one without its training
CHOICES = {"coreference": ("mention_type", "antecedents"), "gap": ("gender", "GAP: right names")}


def best_relation_facts(tables: Tables) -> Facts:
    """The relations of which it is the best head."""
    best = tables["dependency-best"]
    for row in rows_of(best[best["count"] >= MIN_COUNT]):
        text = (
            f"{percent(row.accuracy)} %{interval(row)}, held out {percent(row.heldout_accuracy)} %"
            f" (best offset {percent(row.baseline_accuracy)} %, {row.offset:+}); "
            f"{WAYS[str(row.direction)]}"
        )
        topic = f"best head for {row.relation}{_where(row)}"
        yield (int(row.layer), int(row.head)), Fact(topic, text)


def own_relation_facts(tables: Tables) -> Facts:
    """The relation at which it gains most over the best offset, best head of it or not."""
    table = tables["dependency"]
    told = [label for label in LABELS if label in table]
    single = ~table["relation"].str.startswith("all") & (table["count"] >= MIN_COUNT)
    offsets = tables["dependency-offset"].sort_values("accuracy", ascending=False, kind="stable")
    offsets = offsets.drop_duplicates([*told, "relation"])
    offsets = offsets[[*told, "relation", "offset", "accuracy"]]
    offsets = offsets.rename(columns={"accuracy": "baseline"})
    rows = table[single].merge(offsets, on=[*told, "relation"])
    rows = rows.assign(gain=rows["accuracy"] - rows["baseline"])
    rows = rows.sort_values("gain", ascending=False, kind="stable")
    rows = rows.drop_duplicates([*told, "layer", "head"])

    def phrase(row: Any) -> str:
        but = "" if row.gain > 0 else "none better than an offset; nearest is "
        return (
            f"{but}{row.relation} {percent(row.accuracy)} %{interval(row)}{_where(row)} "
            f"(best offset {percent(row.baseline)} %, {row.offset:+}); {WAYS[str(row.direction)]}"
        )

    for place, text in by_head(rows, phrase).items():
        yield place, Fact("relation it finds best, beside offsets", text)


def arc_facts(tables: Tables) -> Facts:
    """How many of all arcs it finds."""
    table = tables["dependency"]
    yield from _accuracy_facts("all arcs", table[table["relation"] == "all"])


def tree_facts(tables: Tables) -> Facts:
    """How much of whole parses is in it."""
    table = tables["trees"]
    rows = table[(table["system"] == "head") & (table["tree"] == "undirected")]
    yield from _accuracy_facts("whole trees, without direction", rows)


def antecedent_facts(tables: Tables) -> Facts:
    """How many antecedents it finds among earlier mentions."""
    yield from _choice_facts(tables, "coreference")


def gap_facts(tables: Tables) -> Facts:
    """How often it picks the right one of two names."""
    yield from _choice_facts(tables, "gap")


def best_antecedent_facts(tables: Tables) -> Facts:
    """The types of mention of which it is the best head."""
    best = tables["coreference-best"]
    for row in rows_of(best[best["candidates"] == "mentions"]):
        text = (
            f"{percent(row.accuracy)} %{interval(row)}, held out {percent(row.heldout_accuracy)} %"
            f" (same head word {percent(row.head_match)} %, rules {percent(row.rule_based)} %); "
            f"{WAYS[str(row.direction)]}"
        )
        topic = f"best head for antecedents, {row.mention_type} mentions{_where(row)}"
        yield (int(row.layer), int(row.head)), Fact(topic, text)


def probe_facts(tables: Tables) -> Facts:
    """Its weights in the probes of attention alone."""
    table = tables["probe-weights"]
    is_own = ~table["probe"].str.startswith(UNTRAINED)
    table = table[table["layer"].notna() & is_own]
    sizes = add_rank(table.assign(size=table["weight"].abs()), "size", "probe", "direction")
    n_heads = table.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        return f"{row.direction} {row.weight:+.2f} (size: rank {row.rank:.0f} of {n_heads})"

    for probe, rows in sizes.groupby("probe", sort=False):
        for place, text in by_head(rows, phrase).items():
            yield place, Fact(f"weight in the probe {probe}", text)


def _choice_facts(tables: Tables, name: str) -> Facts:
    table = tables[name]
    column, topic = CHOICES[name]
    is_whole = (table[column] == "all") & (table["candidates"] == "mentions")
    yield from _accuracy_facts(topic, table[is_whole & (table["system"] == "head")])


def _accuracy_facts(topic: str, table: pd.DataFrame) -> Facts:
    """Each head's better direction, with its rank among heads; once for every corpus."""
    told = [label for label in LABELS if label in table]
    rows = table.sort_values("accuracy", ascending=False, kind="stable")
    rows = add_rank(rows.drop_duplicates([*told, "layer", "head"]), "accuracy", *told)
    n_heads = rows.groupby(["layer", "head"]).ngroups

    def phrase(row: Any) -> str:
        way = WAYS.get(str(getattr(row, "direction", "")), "")
        rank = f"rank {row.rank:.0f} of {n_heads}" + f"; {way}" * bool(way)
        return f"{percent(row.accuracy)} %{interval(row)}{_where(row)} ({rank})"

    for place, text in by_head(rows.sort_index(), phrase).items():
        yield place, Fact(topic, text)


def _where(row: Any) -> str:
    """In which corpus or window, where there are several."""
    said = [str(getattr(row, label)) for label in LABELS[:2] if hasattr(row, label)]
    said += [f"{row.window} tokens"] if hasattr(row, "window") else []
    return f" in {', '.join(said)}" if said else ""


LANGUAGE_FACTS: tuple[FactMaker, ...] = (
    (("dependency-best",), best_relation_facts),
    (("dependency", "dependency-offset"), own_relation_facts),
    (("dependency",), arc_facts),
    (("trees",), tree_facts),
    (("coreference-best",), best_antecedent_facts),
    (("coreference",), antecedent_facts),
    (("gap",), gap_facts),
    (("probe-weights",), probe_facts),
)
