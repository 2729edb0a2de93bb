"""Checks that your own analysis, corpus or source keeps the contract.

    from headscope.testing import check_analysis
    check_analysis(MyAnalysis())

Each check raises an AssertionError that names the class and the law it breaks. They need no model:
`MadeSource` shows random attention over made-up sentences.
"""

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headscope.contracts import Analysis, Annotation, Corpus, CorpusRole, Source, Watch
from headscope.data.attention import AttentionRows, LayerAttention, LayerChange, LayerGradient
from headscope.data.encoding import Batch, Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.mention import KINDS, Mention
from headscope.data.tree import ROOT, Tree
from headscope.engine.measure import Result, measure_examples
from headscope.options import RunOptions, collect_options
from headscope.stats.tally import Tally

__all__ = [
    "MadeSource",
    "check_analysis",
    "check_corpus",
    "check_source",
    "encode_words",
    "make_example",
    "random_maps",
]

N_LAYERS, N_HEADS = 3, 5  # unequal primes: a swapped axis fails
N_MODES = 3  # in which heads are altered
RELATIONS = ["nsubj", "obj", "nsubj:pass", "punct", "poss"]
VOCABULARY = ["the", "boat", "sails", ".", ",", "home", "'s", "old"]
ROW_SUM_ERROR = 0.02  # of a row of bfloat16 weights
HEAD_COLUMN = re.compile(r"(.*_)?head(_[ab])?")  # also nearest_head_b; not head_match

Require = Callable[[bool, str], None]


def check_analysis(analysis: Analysis, precision: torch.dtype = torch.float32) -> None:
    """Raise an AssertionError that names the class and the law, if the analysis breaks one.

    `precision` is what the model computes in; an analysis gets float32 all the same.
    """
    require = _laws_of(analysis)
    _check_declaration(analysis, require)
    emits = Watch.ATTENTION if analysis.watches.compares_layers else analysis.watches
    source = MadeSource(emits=emits, precision=precision)
    examples = [make_example(seed) for seed in range(12)]
    _check_measure(analysis, source, examples, require)
    whole = _measure(examples, analysis, source)
    tally = whole.tallies[analysis.name]
    tables = dict(analysis.summarize(tally))
    columns = {name: tuple(table.columns) for name, table in tables.items()}
    require(columns == dict(analysis.tables), "`summarize` gives the tables and columns declared")
    empty = analysis.summarize(Tally())
    columns = {name: tuple(table.columns) for name, table in empty.items() if not len(table)}
    require(columns == dict(analysis.tables), "no examples give empty tables with their columns")
    _check_addition(analysis, source, examples, tally, require)
    _check_equivariance(analysis, source, examples, tables, require)
    for n_words, n_pieces in ((1, 1), (1, 3), (2, 1), (7, 3)):  # short, and all words split
        few = [make_example(seed, n_words) for seed in range(3)]
        split = MadeSource(pieces=lambda w, i, n=n_pieces: n, emits=source.emits)  # type: ignore[misc]
        analysis.summarize(_measure(few, analysis, split).tallies[analysis.name])


def check_corpus(corpus: Corpus) -> None:
    """Raise an AssertionError that names the class and the law, if the corpus breaks one.

    >>> from headscope.corpora.opening import open_corpus
    >>> check_corpus(open_corpus("starter", CorpusRole.TREEBANK))
    """
    require = _laws_of(corpus)
    require(isinstance(corpus.name, str) and bool(corpus.name), "`name` is a non-empty string")
    require(isinstance(corpus.provides, frozenset), "`provides` is a frozenset")
    annotations = sorted(corpus.provides & HAS_ANNOTATION.keys())
    examples = list(corpus)
    for number, example in enumerate(examples, start=1):
        is_example = isinstance(example, Example)
        require(is_example, f"it yields Examples; item {number} is a {type(example).__name__}")
        is_id = isinstance(example.id, str) and bool(example.id)
        require(is_id, f"ids are non-empty strings; that of example {number} is {example.id!r}")
        for annotation in annotations:
            has_it = HAS_ANNOTATION[annotation](example)
            require(has_it, f"every example has what it provides; {example.id!r}: no {annotation}")
    ids = [example.id for example in examples]
    require(len(set(ids)) == len(ids), "ids are unique")
    second = list(corpus)
    same_ids = [example.id for example in second] == ids
    require(same_ids, "iterated again, it yields the same ids in the same order")
    require(second == examples, "iterated again, it yields the same examples")
    digest = corpus.digest()
    require(isinstance(digest, str) and bool(digest), "`digest()` is a non-empty string")
    require(corpus.digest() == digest, "`digest()` is the same each time")
    if hasattr(corpus, "suffixes"):
        _check_format(corpus, examples, require)


def check_source(source: Source[Any], examples: Sequence[Example] | None = None) -> None:
    """Raise an AssertionError that names the class and the law, if the source breaks one.

    >>> check_source(MadeSource())
    """
    require = _laws_of(source)
    require(isinstance(source.name, str) and bool(source.name), "`name` is a non-empty string")
    require(isinstance(source.describe().get("digest"), str), "`describe()` has a digest")
    require(source.max_tokens > 0, "`max_tokens` is positive")
    examples = examples or [make_example(seed, n_words=5) for seed in range(3)]
    encodings = source.encode(examples, min(source.max_tokens, 64))
    require(len(encodings) == len(examples), "`encode` gives one encoding an example, in order")
    same = all(e.example is example for e, example in zip(encodings, examples, strict=True))
    require(same, "an encoding keeps its example")
    for encoding in encodings:
        words = set(encoding.word_ids.tolist()) - {-1}
        are_known = words <= set(range(len(encoding.example.words or ())))
        require(are_known, "`word_ids` are places of the example's words, or -1")
        alone = _observe(source, [encoding], require)
        again = _observe(source, [encoding], require)
        is_same = all(torch.equal(a, b) for a, b in zip(alone, again, strict=True))
        require(is_same, "the same batch shows the same numbers")
    lengths = Counter(map(len, encodings))
    group = [e for e in encodings if len(e) == lengths.most_common(1)[0][0]]
    together = _observe(source, group, require)
    for place, encoding in enumerate(group):
        for alone_layer, layer in zip(_observe(source, [encoding], require), together, strict=True):
            is_close = torch.allclose(alone_layer[0], layer[place], atol=1e-2, rtol=1e-2)
            require(is_close, "what an example shows does not depend on its batch")


# What has no model: made-up sentences and random attention.


def make_example(seed: int, n_words: int | None = None) -> Example:
    """A sentence of known words with a random tree and random mentions."""
    rng = np.random.default_rng(seed)
    n_words = n_words or int(rng.integers(1, 9))
    return Example(
        f"made:{seed}",
        words=tuple(rng.choice(VOCABULARY, n_words).tolist()),
        tree=random_tree(rng, n_words),
        mentions=random_mentions(rng, n_words),
        sentences=(0,),
    )


def random_mentions(rng: np.random.Generator, n_words: int) -> tuple[Mention, ...]:
    """Mentions anywhere, nested and crossing, of few things; what is known of them is random."""
    spans = []
    for start in range(n_words):
        if rng.random() < 0.7:
            end = int(rng.integers(start + 1, min(start + 4, n_words + 1)))
            spans.append((start, end, str(rng.integers(3)), int(rng.integers(start, end))))
    sizes = Counter(cluster for *_, cluster, _ in spans)
    return tuple(
        Mention(
            start,
            end,
            cluster,
            head,
            kind=str(rng.choice(KINDS)),
            number=[None, "singular", "plural"][rng.integers(3)],
            gender=[None, "masculine", "feminine"][rng.integers(3)],
            person=[None, "2", "3"][rng.integers(3)],
            is_singleton=sizes[cluster] == 1,
        )
        for start, end, cluster, head in spans
    )


def random_tree(rng: np.random.Generator, n_words: int) -> Tree:
    """A tree in which every word but the root hangs on one that was placed before it."""
    order = rng.permutation(n_words)
    heads = [ROOT] * n_words
    for place, word in enumerate(order[1:], start=1):
        heads[word] = int(order[rng.integers(place)])
    relations = rng.choice(RELATIONS, n_words).tolist()
    named = [r if h != ROOT else "root" for r, h in zip(relations, heads, strict=True)]
    return Tree(tuple(heads), tuple(named))


def split_evenly(word: str, place: int) -> int:
    """How many pieces a word has: every third word is split in two or three."""
    return 1 + place % 3 if place % 2 else 1


def encode_words(
    example: Example, pieces: Callable[[str, int], int] = split_evenly, n_closing: int = 1
) -> Encoding:
    """[CLS], the words in pieces, then [SEP]s."""
    words = example.words or tuple((example.text or "").split())
    ids = [i for i, word in enumerate(words) for _ in range(pieces(word, i))]
    surfaces = ["[CLS]", *(words[i] for i in ids), *["[SEP]"] * n_closing]
    kinds = [TokenKind.CLS, *[TokenKind.TEXT] * len(ids), *[TokenKind.SEP] * n_closing]
    return Encoding(
        example=example,
        inputs={"input_ids": np.arange(len(surfaces))},
        surfaces=tuple(surfaces),
        kinds=np.array(kinds, dtype=np.int64),
        word_ids=np.array([-1, *ids, *[-1] * n_closing], dtype=np.int64),
    )


def random_maps(encoding: Encoding, seed: int = 0) -> Tensor:
    """Attention that depends on the example alone: [layer, head, query, key], rows sum to 1."""
    rng = np.random.default_rng([encoding.example.key, seed])
    scores = 3 * rng.standard_normal((N_LAYERS, N_HEADS, len(encoding), len(encoding)))
    return torch.from_numpy(scores).softmax(-1)


@dataclass(frozen=True)
class MadeSource:
    """A source without a model: `maps` says what each example looks like inside.

    It can emit gradients and changes too: then they are the maps, or their diagonals. `precision`
    rounds as a model would that computes in half precision; numbers leave as float32 then.
    """

    maps: Callable[[Encoding], Tensor] = random_maps
    pieces: Callable[[str, int], int] = split_evenly
    name: str = "made"
    n_layers: int = N_LAYERS
    n_heads: int = N_HEADS
    max_tokens: int = 512
    emits: Watch = Watch.ATTENTION
    precision: torch.dtype = torch.float64

    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        return [encode_words(example, self.pieces) for example in examples]

    def batch(self, encodings: Sequence[Encoding]) -> Batch:
        return Batch(tuple(encodings))

    def attend(self, batch: Batch, observe: Callable[[Any], None]) -> None:
        stacked = torch.stack([self.maps(encoding) for encoding in batch.encodings], dim=1)
        if self.precision is not torch.float64:
            stacked = stacked.to(self.precision).float()
        layers = range(len(stacked))
        for layer in reversed(layers) if self.emits is Watch.GRADIENT else layers:
            observe(self._show(layer, stacked[layer], batch))  # [example, head, query, key]

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "digest": "made"}

    def _show(
        self, layer: int, weights: Tensor, batch: Batch
    ) -> LayerAttention | LayerGradient | LayerChange:
        if self.emits is Watch.GRADIENT:
            return LayerGradient(layer, weights, batch)
        if self.emits is Watch.CHANGE:
            changes = weights.diagonal(dim1=-2, dim2=-1)[..., :1].repeat(1, 1, N_MODES)
            measured = torch.ones(weights.shape[1], dtype=torch.bool)
            base = weights.new_ones(len(weights))
            return LayerChange(layer, changes, measured, base, "loss", batch)
        return LayerAttention.full(layer, weights, batch)


# The laws, one by one.

HAS_ANNOTATION: dict[str, Callable[[Example], bool]] = {
    Annotation.WORDS: lambda example: bool(example.words),
    Annotation.DEPENDENCIES: lambda example: example.tree is not None,
    Annotation.COREFERENCE: lambda example: example.mentions is not None,
    Annotation.PRONOUN_CHOICES: lambda example: bool(example.mentions),
}


def _laws_of(thing: object) -> Require:
    def require(is_met: bool, law: str) -> None:
        if not is_met:
            raise AssertionError(f"{type(thing).__name__}: {law}.")

    return require


def _check_declaration(analysis: Any, require: Require) -> None:
    kind = type(analysis)
    is_frozen = is_dataclass(kind) and kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    require(is_frozen, "it is a frozen dataclass: it holds options, never data")
    require(isinstance(getattr(kind, "name", None), str), "`name` is a string of the class")
    require(isinstance(getattr(kind, "watches", None), Watch), "`watches` is a Watch")
    require(isinstance(getattr(kind, "needs", None), frozenset), "`needs` is a frozenset")
    tables = getattr(kind, "tables", None)
    are_columns = isinstance(tables, Mapping) and all(isinstance(c, tuple) for c in tables.values())
    require(are_columns and bool(tables), "`tables` names the columns of each table, as tuples")
    for option in collect_options(kind).values():
        require(bool(option.help.strip()), f"the option {option.name} has a help text")
    require(pickle.loads(pickle.dumps(analysis)) == analysis, "it pickles")
    described = json.loads(json.dumps(asdict(analysis)))
    again = json.loads(json.dumps(asdict(kind(**described))))
    require(again == described, "it can be made again from its fields as JSON")
    if analysis.watches.compares_layers:
        has_rows = isinstance(getattr(analysis, "rows", None), int)
        require(has_rows, "it says how many `rows` it wants")


def _check_measure(
    analysis: Any, source: MadeSource, examples: Sequence[Example], require: Require
) -> None:
    """One batch by hand: the input is left as it is, and the first axis is the example."""
    encodings = source.encode(examples, 512)
    usual = Counter(map(len, encodings)).most_common(1)[0][0]
    encodings = [encoding for encoding in encodings if len(encoding) == usual]
    shown: list[Any] = []
    source.attend(source.batch(encodings), shown.append)
    if analysis.watches.compares_layers:
        rows = torch.cat([layer.weights.transpose(1, 2) for layer in shown], dim=2)
        shown = [AttentionRows(rows, (N_HEADS,) * len(shown), shown[0].batch)]
    for observed in shown:
        numbers = _numbers_of(observed)
        before = numbers.clone()
        values = analysis.measure(observed)
        require(torch.equal(numbers, before), "`measure` leaves its input unchanged")
        law = "`measure` gives named arrays, each a torch.Tensor"
        require(isinstance(values, Mapping), law)
        require(all(isinstance(value, Tensor) for value in values.values()), law)
        lengths = {value.shape[:1] for value in values.values()}
        require(lengths <= {(len(encodings),)}, "the first axis of what it measures is the example")
        is_finite = all(bool(torch.isfinite(value).all()) for value in values.values())
        require(is_finite, "sums and counts are finite numbers")


def _check_addition(
    analysis: Analysis,
    source: MadeSource,
    examples: Sequence[Example],
    whole: Tally,
    require: Require,
) -> None:
    parts = [_measure(examples[start::3], analysis, source) for start in range(3)]
    total = parts[0] + parts[1] + parts[2]
    law = "the sums of the parts of a corpus are those of the whole"
    require(_is_same(total.tallies[analysis.name], whole), law)
    law = "neither the order of examples nor the size of batches changes the sums"
    turned = _measure(examples[::-1], analysis, source, batch_tokens=1)
    require(_is_same(turned.tallies[analysis.name], whole), law)


def _check_equivariance(
    analysis: Analysis,
    source: MadeSource,
    examples: Sequence[Example],
    tables: Mapping[str, pd.DataFrame],
    require: Require,
) -> None:
    """Heads in another order give the same rows for other heads; catches axes mixed up."""
    order = [3, 0, 4, 1, 2]

    def permuted(encoding: Encoding) -> Tensor:
        return random_maps(encoding)[:, order]

    other = MadeSource(permuted, emits=source.emits, precision=source.precision)
    moved = analysis.summarize(_measure(examples, analysis, other).tallies[analysis.name])
    name, table = next(iter(tables.items()))
    columns = [column for column in table.columns if HEAD_COLUMN.fullmatch(column)]
    renamed = moved[name].copy()
    for column in columns:
        renamed[column] = renamed[column].map(lambda h: order[h - 1] + 1, na_action="ignore")
    frames = table.copy(), renamed.astype(table.dtypes)
    both = [_in_order(f) if analysis.watches is not Watch.MODEL_PAIR else f for f in frames]
    labels = [c for c in table.columns if c not in table.select_dtypes("float").columns]
    first, second = (frame.sort_values(labels).reset_index(drop=True) for frame in both)
    law = "heads in another order give the same rows for other heads"
    try:
        pd.testing.assert_frame_equal(first, second, check_exact=False, rtol=1e-6)
    except AssertionError:
        require(False, law)


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Of a pair of heads of one model the first one first."""
    if "head_a" in table:
        one, other = ["layer_a", "head_a"], ["layer_b", "head_b"]
        ends = [list(map(tuple, table[end].to_numpy())) for end in (one, other)]
        is_swapped = np.array([a > b for a, b in zip(*ends, strict=True)])
        table.loc[is_swapped, one + other] = table.loc[is_swapped, other + one].to_numpy()
    return table


def _check_format(corpus: Corpus, examples: Sequence[Example], require: Require) -> None:
    """What also holds of a class that reads files."""
    roles, suffixes = getattr(corpus, "roles", None), getattr(corpus, "suffixes", None)
    are_roles = isinstance(roles, (set, frozenset)) and bool(roles)
    are_roles = are_roles and all(isinstance(role, CorpusRole) for role in roles or ())
    require(are_roles, "`roles` is a non-empty set of CorpusRole")
    are_suffixes = isinstance(suffixes, tuple) and bool(suffixes)
    are_suffixes = are_suffixes and all(isinstance(suffix, str) for suffix in suffixes or ())
    require(are_suffixes, "`suffixes` is a non-empty tuple of strings")
    path = getattr(corpus, "path", None)
    require(path is not None, "a class with `suffixes` keeps the file it reads as `path`")
    again: Corpus = type(corpus)(path)  # type: ignore[call-arg]
    require(again.digest() == corpus.digest(), "the same file has the same digest")
    require(list(again) == examples, "the same file gives the same examples")


def _observe(source: Source[Any], encodings: Sequence[Encoding], require: Require) -> list[Tensor]:
    """What is shown of a batch, first layer first, checked layer by layer."""
    batch = source.batch(encodings)
    shown: list[Any] = []
    source.attend(batch, shown.append)
    order = list(range(source.n_layers))[:: -1 if source.emits is Watch.GRADIENT else 1]
    law = "each layer is shown once, in the order of its Watch"
    require([observed.layer for observed in shown] == order, law)
    for observed in shown:
        numbers = _numbers_of(observed)
        is_float = numbers.dtype in (torch.float32, torch.float64)
        require(is_float, f"numbers are float32 or float64, never {numbers.dtype}")
        shape = tuple(numbers.shape[:2])
        law = "numbers are by example and head first"
        require(shape == (len(encodings), source.n_heads), law)
        require(bool(observed.is_finite().all()), "numbers are finite")
        if isinstance(observed, LayerAttention):
            error = float((numbers.sum(-1) - 1).abs().max())
            require(error < ROW_SUM_ERROR, f"rows of attention sum to 1; one misses by {error:.3g}")
            is_square = numbers.shape[-2:] == (batch.n_tokens, batch.n_tokens)
            require(is_square, "attention has a weight for each pair of tokens")
            require(len(observed.visible) == batch.n_tokens, "`visible` has a number a query")
    return [_numbers_of(observed) for observed in sorted(shown, key=lambda o: int(o.layer))]


def _numbers_of(observed: Any) -> Tensor:
    name = {LayerGradient: "sizes", LayerChange: "changes"}.get(type(observed), "weights")
    numbers: Tensor = getattr(observed, name)
    return numbers


def _measure(
    examples: Sequence[Example], analysis: Analysis, source: MadeSource, batch_tokens: int = 2048
) -> Result:
    options = RunOptions(replicates=5, batch_tokens=batch_tokens)
    return measure_examples(examples, source, [analysis], options)


def _is_same(one: Tally, other: Tally) -> bool:
    return one.totals.keys() == other.totals.keys() and all(
        np.allclose(other.totals[key], total, rtol=1e-6, atol=1e-9)
        for key, total in one.totals.items()
    )
