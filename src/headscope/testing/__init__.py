"""Check that your own analysis, corpus or source follows its protocol.

    from headscope.testing import check_analysis
    check_analysis(MyAnalysis())

Each check raises an AssertionError that names the class and the rule it breaks. They need no model:
`MadeSource` shows random attention over made-up sentences.
"""

import json
import pickle
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from headscope.contracts import Analysis, Annotation, Corpus, CorpusRole, Source, Watch
from headscope.data.attention import (
    HeadSetLosses,
    LayerAttention,
    LayerChange,
    LayerCopying,
    LayerGradient,
)
from headscope.data.encoding import Encoding
from headscope.data.example import Example
from headscope.engine.measure import Result, by_key, measure_examples, show_layers
from headscope.options import RunOptions, collect_options
from headscope.runs.tables import make_tables
from headscope.stats.sums import OPEN, PLAIN, Tally
from headscope.testing.made import (
    MadeSource,
    encode_words,
    make_example,
    make_pair,
    random_maps,
)

__all__ = [
    "MadeSource", "check_analysis", "check_corpus", "check_source", "encode_words", "make_example",
    "make_pair", "random_maps",
]  # fmt: skip

ROW_SUM_ERROR = 0.02  # of a row of bfloat16 weights
HEAD_COLUMN = re.compile(r"(.*_)?head(_[ab])?")  # also nearest_head_b; not head_match

Require = Callable[[bool, str], None]


def check_analysis(analysis: Analysis, precision: torch.dtype = torch.float32) -> None:
    """Raise an AssertionError that names the class and the law, if the analysis breaks one.

    `precision` is what the model computes in; an analysis gets float32 all the same.
    """
    require = _laws_of(analysis)
    _check_declaration(analysis, require)
    emits = Watch.ATTENTION if analysis.watches is Watch.MODEL_PAIR else analysis.watches
    source = MadeSource(emits=emits, precision=precision)
    make = make_pair if emits is Watch.CROSS_ATTENTION else make_example
    examples = [make(seed) for seed in range(12)]
    _check_measure(analysis, source, examples, require)
    if analysis.measures_cross:
        _check_cross(analysis, precision, require)
    tally = _measure(examples, analysis, source).tallies[analysis.name]
    tables = make_tables(analysis, tally)
    columns = {name: tuple(table.columns) for name, table in tables.items()}
    law = "`summarize` gives the tables and columns declared"
    differing = _find_differing(columns, analysis.tables)
    require(not differing, f"{law}: {differing}")
    _check_addition(analysis, source, examples, tally, require)
    _check_equivariance(analysis, source, examples, tables, require)
    for n_words, n_pieces in ((1, 1), (1, 3), (2, 1), (7, 3)):  # short, and all words split
        few = [make(seed, n_words) for seed in range(3)]
        split = MadeSource(pieces=lambda w, i, n=n_pieces: n, emits=source.emits)  # type: ignore[misc]
        make_tables(analysis, _measure(few, analysis, split).tallies[analysis.name])


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
    require(len(encodings) == len(examples), "`encode` gives one encoding per example, in order")
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
    for index, encoding in enumerate(group):
        for alone_layer, layer in zip(_observe(source, [encoding], require), together, strict=True):
            is_close = torch.allclose(alone_layer[0], layer[index], atol=1e-2, rtol=1e-2)
            require(is_close, "what an example shows does not depend on its batch")


# The laws, one by one.

HAS_ANNOTATION: dict[str, Callable[[Example], bool]] = {
    Annotation.WORDS: lambda example: bool(example.words),
    Annotation.DEPENDENCIES: lambda example: example.tree is not None,
    Annotation.TAGS: lambda example: example.tags is not None,
    Annotation.COREFERENCE: lambda example: example.mentions is not None,
    Annotation.PRONOUN_CHOICES: lambda example: bool(example.mentions),
    Annotation.TARGETS: lambda example: example.text_pair is not None,
    Annotation.ALIGNMENTS: lambda example: example.links is not None,
}


def _laws_of(thing: object) -> Require:
    def require(is_met: bool, law: str) -> None:
        if not is_met:
            raise AssertionError(f"{type(thing).__name__}: {law}.")

    return require


def _check_declaration(analysis: Any, require: Require) -> None:
    kind = type(analysis)
    require(isinstance(analysis, Analysis), "it is derived from `headscope.Analysis`")
    require(isinstance(getattr(kind, "name", None), str), "`name` is a string of the class")
    require(isinstance(kind.watches, Watch), "`watches` is a Watch")
    require(isinstance(kind.needs, frozenset), "`needs` is a frozenset")
    tables = getattr(kind, "tables", None)
    are_columns = isinstance(tables, Mapping) and all(isinstance(c, tuple) for c in tables.values())
    require(are_columns and bool(tables), "`tables` names the columns of each table, as tuples")
    for option in collect_options(kind).values():
        require(bool(option.help.strip()), f"the option {option.name} has a help text")
    require(pickle.loads(pickle.dumps(analysis)) == analysis, "it pickles")
    described = json.loads(json.dumps(asdict(analysis)))
    again = json.loads(json.dumps(asdict(kind(**described))))
    require(again == described, "it can be made again from its fields as JSON")
    is_named = all(isinstance(axes, str) for axes in analysis.sums.values())
    require(is_named and bool(analysis.sums), "`sums` names the axes of each sum, in one string")
    given = {axis for axes in analysis.sums.values() for axis in axes.split()}
    unknown = analysis.labels.keys() - given
    require(not unknown, f"`labels` are those of axes of its `sums`, not {sorted(unknown)}")


def _check_measure(
    analysis: Any, source: MadeSource, examples: Sequence[Example], require: Require
) -> None:
    """One batch by hand: the input is left as it is, and the first axis is the example."""
    encodings = source.encode(examples, 512)
    sizes = [(len(encoding), len(encoding.target or ())) for encoding in encodings]
    usual = Counter(sizes).most_common(1)[0][0]
    encodings = [e for e, size in zip(encodings, sizes, strict=True) if size == usual]
    batch = source.batch(encodings)
    shown: list[Any] = []
    source.attend(batch, shown.append)
    before = [_numbers_of(observed).clone() for observed in shown]
    measured = analysis.measure(show_layers(analysis.reads, shown))
    is_same = all(torch.equal(_numbers_of(o), b) for o, b in zip(shown, before, strict=True))
    require(is_same, "`measure` leaves its input unchanged")
    law = "`measure` gives named arrays, each a torch.Tensor, or a mapping of such by label"
    require(isinstance(measured, Mapping), law)
    values = by_key(measured)
    require(all(isinstance(value, Tensor) for value in values.values()), law)
    require(measured.keys() <= analysis.sums.keys(), "`measure` gives the sums that are declared")
    for key, value in values.items():
        name = key.partition("/")[0]
        is_by_example = len(value) == len(encodings) or name.startswith(PLAIN)
        require(is_by_example, "the first axis of what it measures is the example")
        axes = [axis for axis in analysis.sums[name].split() if not axis.startswith(OPEN)]
        law = f"{name!r} has the axes {', '.join(['example', *axes])}"
        require(value.ndim == 1 + len(axes), law)
        require(bool(torch.isfinite(value).all()), "sums and counts are finite numbers")


def _check_cross(analysis: Analysis, precision: torch.dtype, require: Require) -> None:
    """What says that it measures cross attention does so, where queries and keys differ."""
    source = MadeSource(emits=Watch.CROSS_ATTENTION, precision=precision)
    examples = [make_pair(seed) for seed in range(12)]
    _check_measure(analysis, source, examples, require)
    tally = _measure(examples, analysis, source).tallies[analysis.name]
    _check_addition(analysis, source, examples, tally, require)
    _check_equivariance(analysis, source, examples, make_tables(analysis, tally), require)


def _find_differing(
    given: Mapping[str, tuple[str, ...]], declared: Mapping[str, tuple[str, ...]]
) -> str:
    """The first table that is not as declared, in words; "" if all are."""
    for name in {**declared, **given}:
        if name not in given:
            return f"{name!r} is declared and not given"
        if name not in declared:
            return f"{name!r} is given and not declared"
        if given[name] != declared[name]:
            shown, expected = ", ".join(given[name]), ", ".join(declared[name])
            return f"{name!r} has the columns {shown}, and those declared are {expected}"
    return ""


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
    for n_rows in (1, 7, 128):
        sliced = _measure(examples, analysis, source, slice_rows=n_rows)
        law = f"maps read in slices of {n_rows} rows give the sums of the whole"
        require(
            _is_same(sliced.tallies[analysis.name], _measure_whole(examples, analysis, source)), law
        )
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
    moved = make_tables(analysis, _measure(examples, analysis, other).tallies[analysis.name])
    name, table = next(iter(tables.items()))
    columns = [column for column in table.columns if HEAD_COLUMN.fullmatch(column)]
    renamed = moved[name].copy()
    for column in columns:
        renamed[column] = renamed[column].map(lambda h: order[h - 1] + 1, na_action="ignore")
    frames = table.copy(), renamed.astype(table.dtypes)
    both = [_in_order(f) if analysis.watches is not Watch.MODEL_PAIR else f for f in frames]
    labels = [c for c in table.columns if c not in table.select_dtypes("float").columns]
    first, second = (frame.sort_values(labels).reset_index(drop=True) for frame in both)
    try:
        pd.testing.assert_frame_equal(first, second, check_exact=False, rtol=1e-6)
    except AssertionError:
        require(False, "heads in another order give the same rows for other heads")


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Of a pair of heads of one model the first one first."""
    if "head_a" in table:
        first, other = ["layer_a", "head_a"], ["layer_b", "head_b"]
        ends = [list(map(tuple, table[end].to_numpy())) for end in (first, other)]
        is_swapped = np.array([a > b for a, b in zip(*ends, strict=True)])
        table.loc[is_swapped, first + other] = table.loc[is_swapped, other + first].to_numpy()
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
    is_ordered = [observed.layer for observed in shown] == order
    require(is_ordered, "each layer is shown once, in the order of its Watch")
    for observed in shown:
        numbers = _numbers_of(observed)
        is_float = numbers.dtype in (torch.float32, torch.float64)
        require(is_float, f"numbers are float32 or float64, never {numbers.dtype}")
        is_by_head = tuple(numbers.shape[:2]) == (len(encodings), source.n_heads)
        require(is_by_head, "numbers are by example and head first")
        require(bool(observed.is_finite().all()), "numbers are finite")
        if isinstance(observed, LayerAttention):
            error = float((observed.with_sink().sum(-1) - 1).abs().max())
            require(error < ROW_SUM_ERROR, f"rows of attention sum to 1; one misses by {error:.3g}")
            is_square = numbers.shape[-2:] == (batch.n_tokens, batch.n_tokens)
            require(is_square, "attention has a weight for each pair of tokens")
            require(len(observed.visible) == batch.n_tokens, "`visible` has one number per query")
    return [_numbers_of(observed) for observed in sorted(shown, key=lambda o: int(o.layer))]


def _numbers_of(observed: Any) -> Tensor:
    names = {LayerGradient: "sizes", LayerChange: "changes", HeadSetLosses: "losses"}
    names |= {LayerCopying: "above"}
    name = names.get(type(observed), "weights")
    numbers: Tensor = getattr(observed, name)
    return numbers


def _measure(
    examples: Sequence[Example], analysis: Analysis, source: MadeSource, **options: int
) -> Result:
    return measure_examples(examples, source, [analysis], RunOptions(**options))  # type: ignore[arg-type]


class _Whole(MadeSource):
    """Shows whole maps only."""

    read = Source.read


def _measure_whole(examples: Sequence[Example], analysis: Analysis, source: MadeSource) -> Tally:
    return _measure(examples, analysis, _Whole(**vars(source))).tallies[analysis.name]


def _is_same(first: Tally, other: Tally) -> bool:
    return first.totals.keys() == other.totals.keys() and all(
        np.allclose(other.totals[key], total, rtol=1e-6, atol=1e-9)
        for key, total in first.totals.items()
    )
