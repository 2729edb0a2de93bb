"""What heads are known for: behaviours above a threshold, and names of what they find."""

from collections.abc import Mapping

import pandas as pd

from headscope.data.table import KIND, Tables, join_kinds, split_kinds
from headscope.registry import load_presentations
from headscope.view.numbers import bounds
from headscope.view.presentation import LEAST_SHARE, NotableHead, Presentation, list_specs
from headscope.view.specs import EACH, OTHER, Behaviour, Kind, Labels, Threshold
from headscope.view.table import choose_rows

__all__ = [
    "behaviour_table", "find_behaviour", "find_kind", "find_labelled", "find_notable_heads",
    "label_heads", "list_behaviours", "list_kinds", "list_thresholds", "measure_behaviour",
]  # fmt: skip

COLUMNS = ["behaviour", "layer", "head", "share", "low", "high", "threshold", "holds"]


def list_thresholds() -> list[Threshold]:
    """The thresholds of all behaviours, each once."""
    return list(dict.fromkeys(behaviour.threshold for behaviour in list_specs(Behaviour)))


def list_kinds() -> list[Kind]:
    """All kinds of behaviour, what is none of them last."""
    kinds = [behaviour.kind for behaviour in list_specs(Behaviour)]
    kinds += [labels.kind for labels in list_specs(Labels)]
    return [*dict.fromkeys(kinds), OTHER]


def list_behaviours(tables: Tables) -> list[Behaviour]:
    """All behaviours; instead of one for each value of a column, those of its values."""
    return [each for behaviour in list_specs(Behaviour) for each in _spread(behaviour, tables)]


def _spread(behaviour: Behaviour, tables: Tables) -> list[Behaviour]:
    """The behaviour itself, or those of the values that the tables have."""
    if not behaviour.each:
        return [behaviour]
    table = tables.get(behaviour.needs, pd.DataFrame({behaviour.each: []}))
    values = table[behaviour.each]
    return [behaviour.of(str(v)) for v in values[~values.isin(behaviour.besides)].unique()]


def find_behaviour(name: str) -> Behaviour | None:
    """The behaviour of this name, if there is one."""
    for behaviour in list_specs(Behaviour):
        before, _, after = behaviour.name.partition(EACH)
        if behaviour.name == name:
            return behaviour
        if behaviour.each and name.startswith(before) and name.endswith(after):
            return behaviour.of(name[len(before) : len(name) - len(after)])
    return None


def find_kind(name: str) -> Kind:
    """The kind of a behaviour or label; a name that none has of its own is a free label's."""
    if (behaviour := find_behaviour(name)) is not None:
        return behaviour.kind
    kinds = {labels.name: labels.kind for labels in list_specs(Labels) if labels.name is not None}
    free = [labels.kind for labels in list_specs(Labels) if labels.name is None]
    return kinds.get(name, OTHER if name == OTHER.name or not free else free[0])


def behaviour_table(tables: Tables, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Every head's share of every behaviour that was measured, highest first.

    A share is a mean attention weight; of broad attention, entropy over that of uniform attention.
    Where there are several kinds of attention, a first column tells them apart.
    """
    kinds = split_kinds(tables)
    if set(kinds) != {""}:
        of_kinds = {kind: {KIND: behaviour_table(part, thresholds)} for kind, part in kinds.items()}
        return join_kinds(of_kinds)[KIND]
    parts = []
    for behaviour in list_behaviours(tables):
        if not len(tables.get(behaviour.needs, ())):
            continue
        threshold = behaviour.threshold.as_share(thresholds or {})
        shares = measure_behaviour(behaviour, tables[behaviour.needs])
        if shares["share"].max() > 0:  # what a model can show at all
            holds = shares["share"] > threshold
            heads = shares.assign(behaviour=behaviour.name, threshold=threshold, holds=holds)
            parts.append(heads[COLUMNS].sort_values("share", ascending=False))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def measure_behaviour(behaviour: Behaviour, table: pd.DataFrame) -> pd.DataFrame:
    """The share of every head, with its interval."""
    rows = choose_rows(table, behaviour.where)
    columns = (behaviour.column, *bounds(table, behaviour.column))
    share, low, high = (rows[name] for name in columns)
    if behaviour.is_negative:
        share, low, high = -share, -high, -low
    return rows[["layer", "head"]].assign(share=share, low=low, high=high)


def find_labelled(tables: Tables) -> list[pd.DataFrame]:
    """What heads of one kind of attention are measured for, and what they find.

    First come all behaviours, then the names of each source that has some: label, layer, head,
    share, and `is_known` where a head counts.
    """
    measured = behaviour_table(tables).rename(columns={"behaviour": "label", "holds": "is_known"})
    return [measured, *_named_heads(tables)]


def _named_heads(tables: Tables) -> list[pd.DataFrame]:
    """What each source of names knows of heads, where it knows anything."""
    sources = [labels for labels in list_specs(Labels) if len(tables.get(labels.needs, ()))]
    return [part for labels in sources if len(part := labels.find(tables[labels.needs]))]


def label_heads(
    heads: pd.DataFrame, tables: Tables, thresholds: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """The heads (layer, head) with all labels that apply, and the first of them as the main one.

    First come behaviours, then what a head finds, then behaviours that say little. What applies
    nowhere is "other".
    """
    behaviours = behaviour_table(tables, thresholds)
    behaviours = behaviours[behaviours["holds"].astype(bool)].rename(columns={"behaviour": "label"})
    is_background = behaviours["label"].isin(
        [b.name for b in list_specs(Behaviour) if b.is_background]
    )
    known = [part[part["is_known"].astype(bool)] for part in _named_heads(tables)]
    names: dict[tuple[int, int], list[str]] = {}
    for part in (behaviours[~is_background], *known, behaviours[is_background]):
        for label, layer, head in part[["label", "layer", "head"]].itertuples(index=False):
            names.setdefault((int(layer), int(head)), []).append(str(label))
    places = heads[["layer", "head"]].to_numpy().tolist()
    labels = [list(dict.fromkeys(names.get((*place,), [OTHER.name]))) for place in places]
    return heads.assign(
        behaviour=[applying[0] for applying in labels],
        behaviours=["; ".join(applying) for applying in labels],
    )


def find_notable_heads(analysis: str, tables: Tables) -> list[NotableHead]:
    """The heads worth showing for an analysis, by its tables: the strongest of each behaviour that
    gives it a share worth seeing, then those of its own choice."""
    shown: Presentation | None = load_presentations().get(analysis)
    if shown is None:
        return []
    measured = behaviour_table(tables)
    heads = []
    spread = (each for spec in shown.specs(Behaviour) for each in _spread(spec, tables))
    for behaviour in spread:
        is_strong = (measured["behaviour"] == behaviour.name) & (measured["share"] > LEAST_SHARE)
        if behaviour.ranking and is_strong.any():
            layer, head = measured[is_strong][["layer", "head"]].iloc[0].astype(int)
            heads.append(NotableHead(behaviour.name, behaviour.ranking, layer - 1, head - 1))
    return [*heads, *shown.notable_heads(tables)]
