"""What is shown of heads as parsers: the best head of each relation (section 4.2, Table 1)."""

from functools import partial
from typing import Any

import pandas as pd

from headscope.analyses.dependency.answers import ANSWERS, list_synonyms, name_plainly
from headscope.analyses.dependency.claims import CLAIMS, MIN_COUNT, WAYS, beats_offsets, is_relation
from headscope.analyses.dependency.gold import relation_name
from headscope.analyses.dependency.measure import DIRECTIONS, Dependency
from headscope.analyses.dependency.paper_table import ARROWS, build_table_1, read_best
from headscope.data.example import ROOT, Example
from headscope.data.table import Tables
from headscope.view.facts import FactMaker, Facts, Part, accuracy_facts, best_head_facts, by_head
from headscope.view.numbers import (
    SHARE,
    is_agreed,
    percent,
)
from headscope.view.presentation import SYNTAX, NotableHead, Presentation
from headscope.view.specs import (
    COLOURS,
    HOW_TO_READ,
    IN_BRACKETS,
    Bars,
    Figure,
    Grid,
    Hover,
    Kind,
    Labels,
    PageTable,
    PrintedTable,
)
from headscope.view.table import (
    CORPUS_LABELS,
    Column,
    TextTable,
    build_table,
    name_corpus,
    split_corpora,
)

__all__ = ["PRESENTATION", "best_relations"]

SHOWN_RELATIONS = 25  # of a treebank, in the figure
NOTABLE_RELATIONS = 10  # shown on examples
CARD_RELATIONS = 6  # of a head
EMPTY = pd.Series([], dtype=object)


def frequent_relations(tables: Tables) -> pd.DataFrame:
    """The best heads of the most frequent relations of each treebank."""
    parts = [part for _, part in split_corpora(tables["dependency-best"])]
    return pd.concat(
        part.sort_values("count", ascending=False, kind="stable").head(SHOWN_RELATIONS)
        for part in parts
    )


def best_relations(tables: Tables) -> pd.DataFrame:
    """Of every head the relation (and direction) in which it is furthest above the best offset."""
    best = tables["dependency-best"]
    is_single = is_relation(best)
    single = best[is_single if is_single.any() else best["count"] > 0]
    labels = [label for label in CORPUS_LABELS if label in best]
    baselines = single[[*labels, "relation", "baseline_accuracy"]]
    rows = _furthest_above(tables["dependency"], baselines, labels)
    return rows.sort_values([*labels, "layer", "head"])


def _furthest_above(
    table: pd.DataFrame, baselines: pd.DataFrame, labels: list[str], most: int = 1
) -> pd.DataFrame:
    """Of every head the relations that it is furthest above the baseline in, by their `gain`."""
    ways = [name for name in ("direction",) if name in baselines]
    rows = table.merge(baselines, on=[*labels, "relation", *ways])
    rows = rows.assign(gain=rows["accuracy"] - rows["baseline_accuracy"])
    rows = rows.sort_values("gain", ascending=False, kind="stable")
    rows = rows.drop_duplicates([*labels, "relation", "layer", "head"])  # the better direction
    return rows.groupby([*labels, "layer", "head"], sort=False).head(most)


def relation_best_facts(tables: Tables) -> Facts:
    """The relations of which it is the best head."""

    def what(row: Any) -> str:
        plain = name_plainly(str(row.relation))
        return f"{row.relation} ({plain})" if plain else str(row.relation)

    best = tables["dependency-best"]
    return best_head_facts(
        best[is_relation(best)],
        lambda row: str(row.relation),
        what,
        lambda row: f"best offset {percent(row.baseline_accuracy)} %, {row.offset:+}",
        lambda row: f"{WAYS[str(row.direction)]}{_say_choice(row)}",
    )


def _say_choice(row: Any) -> str:
    """What the head word's own row chooses, where the dependent's column was read."""
    share = getattr(row, "choice_share", None)  # older runs have none
    if pd.isna(share):
        return ""
    return f"; the head itself attends most to the dependent in {percent(share)} %"


def relation_facts(tables: Tables) -> Facts:
    """The relations at which it gains most over the best offset, best head of them or not."""
    table, offsets = tables["dependency"], tables["dependency-offset"]
    labels = [label for label in CORPUS_LABELS if label in table]
    offsets = offsets.sort_values("accuracy", ascending=False, kind="stable")
    baselines = offsets.rename(columns={"accuracy": "baseline_accuracy"})
    names = [name for name in (*labels, "relation", "direction") if name in offsets]
    baselines = baselines.drop_duplicates(names)[[*names, "offset", "baseline_accuracy"]]

    def phrase(row: Any) -> Part:
        value = f"{SHARE.row(row, 'accuracy')}{name_corpus(row)}"
        offset = f"offset {row.offset:+} gets {percent(row.baseline_accuracy)} %"
        note = f"{offset}; {ARROWS[str(row.direction)]}"
        return Part(str(row.relation), value, row.accuracy, row.baseline_accuracy, note=note)

    rows = _furthest_above(table[is_relation(table)], baselines, labels, CARD_RELATIONS)
    return by_head(rows, "relations, most above the best offset first", phrase)


def find_labels(best: pd.DataFrame) -> pd.DataFrame:
    """The best heads of relations; known for those that they find better than offsets, held out.

    Of relations with words enough: whether a head finds the others is not known.
    """
    best = best[is_relation(best)]
    is_known = beats_offsets(best) & is_agreed(best)
    named = best.rename(columns={"relation": "label", "heldout_accuracy": "share"})
    return named.assign(is_known=is_known)


def find_notable_heads(tables: Tables) -> list[NotableHead]:
    """The best head of each frequent relation that a head finds better than any offset."""
    best = tables.get("dependency-best", pd.DataFrame())
    if best.empty:
        return []
    shown = (
        best[beats_offsets(best) & is_relation(best) & is_agreed(best)]
        .sort_values("count", ascending=False)
        .head(NOTABLE_RELATIONS)
    )
    return [
        NotableHead(
            f"{row['relation']}, {str(row['direction']).replace('-', ' ')}",
            str(row["relation"]),
            int(row["layer"]) - 1,
            int(row["head"]) - 1,
            (DIRECTIONS.index(row["direction"]),),
            partial(list_arcs, relation=row["relation"], direction=row["direction"]),
        )
        for row in shown.to_dict("records")
    ]


def list_arcs(
    analysis: Dependency, example: Example, relation: str, direction: str
) -> list[tuple[int, int]]:
    """The arcs of a relation, from the word that attends to the word that it should attend to."""
    tree = example.tree
    if tree is None:
        return []
    arcs = [
        (word, head)
        for word, (head, label) in enumerate(zip(tree.heads, tree.relations, strict=True))
        if head != ROOT and relation_name(label, analysis.coarse) == relation
    ]
    return arcs if direction == DIRECTIONS[0] else [(head, word) for word, head in arcs]


SHARED = (
    Column("relation", lambda row: str(row["relation"])),
    Column("head", lambda row: f"{row['layer']}-{row['head']}"),
    Column("direction", lambda row: str(row["direction"])),
    Column("serves", lambda row: f"{row['serves']} of {row['treebanks']}"),
    Column("best in", lambda row: str(row["best_in"])),
    Column("mean accuracy", lambda row: SHARE.number(row["accuracy"])),
    Column("lowest", lambda row: SHARE.number(row["lowest_accuracy"])),
    Column("chosen on other treebanks", lambda row: SHARE.number(row["transfer_accuracy"])),
    Column("best head of each treebank", lambda row: SHARE.number(row["own_accuracy"])),
)


def build_shared_heads(tables: Tables) -> list[TextTable]:
    """The heads that serve most treebanks, by relation; none for one treebank."""
    ranked = tables["dependency-languages"].sort_values(
        ["serves", "accuracy"], ascending=False, kind="stable"
    )
    title = "Heads that serve most treebanks"
    note = "A head serves a treebank if its interval there is above the best fixed offset."
    return [build_table(ranked.to_dict("records"), SHARED, title, note)]


PRESENTATION = Presentation(
    SYNTAX, made_by="--treebank FILE", paper="4.2", figure="dependency-best",
    notable_heads=find_notable_heads, show=[
    Bars(
        name="dependency-best", rows=frequent_relations, label="relation",
        column="heldout_accuracy", axis="accuracy", bar="best head, held out",
        ticks={"baseline_accuracy": "best fixed offset"}, on_all="accuracy", panel="treebank",
        hover=[Hover("direction"), Hover("count", form=","), Hover("offset", form="+d")],
        title="The best head of each syntactic relation", paper="Table 1", in_line=2,
        caption="One row per relation, most frequent first. Bar: accuracy of the best head (named "
        "on the right) with its 95 % interval: how often the dependent attends most to its head, "
        "or gets its strongest attention from it, whichever is more (hover to see which). The head "
        "is chosen on some documents and scored on the others. Diamond: chosen and scored on all "
        "documents, as in the paper. Tick: the best fixed distance, which needs no model. "
        f"{IN_BRACKETS}",
    ),
    Grid(
        name="heads-relations", needs=("dependency", "dependency-best"), rows=best_relations,
        column="gain", axis="accuracy above the best fixed offset", diverging=True,
        panel="treebank",
        hover=[
            Hover("relation"), Hover("direction"), Hover("accuracy", form=".3~g"),
            Hover("baseline_accuracy", "best fixed offset", ".3~g"), Hover("count", "words", ",d"),
        ],
        title="Heads that know a syntactic relation",
        caption=f"{HOW_TO_READ} Red: the head finds some relation better than the best fixed "
        "distance does. Blue: it finds none better. Hover to see the relation with the largest "
        f"gain, of those with at least {MIN_COUNT} words.",
    ),
    Figure(
        name="dependency-treebanks", needs=("dependency-best",),
        made_by="--treebank FILE --treebank FILE", content="several treebanks",
        draw_tables="headscope.analyses.dependency.charts:draw_treebanks",
        has_content=lambda tables: tables["dependency-best"].get("treebank", EMPTY).nunique() > 1,
        title="Relations in several treebanks",
        caption="Rows: relations, most frequent first. Columns: treebanks. Each cell: held-out "
        "accuracy of the best head in percent, with its 95 % interval.",
    ),
    *CLAIMS,
    *ANSWERS,
    FactMaker(("dependency-best",), relation_best_facts, has_summary=True),
    FactMaker(("dependency", "dependency-offset"), relation_facts),
    accuracy_facts("all arcs", "dependency", WAYS, relation="all"),
    PrintedTable("dependency-best", read_best),
    PageTable(
        "Table 1, the best head of each relation", "--treebank FILE.conllu", "dependency-best",
        build_table_1, name="table-1",
    ),
    PageTable(
        "Heads that serve most treebanks", "--treebank FILE.conllu --treebank FILE.conllu",
        "dependency-languages", build_shared_heads,
    ),
    Labels(
        Kind("a syntactic relation", COLOURS[2], "diamond"), "dependency-best", find_labels,
        noun="relation", plain=name_plainly, also=list_synonyms,
    ),
])  # fmt: skip
