"""What is shown of attention by part of speech (section 3.2)."""

from headscope.analyses.dependency.claims import MIN_COUNT
from headscope.analyses.dependency.paper_table import name_in_paper
from headscope.analyses.parts_of_speech.measure import NOT_NOUNS, NOUNS
from headscope.analyses.special_tokens.show import TARGETS, find_sink
from headscope.data.table import Tables, rows_where
from headscope.view.facts import FactMaker, Facts, Part, by_head
from headscope.view.judge import judge, name_head
from headscope.view.numbers import SHARE, row_estimate
from headscope.view.presentation import SURFACE, Presentation
from headscope.view.specs import Claim, Outcome
from headscope.view.table import name_corpus

__all__ = ["PRESENTATION"]

MOSTLY = 0.5


def source_facts(tables: Tables) -> Facts:
    """How much goes to what serves as a sink, from nouns and from other words."""
    table = tables["parts-of-speech"]
    target, _, _ = find_sink(table)
    rows = table[(table["target"] == target) & table["source"].isin([NOUNS, NOT_NOUNS])]
    return by_head(
        rows,
        f"to {TARGETS[target]}, by part of speech",
        lambda row: Part(
            f"from {row.source}", f"{SHARE.row(row, 'weight')}{name_corpus(row)}", row.weight
        ),
    )


def check_not_nouns(tables: Tables) -> Outcome:
    """In the head that finds direct objects, words that are no nouns mostly attend to [SEP]."""
    best = tables["dependency-best"]
    rows = best[(best["relation"].map(name_in_paper) == "dobj") & (best["count"] >= MIN_COUNT)]
    if rows.empty:
        few = f"The treebank has fewer than {MIN_COUNT} direct objects (dobj or obj)."
        return Outcome("not measured", few)
    row = rows.iloc[0]
    of_head = rows_where(tables["parts-of-speech"], layer=row["layer"], head=row["head"])
    target, called, note = find_sink(of_head)
    to_sink = rows_where(of_head, target=target).set_index("source")
    if NOT_NOUNS not in to_sink.index:
        return Outcome("not measured", "The treebank has no words that are not nouns.")
    others = to_sink.loc[NOT_NOUNS]
    nouns = SHARE.row(to_sink.loc[NOUNS], "weight") if NOUNS in to_sink.index else "-"
    shows = (
        f"{note}In head {name_head(row)}, the best for direct objects, words that are not nouns "
        f"put {SHARE.row(others, 'weight')} of their attention on {called}, nouns {nouns}."
    )
    return judge(row_estimate(others, "weight"), MOSTLY, shows)


PRESENTATION = Presentation(SURFACE, made_by="--treebank FILE", paper="3.2", show=[
    Claim(
        "not-nouns-look-at-sep", check_not_nouns, needs=("parts-of-speech", "dependency-best"),
        unless="It needs a treebank with parts of speech.",
        says="In the head that finds direct objects, words that are not nouns mostly attend to "
        "[SEP] (here: with over half of their attention).",
        paper="head 8-10: non-nouns mostly attend to [SEP]",
    ),
    FactMaker(("parts-of-speech",), source_facts),
])  # fmt: skip
