"""What a head is known for: behaviours read off the measured tables, in the paper's thresholds."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import log

import pandas as pd

from headscope.errors import StudyError

__all__ = ["BEHAVIOURS", "Behaviour", "Thresholds", "behaviour_table", "label_heads"]

UNIFORM = log(128)  # nats of even attention over the paper's segments
ALPHA = 0.05
OTHER = "other"
COREFERENCE = "coreference"


@dataclass(frozen=True)
class Thresholds:
    """Above which a head counts (the paper's figure 6).

    `position` and `special_token` are mean attention weights, `broad` is nats in a segment of 128
    tokens; for other lengths it is the same share of the entropy of even attention.
    """

    position: float = 0.5
    special_token: float = 0.6
    broad: float = 3.8

    def __post_init__(self) -> None:
        for name, most in {"position": 1.0, "special_token": 1.0, "broad": UNIFORM}.items():
            value = getattr(self, name)
            if not 0 < value < most:
                option = "--" + name.replace("_", "-")
                raise StudyError(
                    f"{option} {value} cannot be used. Expected a number between 0 and {most:.4g}."
                )

    def shares(self) -> dict[str, float]:
        """The threshold of each table's behaviours, as a share."""
        return {
            "position": self.position,
            "special-tokens": self.special_token,
            "entropy": self.broad / UNIFORM,
        }


@dataclass(frozen=True)
class Behaviour:
    """A kind of head: the rows of a table it shows in, and the share above which it counts."""

    name: str
    table: str
    rows: Mapping[str, str]
    threshold: float


def choose_behaviours(thresholds: Thresholds) -> list[Behaviour]:
    """All behaviours, with these thresholds; the most telling first."""
    shares = thresholds.shares()
    return [replace(behaviour, threshold=shares[behaviour.table]) for behaviour in BEHAVIOURS]


def _everywhere(name: str, target: str) -> Behaviour:
    rows = {"source": "all", "target": target}
    return Behaviour(name, "special-tokens", rows, Thresholds.special_token)


BEHAVIOURS = [
    Behaviour("previous token", "position", {"target": "previous"}, Thresholds.position),
    Behaviour("next token", "position", {"target": "next"}, Thresholds.position),
    Behaviour("same token", "position", {"target": "self"}, Thresholds.position),
    _everywhere("opening token (cls)", "cls"),
    _everywhere("closing tokens (sep)", "sep"),
    _everywhere("period and comma", "punctuation"),
    Behaviour("everything, broadly", "entropy", {"rows": "all"}, Thresholds.broad / UNIFORM),
]

COLUMNS = ["behaviour", "layer", "head", "share", "low", "high", "threshold", "holds"]


def behaviour_table(
    tables: Mapping[str, pd.DataFrame], thresholds: Thresholds | None = None
) -> pd.DataFrame:
    """Every head's share of every behaviour that was measured, highest first.

    A share is a mean attention weight; of broad attention, entropy over that of uniform attention.
    """
    chosen = choose_behaviours(thresholds or Thresholds())
    parts = [_measure(b, tables[b.table]) for b in chosen if b.table in tables]
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def label_heads(
    heads: pd.DataFrame, tables: Mapping[str, pd.DataFrame], thresholds: Thresholds
) -> pd.DataFrame:
    """The heads (layer, head) with all labels that apply, and the first of them as the main one.

    First come position and special tokens, then relations of which the head is the best and
    better than any offset, then coreference, then breadth. What applies nowhere is "other".
    """
    found = behaviour_table(tables, thresholds)
    found = found[found["holds"].astype(bool)][["behaviour", "layer", "head"]]
    is_broad = found["behaviour"] == BEHAVIOURS[-1].name
    parts = [found[~is_broad], _relations(tables), _coreference(tables), found[is_broad]]
    names: dict[tuple[int, int], list[str]] = {}
    for part in parts:
        for behaviour, layer, head in part.itertuples(index=False):
            names.setdefault((int(layer), int(head)), []).append(str(behaviour))
    places = heads[["layer", "head"]].to_numpy().tolist()
    labels = [names.get((layer, head), [OTHER]) for layer, head in places]
    unique = [list(dict.fromkeys(label)) for label in labels]
    return heads.assign(
        behaviour=[label[0] for label in unique], behaviours=["; ".join(u) for u in unique]
    )


def _relations(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The best head of each relation that a head finds better than the offsets, held out."""
    best = tables.get("dependency-best")
    if best is None or best.empty:
        return pd.DataFrame(columns=["behaviour", "layer", "head"])
    is_better = (best["p_value"] < ALPHA) & (best["heldout_difference"] > 0)
    is_relation = ~best["relation"].str.startswith("all")
    found = best[is_better & is_relation]
    return found[["relation", "layer", "head"]].set_axis(["behaviour", "layer", "head"], axis=1)


def _coreference(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The best heads at choosing among mentions, of all mentions and of each type of them."""
    best = tables.get("coreference-best")
    if best is None or best.empty:
        return pd.DataFrame(columns=["behaviour", "layer", "head"])
    found = best[best["candidates"] == "mentions"].dropna(subset=["layer", "head"])
    kinds = found["mention_type"].map(lambda kind: "" if kind == "all" else f" ({kind})")
    return found.assign(behaviour=COREFERENCE + kinds)[["behaviour", "layer", "head"]]


def _measure(behaviour: Behaviour, table: pd.DataFrame) -> pd.DataFrame:
    for column, label in behaviour.rows.items():
        table = table[table[column] == label]
    if "nats" in table:
        scale = table["uniform"].where(table["uniform"] > 0)  # one visible key: no breadth
        shares = {"share": table["nats"] / scale} | {c: table[c] / scale for c in ("low", "high")}
    else:
        shares = {"share": table["weight"], "low": table["low"], "high": table["high"]}
    found = table[["layer", "head"]].assign(
        behaviour=behaviour.name, threshold=behaviour.threshold, **shares
    )
    found = found.assign(holds=found["share"] > behaviour.threshold)
    return found[COLUMNS].sort_values("share", ascending=False)
