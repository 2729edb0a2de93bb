"""Heads as coreference resolvers: does a mention attend most to its antecedent? (paper, 4.3)"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from headscope.analyses.coreference.rules import SYSTEMS
from headscope.analyses.coreference.tables import (
    CANDIDATES,
    DIRECTIONS,
    DISTANCES,
    TABLES,
    TYPES,
    make_tables,
)
from headscope.contracts import Analysis, Annotation
from headscope.data.attention import LayerAttention, Readings
from headscope.data.encoding import Batch
from headscope.data.example import Example, Mention
from headscope.data.reading import DerivedReading, PooledReading, Pooling, Reading
from headscope.data.words import (
    check_query_pieces,
    count_words,
    first_word_option,
    make_pooling,
    query_pieces_option,
    query_units,
    words_with_tokens,
)
from headscope.lazy import Tensor, torch
from headscope.options import option
from headscope.stats import accuracy
from headscope.stats.estimates import Summary
from headscope.stats.ranking import Values
from headscope.stats.sums import Sums

__all__ = [
    "LABELS", "Answers", "Coreference", "HasTokens", "Question", "QuestionBatch", "build_questions",
    "count_answers",
]  # fmt: skip
GROUPS = [*TYPES, *DISTANCES]
LABELS = {"direction": DIRECTIONS, "candidates": CANDIDATES, "system": list(SYSTEMS)}

HasTokens = Bool[NDArray[np.bool_], " word"]


class Question(NamedTuple):
    """A mention to resolve, what it may refer back to (nearest first), and what is right."""

    mention: Mention
    candidates: Sequence[Mention]
    answers: frozenset[int]  # head words
    groups: Sequence[str]  # what the question counts for


ListQuestions = Callable[[Example, HasTokens], Iterable[Question]]


class QuestionBatch(NamedTuple):
    """The questions of a batch; examples with fewer than the most are padded."""

    unit_of_word: Int[np.ndarray, "example word"]  # words that are asked about are counted, else -1
    units: Int[Tensor, "example question"]  # of the head word of the mention
    is_first: Bool[Tensor, "example question"]  # whether that is the first word
    is_candidate: Bool[Tensor, "example candidates question word"]  # by CANDIDATES
    is_right: Bool[Tensor, "example question word"]
    counts_for: Float[Tensor, "example question group"]  # 0 for padding
    by_rule: Float[Tensor, "example question system"]  # 1 where the answer of SYSTEMS is right


@dataclass(frozen=True)
class AskedWords(PooledReading):
    """Attention between the words that are asked about and all words.

    Read are the rows of the former, or their columns.
    """

    analysis: Any
    is_column: bool

    def pool(self, layer: LayerAttention) -> Pooling:
        batch: Batch = layer.batch
        unit_of_word = self.analysis.ask(batch).unit_of_word
        words = np.stack([encoding.word_ids for encoding in batch.encodings])  # [example, token]
        rows, shares = query_units(words, self.analysis.query_pieces)
        asked = rows if not self.is_column else words
        asked = np.where(asked >= 0, np.take_along_axis(unit_of_word, asked.clip(0), axis=1), -1)
        n_words, n_units = count_words(batch), int(unit_of_word.max(initial=-1)) + 1
        if self.is_column:
            return make_pooling(batch, rows, shares, asked, n_words, n_units)
        return make_pooling(batch, asked, shares, words, n_units, n_words)


@dataclass(frozen=True)
class Coreference(Analysis):
    """Each head as a resolver without training: the most attended head word of an earlier mention.

    A mention counts if one of its cluster comes before it; it is right to choose any of those. All
    is between head words: `mentions` lets the head words of earlier mentions compete, `words` every
    other word. mention-to-antecedent reads the mention's row, antecedent-to-mention its column.
    Mentions of what is mentioned once compete only with `singletons`; what the rules find with
    them is measured in any case.
    """

    singletons: bool = option(
        False, "Also take singletons (mentioned once) as candidate antecedents."
    )
    query_pieces: str = query_pieces_option()
    ignore_first_word: bool = first_word_option()

    name = "coreference"
    needs = frozenset({Annotation.WORDS, Annotation.COREFERENCE})
    sums = {
        "correct": "*group layer head direction candidates", "count": "*group",
        "baseline": "*group system", "length": "*group",
        "singletons": "", "with singletons": "*group system",
    }  # fmt: skip
    labels = LABELS
    tables = TABLES

    def __post_init__(self) -> None:
        check_query_pieces(self.query_pieces)

    @property
    def reads(self) -> tuple[Answers, ...]:
        return (Answers(self),)

    def ask(self, batch: Batch) -> QuestionBatch:
        """The questions about a batch."""
        build = partial(build_questions, batch, self.list_questions, GROUPS)
        return batch.remember(("questions", self), build)

    def measure(self, seen: Readings) -> Mapping[str, Tensor | Mapping[str, Tensor]]:
        """Right answers of heads and rules for each group, and how many questions there are."""
        answers = count_answers(self.ask(seen.batch), seen[self.reads[0]], GROUPS)
        return {**answers, **self._measure_links(seen.batch)}

    def rank(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Mentions resolved minus those missed, by type, head, direction and candidates."""
        return accuracy.rank_groups(values, TYPES)

    def summarize(self, sums: Sums) -> Mapping[str, Summary]:
        """Every head and baseline, and the best of them, by type of mention and by distance."""
        return make_tables(sums)

    def _measure_links(self, batch: Batch) -> dict[str, Tensor | Mapping[str, Tensor]]:
        """How long links are, how many singletons there are, and what rules find with them."""
        has_tokens = words_with_tokens(batch)
        length = np.zeros((len(batch), len(GROUPS)))
        rules = np.zeros((len(batch), len(GROUPS), len(SYSTEMS)))
        n_single = np.zeros(len(batch))
        with_singletons = replace(self, singletons=True)
        for i, encoding in enumerate(batch.encodings):
            example = encoding.example
            for question in self.list_questions(example, has_tokens[i]):
                places = [GROUPS.index(name) for name in question.groups]
                length[i, places] += question.mention.head - max(question.answers)
            for question in with_singletons.list_questions(example, has_tokens[i]):
                places = [GROUPS.index(name) for name in question.groups]
                rules[i, places] += score_rules(question, example.words or ())
            n_single[i] = sum(
                m.is_singleton for m in example.mentions or () if has_tokens[i, m.head]
            )
        return {
            "singletons": torch.from_numpy(n_single),
            "length": _by_group(torch.from_numpy(length), GROUPS),
            "with singletons": _by_group(torch.from_numpy(rules), GROUPS),
        }

    def list_questions(self, example: Example, has_tokens: HasTokens) -> Iterator[Question]:
        """Every mention that has an antecedent, what competes, and what is right."""
        mentions = [
            mention
            for mention in example.mentions or ()
            if has_tokens[mention.head] and (self.singletons or not mention.is_singleton)
        ]
        mentions.sort(key=lambda mention: (-mention.head, mention.start))  # last first
        for index, mention in enumerate(mentions):
            before = [other for other in mentions[index + 1 :] if other.head < mention.head]
            answers = frozenset(m.head for m in before if m.cluster == mention.cluster)
            if answers:
                n_words = mention.head - max(answers)
                distance = next(name for name, most in DISTANCES.items() if n_words <= most)
                yield Question(mention, before, answers, ["all", mention.kind, distance])


def build_questions(
    batch: Batch, list_questions: ListQuestions, groups: Sequence[str]
) -> QuestionBatch:
    """The questions about each example, given which of its words have tokens."""
    has_tokens = words_with_tokens(batch)
    n_examples, n_words = has_tokens.shape
    listed = [list(list_questions(e.example, has_tokens[i])) for i, e in enumerate(batch.encodings)]
    shape = (n_examples, max(map(len, listed)))
    units, unit_of_word = np.zeros(shape, np.int64), np.full((n_examples, n_words), -1)
    is_candidate = np.zeros((n_examples, len(CANDIDATES), shape[1], n_words), bool)
    is_right = np.zeros((*shape, n_words), bool)
    counts_for = np.zeros((*shape, len(groups)))
    by_rule = np.zeros((*shape, len(SYSTEMS)))
    for i, questions in enumerate(listed):
        forms = batch.encodings[i].example.words or ()
        asked = sorted({question.mention.head for question in questions})
        unit_of_word[i, asked] = np.arange(len(asked))
        for j, (mention, candidates, answers, names) in enumerate(questions):
            units[i, j] = unit_of_word[i, mention.head]
            is_candidate[i, 0, j, [candidate.head for candidate in candidates]] = True
            is_candidate[i, 1, j] = has_tokens[i] & (np.arange(n_words) != mention.head)
            is_right[i, j, list(answers)] = True
            counts_for[i, j, [groups.index(name) for name in names]] = 1
            by_rule[i, j] = score_rules(questions[j], forms)
    arrays = (units, units == unit_of_word[:, :1], is_candidate, is_right, counts_for, by_rule)
    on_device = (torch.from_numpy(array).to(batch.device) for array in arrays)
    return QuestionBatch(unit_of_word, *on_device)


def score_rules(question: Question, words: Sequence[str]) -> Float[NDArray[np.float64], " system"]:
    """1 for each of SYSTEMS whose pick is right."""
    mention, candidates, answers, _ = question
    picked = [pick(mention, candidates, words) for pick in SYSTEMS.values()]
    return np.array([float(choice is not None and choice.head in answers) for choice in picked])


@dataclass(frozen=True)
class Answers(DerivedReading):
    """1 for each question that a head answers: its most attended candidate is right.

    No attention to any candidate is no answer; ties go to the first.
    """

    analysis: Any  # has `ask`, `query_pieces` and `ignore_first_word`

    @property
    def of(self) -> tuple[Reading, ...]:
        """The rows of the words asked about, and their columns."""
        return AskedWords(self.analysis, is_column=False), AskedWords(self.analysis, is_column=True)

    def derive(
        self, layer: LayerAttention
    ) -> Float[Tensor, "example head direction candidates question"]:
        questions: QuestionBatch = self.analysis.ask(layer.batch)
        rows, columns = (layer.read(reading).weights for reading in self.of)
        columns = columns.mT  # [example, head, unit, word], as rows
        n_heads, n_words = rows.shape[1], rows.shape[-1]
        units = questions.units[:, None, :, None].expand(-1, n_heads, -1, n_words)
        rows, columns = rows.gather(2, units), columns.gather(2, units)  # one for each question
        if self.analysis.ignore_first_word:
            rows[..., 0] = 0
            columns = columns.masked_fill(questions.is_first[:, None, :, None], 0)
        # [example, head, direction, candidates, question, word]
        scores = torch.stack([rows, columns], dim=2)[:, :, :, None]
        best = scores.where(questions.is_candidate[:, None, None], 0).max(dim=-1)
        is_right = questions.is_right[:, None, None, None].expand(*best.indices.shape, n_words)
        is_answered = is_right.gather(-1, best.indices[..., None])[..., 0] & (best.values > 0)
        return is_answered.to(rows.dtype)


def count_answers(
    questions: QuestionBatch,
    answers: Float[Tensor, "example layer head direction candidates question"],
    groups: Sequence[str],
) -> dict[str, Mapping[str, Tensor]]:
    """What heads and rules find of each group, and how many questions it has."""
    asked = questions.counts_for  # [example, question, group]
    correct = torch.einsum("elhdcq,eqg->eglhdc", answers, asked.to(answers.dtype))
    rules = torch.einsum("eqg,eqs->egs", asked, questions.by_rule)
    by_name = {"correct": correct, "count": asked.sum(dim=1), "baseline": rules}
    return {name: _by_group(array, groups) for name, array in by_name.items()}


def _by_group(
    array: Float[Tensor, "example group ..."], groups: Sequence[str]
) -> dict[str, Float[Tensor, "example ..."]]:
    return dict(zip(groups, array.unbind(1), strict=True))
