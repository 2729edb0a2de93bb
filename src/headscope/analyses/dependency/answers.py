"""Which syntactic relations heads find, in plain sentences."""

import pandas as pd

from headscope.analyses.dependency.claims import beats_offsets, is_relation
from headscope.data.table import Tables
from headscope.view.answer import OPEN, Answer, AnswerMaker, Topic, join_words, write_percent
from headscope.view.judge import name_head
from headscope.view.numbers import POINTS, SHARE, WHOLE_PERCENT, held_out, is_agreed, percent
from headscope.view.table import name_corpus

__all__ = ["ANSWERS", "list_synonyms", "name_plainly"]

SHOWN_RELATIONS = 3
FIGURE = "dependency-best"
# The dependent and its head in plain words, of Universal Dependencies and of Stanford's labels.
WORDS = {
    "acl:relcl": ("relative clause", "noun"), "advmod": ("adverb", "modified word"),
    "amod": ("adjective", "noun"), "appos": ("apposition", "noun"), "aux": ("auxiliary", "verb"),
    "aux:pass": ("passive auxiliary", "verb"), "auxpass": ("passive auxiliary", "verb"),
    "case": ("preposition", "noun"), "cc": ("conjunction", "conjunct"),
    "compound": ("compound modifier", "noun"), "compound:prt": ("particle", "verb"),
    "conj": ("later conjunct", "first conjunct"), "cop": ("copula", "predicate"),
    "det": ("determiner", "noun"), "dobj": ("direct object", "verb"),
    "iobj": ("indirect object", "verb"), "mark": ("clause marker", "verb"),
    "neg": ("negation", "verb"), "nmod:poss": ("possessor", "noun"),
    "nn": ("compound modifier", "noun"), "nsubj": ("subject", "verb"),
    "nsubj:pass": ("passive subject", "verb"), "nsubjpass": ("passive subject", "verb"),
    "num": ("number", "noun"), "nummod": ("number", "noun"), "obj": ("direct object", "verb"),
    "pobj": ("noun", "preposition"), "poss": ("possessor", "noun"),
    "possessive": ("possessive 's", "possessor"), "prt": ("particle", "verb"),
    "rcmod": ("relative clause", "noun"),
}  # fmt: skip
SYNONYMS = {  # what else a person may look for
    "advmod": "modifier", "amod": "modifier", "case": "adposition", "cc": "and or",
    "ccomp": "clause complement", "compound": "noun", "cop": "be", "det": "article",
    "mark": "subordinating conjunction", "nmod:poss": "possessive", "nummod": "numeral",
    "pobj": "object of a preposition", "poss": "possessive", "prep": "preposition",
    "punct": "punctuation",
}  # fmt: skip


def name_plainly(relation: str) -> str:
    """The relation's dependent in plain words; "" where there are none.

    >>> name_plainly("det")
    'determiner'
    """
    return WORDS.get(relation, (SYNONYMS.get(relation, ""), ""))[0]


def list_synonyms(relation: str) -> str:
    """The words by which a person may look for a relation.

    >>> list_synonyms("det")
    'determiner article'
    """
    return f"{name_plainly(relation)} {SYNONYMS.get(relation, '')}".strip()


def answer_relations(tables: Tables) -> list[Answer]:
    """The heads that find the most frequent relations, better than the best fixed distance."""
    best = tables["dependency-best"]
    relations = best[is_relation(best)]
    better = relations[beats_offsets(relations)]
    if better.empty:
        return _say_no_head(relations)
    labels = ["layer", "head", "direction", *(["treebank"] if "treebank" in better else [])]
    sure = better[is_agreed(better)].sort_values("count", ascending=False, kind="stable")
    heads = [rows for _, rows in sure.groupby(labels, sort=False)]
    total = relations["count"].sum()
    answers = [_say_head(rows, 0.7 + 0.3 * float(rows["count"].sum() / total)) for rows in heads]
    return [*answers, _count_relations(relations, better)]


def _say_no_head(relations: pd.DataFrame) -> list[Answer]:
    """That no head finds a relation, where that is certain of all of them."""
    if relations.empty or not (relations["difference_high"] < 0).all():
        return []
    n = relations["relation"].nunique()
    text = f"No head finds any of {n} frequent syntactic relations better than a fixed distance."
    return [Answer(text, OPEN, "Held out.", figure=FIGURE, topic=Topic.NONE)]


def _say_head(rows: pd.DataFrame, weight: float) -> Answer:
    """What a head finds in a direction, the most frequent first; one relation with its numbers."""
    top = rows.iloc[0]
    head, accuracy = name_head(top), held_out(top)
    relation, baseline = top["relation"], float(top["baseline_accuracy"])
    n = len(rows)
    best_for = f"{n} relations, among them {relation}" if n > 1 else relation
    text = (
        f"{_say_pattern(rows, head)}: best head for {best_for} "
        f"({WHOLE_PERCENT.estimate(accuracy)} held out, among all words; best fixed distance "
        f"{write_percent(baseline)}{_say_choice(top)}){name_corpus(top)}."
    )
    numbers = [
        f"{row['relation']}, {row['count']:,} words: {SHARE.estimate(held_out(row))}; best fixed "
        f"distance ({row['offset']:+}) {percent(row['baseline_accuracy'])} %, difference "
        f"{POINTS.row(row, 'heldout_difference')}"
        for _, row in rows.iterrows()
    ]
    return Answer(
        *(text, weight, f"{'. '.join(numbers)}.", (head,), FIGURE, Topic.FINDS),
        *(accuracy, baseline),
    )


def _say_pattern(rows: pd.DataFrame, head: str) -> str:
    """Which words lead to which, in plain words: the dependents' rows, or their columns."""
    pairs = [WORDS.get(name, (f"dependent of {name}", "head")) for name in rows["relation"]]
    named = pairs[:SHOWN_RELATIONS]
    dependents = list(dict.fromkeys(plural_noun(dependent) for dependent, _ in named))
    of_what = " or ".join(dict.fromkeys(governor for _, governor in named))
    if rows["direction"].iloc[0] == "dependent-to-head":
        return f"Head {head} points {join_words(dependents)} at their {of_what}"
    return f"In head {head}, {join_words(dependents)} get most attention from their {of_what}"


def plural_noun(noun: str) -> str:
    """Several of them.

    >>> plural_noun("auxiliary"), plural_noun("dependent of xyz"), plural_noun("possessive 's")
    ('auxiliaries', 'dependents of xyz', "possessive 's")
    """
    first, of, rest = noun.partition(" of ")
    if first.endswith("'s"):
        return noun
    first = f"{first[:-1]}ies" if first.endswith("y") else f"{first}s"
    return f"{first}{of}{rest}"


def _say_choice(row: pd.Series) -> str:
    """The other number where the column was read: what the head word's own row chooses."""
    share = row.get("choice_share")
    if share is None or pd.isna(share):
        return ""
    _, governor = WORDS.get(row["relation"], ("dependent", "head"))
    return f"; the {governor} itself attends most to it in {write_percent(share)}"


def _count_relations(relations: pd.DataFrame, better: pd.DataFrame) -> Answer:
    n_all, n_better = relations["relation"].nunique(), better["relation"].nunique()
    named = ", ".join(dict.fromkeys(better["relation"].map(str)))
    text = (
        f"Single heads find {n_better} of {n_all} frequent syntactic relations better than any "
        "fixed distance does (held out, p < 0.05)."
    )
    return Answer(text, 0.6, f"These are {named}.", figure=FIGURE, topic=Topic.SUMMARY)


ANSWERS = (AnswerMaker(("dependency-best",), answer_relations),)
