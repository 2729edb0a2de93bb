"""Which syntactic relations heads find, in plain sentences."""

import pandas as pd

from headscope.analyses.dependency.claims import beats_offsets, is_relation
from headscope.data.table import Tables
from headscope.view.answer import cases, in_hundred, join_words, name_best
from headscope.view.judge import name_head
from headscope.view.numbers import POINTS, SHARE, held_out, percent
from headscope.view.specs import Answer, AnswerMaker
from headscope.view.table import name_corpus

__all__ = ["ANSWERS", "list_synonyms", "name_plainly"]

SHOWN_HEADS = 3
FIGURE = "dependency-best"
OPEN_END = " (undecided: no documents could be held out)"
# The dependent and its head in plain words, of Universal Dependencies and of Stanford's labels.
WORDS = {
    "acl:relcl": ("relative clause", "noun"), "advmod": ("adverb", "word that it modifies"),
    "amod": ("adjective", "noun"), "appos": ("apposition", "noun"), "aux": ("auxiliary", "verb"),
    "aux:pass": ("passive auxiliary", "verb"), "auxpass": ("passive auxiliary", "verb"),
    "case": ("preposition", "noun"), "cc": ("conjunction", "word that it joins"),
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
    """The relations that a head finds furthest above the best fixed distance."""
    best = tables["dependency-best"]
    relations = best[is_relation(best)]
    if relations.empty:
        return []
    if relations["heldout_accuracy"].isna().all():
        gains = relations["accuracy"] - relations["baseline_accuracy"]
        top = relations.loc[[gains.idxmax()]]
        return [_say_relation(top.iloc[0], 0.3, top.iloc[1:])]
    better = relations[beats_offsets(relations)]
    better = better.sort_values("heldout_difference", ascending=False, kind="stable")
    if better.empty:
        none = "No head finds a syntactic relation clearly better than a fixed distance does."
        return [Answer(none, 0.3, "By held-out accuracy and corrected p-values.", figure=FIGURE)]
    shown = [
        _say_relation(rows.iloc[0], 1.0 - 0.05 * number, rows.iloc[1:])
        for number, (_, rows) in enumerate(better.groupby(["layer", "head"], sort=False))
    ]
    return [*shown[:SHOWN_HEADS], _count_relations(relations, better)]


def _say_relation(row: pd.Series, weight: float, others: pd.DataFrame) -> Answer:
    """The relation that a head is best known for; the others that it finds are in the detail."""
    head = name_head(row)
    accuracy = held_out(row)
    is_held_out = not pd.isna(accuracy.value)
    share = accuracy.value if is_held_out else row["accuracy"]
    way = "held out" if is_held_out else "chosen on the same words"
    text = (
        f"{name_best(row, head)}: {_say_what(row)} in {cases(share)} ({way}){name_corpus(row)}; "
        f"the best fixed distance is right in {in_hundred(row['baseline_accuracy'])}"
        f"{_say_choice(row)}{'' if is_held_out else OPEN_END}."
    )
    numbers = SHARE.estimate(accuracy) if is_held_out else SHARE.row(row, "accuracy")
    more = f", difference {POINTS.row(row, 'heldout_difference')}" * is_held_out
    detail = (
        f"Relation {row['relation']}, {row['count']} words: {numbers}; best fixed distance "
        f"({row['offset']:+}) {percent(row['baseline_accuracy'])} %{more}."
    )
    also = [
        f"{r['relation']} ({SHARE.number(r['heldout_accuracy'])})" for _, r in others.iterrows()
    ]
    detail += f" It is also the best head for {join_words(also)}." * bool(also)
    return Answer(text, weight, detail, (head,), FIGURE)


def _say_what(row: pd.Series) -> str:
    """What is counted: the dependent's row, or its column."""
    dependent, head = WORDS.get(row["relation"], (f"dependent of {row['relation']}", "head"))
    article = "an" if dependent[0] in "aeiou" else "a"
    its = "the" if " that " in head else "its"
    if row["direction"] == "dependent-to-head":
        return f"{article} {dependent} attends most to {its} {head}"
    return f"{article} {dependent} gets its strongest attention from {its} {head}"


def _say_choice(row: pd.Series) -> str:
    """The other number where the column was read: what the head word's own row chooses."""
    share = row.get("choice_share")
    if share is None or pd.isna(share):
        return ""
    _, head = WORDS.get(row["relation"], ("dependent", "head"))
    return f" (the {head} itself attends most to it in {in_hundred(share)})"


def _count_relations(relations: pd.DataFrame, better: pd.DataFrame) -> Answer:
    n_all, n_found = relations["relation"].nunique(), better["relation"].nunique()
    named = ", ".join(dict.fromkeys(better["relation"].map(str)))
    text = (
        f"Single heads find {n_found} of {n_all} frequent syntactic relations better than any "
        "fixed distance does."
    )
    return Answer(text, 0.6, f"These are {named}.", figure=FIGURE)


ANSWERS = (AnswerMaker(("dependency-best",), answer_relations),)
