"""What heads are known for: behaviours above a threshold, and names of what they find."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from headscope.data.table import KIND, Tables, join_kinds, split_kinds
from headscope.errors import StudyError
from headscope.options import flag_of
from headscope.registry import load_presentations
from headscope.view.figure import GREY

__all__ = [
    "OTHER",
    "Behaviour",
    "Kind",
    "Labels",
    "Threshold",
    "behaviour_table",
    "find_kind",
    "find_labelled",
    "label_heads",
    "list_behaviours",
    "list_kinds",
    "list_labels",
    "list_thresholds",
]

COLUMNS = ["behaviour", "layer", "head", "share", "low", "high", "threshold", "holds"]


@dataclass(frozen=True)
class Kind:
    """A kind of behaviour: few enough that each has a colour and a shape on the map of heads."""

    name: str
    colour: str
    shape: str


OTHER = Kind("other", GREY, "circle")


@dataclass(frozen=True)
class Threshold:
    """Above which a head counts; an option of `headscope layout`.

    A behaviour is measured as a share, so a threshold of another unit is divided by `per`.
    """

    name: str
    default: float
    help: str
    most: float = 1.0
    per: float = 1.0

    def as_share(self, chosen: Mapping[str, float]) -> float:
        """The share above which a head counts; an error for one that none or all would pass."""
        value = chosen.get(self.name, self.default)
        if not 0 < value < self.most:
            raise StudyError(
                f"{flag_of(self.name)} {value} cannot be used. Expected a number between 0 and "
                f"{self.most:.4g}; change it, or leave it out."
            )
        return value / self.per


@dataclass(frozen=True)
class Behaviour:
    """Something a head can do with its attention, as a share of it."""

    name: str  # "previous token"
    phrase: str  # "looks at the previous token ({})"
    kind: Kind
    threshold: Threshold
    needs: str  # the table it is read off
    measure: Callable[[pd.DataFrame], pd.DataFrame]  # -> layer, head, share, low, high
    ranking: str = ""  # of the analysis, by which its best and worst examples are found
    is_background: bool = False  # says little of a head, so it is named last
    short: str = ""  # in a cell of the picture of all heads: six letters or so
    also: str = ""  # other words by which a person may look for it


@dataclass(frozen=True)
class Labels:
    """Names of what heads find, such as syntactic relations."""

    kind: Kind
    find: Callable[[Tables], pd.DataFrame]  # -> layer, head, label, share, is_known
    name: str | None = None  # the one label there is; None: any
    called: str = "{}"  # what a card calls it
    plain: Callable[[str], str] = lambda label: ""  # any label in plain words, if it has some
    noun: str = "label"
    short: str = ""  # of the one label, in a cell of the picture of all heads
    also: Callable[[str], str] = lambda label: ""  # other words by which one may look for a label


def list_behaviours() -> list[Behaviour]:
    """The behaviours of all analyses, in the order of the registry."""
    return [behaviour for shown in load_presentations().values() for behaviour in shown.behaviours]


def list_labels() -> list[Labels]:
    """The sources of names of all analyses, in the order of the registry."""
    return [labels for shown in load_presentations().values() for labels in shown.labels]


def list_thresholds() -> list[Threshold]:
    """The thresholds of all behaviours, each once."""
    return list(dict.fromkeys(behaviour.threshold for behaviour in list_behaviours()))


def list_kinds() -> list[Kind]:
    """All kinds of behaviour, what is none of them last."""
    kinds = [behaviour.kind for behaviour in list_behaviours()]
    kinds += [labels.kind for labels in list_labels()]
    return [*dict.fromkeys(kinds), OTHER]


def find_kind(name: str) -> Kind:
    """The kind of a behaviour or label; a name that none has of its own is a free label's."""
    own: dict[str, Kind] = {behaviour.name: behaviour.kind for behaviour in list_behaviours()}
    own |= {labels.name: labels.kind for labels in list_labels() if labels.name is not None}
    free = [labels.kind for labels in list_labels() if labels.name is None]
    return own.get(name, OTHER if name == OTHER.name or not free else free[0])


def behaviour_table(tables: Tables, thresholds: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Every head's share of every behaviour that was measured, highest first.

    A share is a mean attention weight; of broad attention, entropy over that of uniform attention.
    Where there are several kinds of attention, a first column tells them apart.
    """
    kinds = split_kinds(tables)
    if set(kinds) != {""}:
        of_kinds = {kind: {KIND: behaviour_table(own, thresholds)} for kind, own in kinds.items()}
        return join_kinds(of_kinds)[KIND]
    parts = []
    for behaviour in list_behaviours():
        if not len(tables.get(behaviour.needs, ())):
            continue
        threshold = behaviour.threshold.as_share(thresholds or {})
        shares = behaviour.measure(tables[behaviour.needs])
        if shares["share"].max() > 0:  # what a model can show at all
            holds = shares["share"] > threshold
            found = shares.assign(behaviour=behaviour.name, threshold=threshold, holds=holds)
            parts.append(found[COLUMNS].sort_values("share", ascending=False))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def find_labelled(tables: Tables) -> list[pd.DataFrame]:
    """What heads of one kind of attention are measured for, and what they find.

    First come all behaviours, then the names of each source that has some: label, layer, head,
    share, and `is_known` where a head counts.
    """
    measured = behaviour_table(tables).rename(columns={"behaviour": "label", "holds": "is_known"})
    return [measured, *(part for labels in list_labels() if len(part := labels.find(tables)))]


def label_heads(
    heads: pd.DataFrame, tables: Tables, thresholds: Mapping[str, float] | None = None
) -> pd.DataFrame:
    """The heads (layer, head) with all labels that apply, and the first of them as the main one.

    First come behaviours, then what a head finds, then behaviours that say little. What applies
    nowhere is "other".
    """
    found = behaviour_table(tables, thresholds)
    found = found[found["holds"].astype(bool)].rename(columns={"behaviour": "label"})
    is_background = found["label"].isin([b.name for b in list_behaviours() if b.is_background])
    named = [part for labels in list_labels() if len(part := labels.find(tables))]
    known = [part[part["is_known"].astype(bool)] for part in named]
    names: dict[tuple[int, int], list[str]] = {}
    for part in (found[~is_background], *known, found[is_background]):
        for label, layer, head in part[["label", "layer", "head"]].itertuples(index=False):
            names.setdefault((int(layer), int(head)), []).append(str(label))
    places = heads[["layer", "head"]].to_numpy().tolist()
    labels = [list(dict.fromkeys(names.get((*place,), [OTHER.name]))) for place in places]
    return heads.assign(
        behaviour=[own[0] for own in labels], behaviours=["; ".join(own) for own in labels]
    )
