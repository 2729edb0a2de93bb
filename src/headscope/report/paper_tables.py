"""The paper's Tables 1, 2 and 3 for this model, with BERT-base's numbers beside its own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from headscope.report.cells import percent
from headscope.report.coreference import PAPER_TABLE_2
from headscope.report.dependency import ARROWS, PAPER_TABLE_1, UNIVERSAL
from headscope.report.probes import PAPER_TABLE_3

__all__ = ["PaperTable", "paper_tables"]

Tables = Mapping[str, pd.DataFrame]
Row = tuple[str, ...]

MIN_COUNT = 50  # words; relations with fewer are shown only where the paper shows them
TABLE_1 = (
    "relation",
    "words",
    "head",
    "direction",
    "accuracy %",
    "95 % interval",
    "held out %",
    "offset %",
    "offset % held out",
    "BERT-base: head",
    "BERT-base: accuracy %",
    "BERT-base: offset %",
)
MENTIONS = ("all", "pronoun", "proper", "nominal")
RULES = {"nearest": "nearest mention", "head_match": "same head word", "rule_based": "rules"}
NEURAL = "neural system (paper alone)"
STRUCTURAL = "structural probe (paper alone)"


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper, in words ready to be shown (not escaped)."""

    name: str  # "table-1", and the corpus where there are several
    title: str
    note: str  # how to read it
    columns: Row
    rows: tuple[Row, ...]


def paper_tables(tables: Tables) -> list[PaperTable]:
    """Those of the paper's tables that the run has numbers for; one each for every corpus."""
    found = [_table_1(label, part) for label, part in _parts(tables, "dependency-best")]
    found += [
        _table_2(label, part, tables.get("coreference"))
        for label, part in _parts(tables, "coreference-best")
    ]
    return found + [_table_3(label, part) for label, part in _parts(tables, "probes")]


def _parts(tables: Tables, name: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """The table, cut by what its first columns tell apart, with a name for each part."""
    table = tables.get(name)
    if table is None or table.empty:
        return
    labels = [label for label in ("treebank", "corpus", "window") if label in table]
    if not labels:
        yield "", table
        return
    for _, part in table.groupby(labels, sort=False):
        first = part.iloc[0]
        said = [f"{first[n]} tokens" if n == "window" else str(first[n]) for n in labels]
        yield ", ".join(said), part


def _table_1(label: str, best: pd.DataFrame) -> PaperTable:
    by_name = {UNIVERSAL.get(str(r), str(r)): row for r, row in _by(best, "relation")}
    # In the order of the paper, then what else the treebank has in number, most frequent first.
    others = {
        name: row
        for name, row in by_name.items()
        if name not in PAPER_TABLE_1 and row["count"] >= MIN_COUNT
    }
    rows = [_relation_row(name, by_name.get(name)) for name in PAPER_TABLE_1]
    rows += [_relation_row(name, row) for name, row in others.items()]
    note = (
        "The head and direction that are best at each relation, beside the best fixed offset (in "
        "brackets: +1 is the next word). Held out: chosen on one half of the sentences, scored on "
        "the other. BERT-base is the paper's, on the Wall Street Journal with Stanford labels; "
        "Universal Dependencies' names for the same relation stand in brackets, and a dash where "
        f"the treebank has none. Other relations are shown from {MIN_COUNT} words on."
    )
    title = _title("Best heads by relation", label)
    return PaperTable(_name(1, label), title, note, TABLE_1, tuple(rows))


def _relation_row(name: str, row: pd.Series | None) -> Row:
    paper = PAPER_TABLE_1.get(name)
    theirs = (paper[0], str(paper[1]), str(paper[2])) if paper else ("", "", "")
    if row is None:
        return (name, *["-"] * 8, *theirs)
    own = str(row["relation"])
    return (
        name if own == name else f"{name} ({own})",
        str(row["count"]),
        f"{row['layer']}-{row['head']}",
        ARROWS[str(row["direction"])],
        percent(row["accuracy"]),
        _interval(row),
        percent(row["heldout_accuracy"]),
        f"{percent(row['baseline_accuracy'])} ({row['offset']:+})",
        percent(row["heldout_baseline_accuracy"]),
        *theirs,
    )


def _table_2(label: str, best: pd.DataFrame, every: pd.DataFrame | None) -> PaperTable:
    among = dict(_by(best[best["candidates"] == "mentions"], "mention_type"))
    kinds = [kind for kind in MENTIONS if kind in among]
    columns = ("system", *kinds, *(f"BERT-base: {kind}" for kind in kinds))
    theirs = {kind: PAPER_TABLE_2[kind] for kind in kinds}
    rows = [
        (
            called,
            *(percent(among[kind][rule]) for kind in kinds),
            *(str(theirs[kind][place]) for kind in kinds),
        )
        for place, (rule, called) in enumerate(RULES.items())
    ]
    rows.append((NEURAL, *[""] * len(kinds), *("83" if k == "all" else "" for k in kinds)))
    last = tuple(str(theirs[kind][3]) for kind in kinds)
    rows += _one_head(among, kinds, best, every, last)
    own = [f"{_accuracy(among[k])} ({among[k]['layer']}-{among[k]['head']})" for k in kinds]
    rows.append(("best head of each type", *own, *[""] * len(kinds)))
    held = [percent(among[kind]["heldout_accuracy"]) for kind in kinds]
    rows.append(("best head of each type, held out", *held, *[""] * len(kinds)))
    counts = ", ".join(f"{among[kind]['count']} {kind}" for kind in kinds)
    note = (
        "How often the right antecedent is picked, in percent, by rules and by the mention's "
        f"attention ({counts}). Candidates are the earlier mentions. BERT-base is the paper's head "
        "5-4 on CoNLL-2012, in windows of 128 tokens; its neural system read whole documents."
    )
    title = _title("Antecedents by type of mention", label)
    return PaperTable(_name(2, label), title, note, columns, tuple(rows))


def _one_head(
    among: Mapping[str, pd.Series],
    kinds: Sequence[str],
    best: pd.DataFrame,
    every: pd.DataFrame | None,
    paper: Row,
) -> list[Row]:
    """As in the paper: the head that is best over all mentions, and what it makes of each type."""
    if "all" not in among or every is None or every.empty:
        return []
    top = among["all"]
    told = [name for name in ("corpus", "window") if name in best and name in every]
    same = [*told, "layer", "head", "direction", "candidates"]
    rows = every[(every["system"] == "head") & (every[same] == top[same]).all(axis=1)]
    own = dict(_by(rows, "mention_type"))
    cells = [_accuracy(own[kind]) if kind in own else "-" for kind in kinds]
    return [(f"head {top['layer']}-{top['head']} (best over all)", *cells, *paper)]


def _table_3(label: str, probes: pd.DataFrame) -> PaperTable:
    columns = ("probe", "UAS %", "95 % interval", "training sentences", "BERT-base: UAS %")
    measured = dict(_by(probes, "probe"))
    names = [*PAPER_TABLE_3, *(name for name in measured if name not in PAPER_TABLE_3)]
    rows = [_probe_row(name, measured.get(name)) for name in names]
    rows.append((STRUCTURAL, "", "", "", "80 UUAS"))
    note = (
        "Words whose syntactic head is found from the attention of all heads together, without "
        "punctuation. BERT-base is the paper's, on the Wall Street Journal with GloVe vectors; a "
        "dash where a probe was not trained. The structural probe reads vectors, not attention, "
        "and is scored without direction, so it is no measure for the others."
    )
    title = _title("Probes over all heads", label)
    return PaperTable(_name(3, label), title, note, columns, tuple(rows))


def _probe_row(name: str, row: pd.Series | None) -> Row:
    theirs = str(PAPER_TABLE_3.get(name, ""))
    if row is None:
        return (name, "-", "-", "-", theirs)
    return (name, percent(row["uas"]), _interval(row), f"{row['sentences']:,}", theirs)


def _by(table: pd.DataFrame, column: str) -> Iterator[tuple[str, pd.Series]]:
    return ((str(row[column]), row) for _, row in table.iterrows())


def _accuracy(row: pd.Series) -> str:
    ends = _interval(row)
    return percent(row["accuracy"]) + (f" [{ends}]" if ends != "-" else "")


def _interval(row: pd.Series) -> str:
    return "-" if pd.isna(row["low"]) else f"{percent(row['low'])}-{percent(row['high'])}"


def _name(number: int, label: str) -> str:
    return f"table-{number}" + f" {label}" * bool(label)


def _title(what: str, label: str) -> str:
    return what + f" ({label})" * bool(label)
