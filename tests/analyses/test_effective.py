"""Effective sample sizes of numbers over several heads, layers and words equal slow loops."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from math import log, nan
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headscope.contracts import Watch
from headscope.data.depth import like_paper, thirds
from headscope.data.encoding import Encoding, TokenKind
from headscope.engine.measure import measure_examples
from headscope.engine.resolve import build_analysis
from headscope.options import RunOptions
from headscope.registry import ANALYSES
from headscope.stats.bucket import bucket_of
from headscope.stats.tally import PLAIN, Tally
from tests.making import (
    N_HEADS,
    N_LAYERS,
    MadeSource,
    encode_pair,
    encode_words,
    make_example,
    make_pair,
    random_maps,
)
from tests.references import cross, measures
from tests.references.coreference import ask_coreference
from tests.references.dependency import lost_to_special, names_of
from tests.references.distance import distance
from tests.references.effective import (
    Number,
    average,
    effective,
    effective_share,
    mean,
    minus,
    ratio,
)

LAYERS, HEADS = range(1, N_LAYERS + 1), range(1, N_HEADS + 1)
TARGETS = ("cls", "sep", "first", "punctuation", "other")
MISSING = (nan,) * 99

Rows = Mapping[tuple[Any, ...], float]
Reference = Callable[[Any, Sequence[Encoding]], Rows]


def in_documents(examples: Sequence[Any]) -> list[Any]:
    """Two or three examples of each document."""
    return [replace(one, document=f"document {i % 9}") for i, one in enumerate(examples)]


EXAMPLES = in_documents([make_example(seed, 3 + seed % 6) for seed in range(24)])
PAIRS = in_documents([make_pair(seed, 2 + seed % 5) for seed in range(24)])
ENCODINGS = [encode_words(example) for example in EXAMPLES]
PAIR_ENCODINGS = [encode_pair(pair) for pair in PAIRS]
BUCKETS = [bucket_of(example) for example in EXAMPLES]


@cache
def tally_of(name: str) -> Tally:
    analysis = build_analysis(name)
    watches = Watch.ATTENTION if analysis.watches.compares_layers else analysis.watches
    is_across = watches is Watch.CROSS_ATTENTION
    examples = PAIRS if is_across else EXAMPLES
    return measure_examples(examples, MadeSource(emits=watches), [analysis], RunOptions()).tallies[
        name
    ]


def table_of(name: str, table: str) -> pd.DataFrame:
    return build_analysis(name).summarize(tally_of(name))[table]


@cache
def by_example(reference: Reference) -> list[Rows]:
    """What a slow reference says of every example alone."""
    encodings = PAIR_ENCODINGS if reference in (cross.monotonicity,) else ENCODINGS
    return [reference([random_maps(e).numpy()], [e]) for e in encodings]


def column(reference: Reference, key: tuple[Any, ...]) -> list[float]:
    return [rows.get(key, nan) for rows in by_example(reference)]


def over_heads(reference: Reference, layers: Sequence[int], *labels: str) -> Number:
    """The mean over the heads of layers."""
    return average(
        [mean(column(reference, (layer, head, *labels))) for layer in layers for head in HEADS]
    )


def assert_counts(found: float, expected: float) -> None:
    assert found == pytest.approx(expected, rel=1e-4, nan_ok=True)


def test_a_sum_over_special_tokens() -> None:
    for row in table_of("special-tokens", "special-tokens-heads").itertuples():
        parts = [
            column(measures.special_tokens, (row.layer, row.head, "all", target))
            for target in ("cls", "sep", "first", "punctuation")
        ]
        sums = [sum(part) for part in zip(*parts, strict=True)]
        assert_counts(row.effective, effective(mean(sums), BUCKETS))


def test_means_over_groups_of_layers_and_their_differences() -> None:
    parts = dict(zip(("first third", "middle third", "last third"), thirds(N_LAYERS), strict=True))
    groups = {"all": list(LAYERS), "6-10 of 12": like_paper(6, 10, N_LAYERS), **parts}

    def of_layers(name: str, source: str, target: str) -> Number:
        numbers = [over_heads(measures.special_tokens, groups[part], source, target)
                   for part in name.split(" - ")]  # fmt: skip
        return numbers[0] if len(numbers) == 1 else minus(*numbers)

    table = table_of("special-tokens", "special-tokens-layers")
    assert table["effective"].notna().sum() > 100
    for row in table.itertuples():
        sources = row.source.split(" - ")
        numbers = [of_layers(row.layers, source, row.target) for source in sources]
        number = numbers[0] if len(numbers) == 1 else minus(*numbers)
        assert_counts(row.effective, effective(number, BUCKETS))


def test_contrasts_where_not_every_example_has_both_sides() -> None:
    """A text may spell a closing token that the model does not add."""
    encodings = [
        e
        if i % 3
        else replace(e, kinds=np.where(e.kinds == TokenKind.SEP, TokenKind.TEXT, e.kinds))
        for i, e in enumerate(ENCODINGS)
    ]
    known = {encoding.example.id: encoding for encoding in encodings}

    class Spelling(MadeSource):
        def encode(self, examples: Sequence[Any], max_tokens: int) -> list[Encoding]:
            return [known[example.id] for example in examples]

    analysis = build_analysis("special-tokens")
    result = measure_examples(EXAMPLES, Spelling(), [analysis], RunOptions())
    tally = result.tallies["special-tokens"]
    table = analysis.summarize(tally)["special-tokens-layers"]
    rows = [measures.special_tokens([random_maps(e).numpy()], [e]) for e in encodings]
    for row in table[(table["layers"] == "all") & (table["target"] == "other")].itertuples():
        numbers = []
        for source_name in row.source.split(" - "):
            keys = [(a, b, source_name, row.target) for a in LAYERS for b in HEADS]
            numbers.append(average([mean([one[key] for one in rows]) for key in keys]))
        number = numbers[0] if len(numbers) == 1 else minus(*numbers)
        has = [row.source != "sep" or i % 3 > 0 for i in range(len(rows))]
        assert_counts(row.effective, effective(number, BUCKETS, has))


def test_the_ratio_after_and_before_a_step() -> None:
    for row in table_of("special-tokens", "special-tokens-steps").itertuples():
        before, after = (
            over_heads(measures.special_tokens, layers, "all", row.target)
            for layers in (range(1, int(row.layer)), range(int(row.layer), N_LAYERS + 1))
        )
        number = lambda w, b=before, a=after: log(a(w) / b(w))  # noqa: E731
        assert_counts(row.ratio_effective, effective(number, BUCKETS))


def test_how_frequent_tokens_are() -> None:
    marks = {"period": ".", "comma": ","}
    tokens = [[s for s, k in zip(e.surfaces, e.kinds, strict=True) if k == TokenKind.TEXT]
              for e in ENCODINGS]  # fmt: skip
    for row in table_of("special-tokens", "token-frequency").itertuples():
        counts = [own.count(marks[row.token]) for own in tokens]
        number = ratio(counts, [len(own) for own in tokens])
        assert_counts(row.effective, effective(number, BUCKETS))


def test_the_entropy_of_layers() -> None:
    for row in table_of("entropy", "entropy-layers").itertuples():
        numbers = [
            over_heads(measures.entropy, [row.layer], rows) for rows in row.rows.split(" - ")
        ]
        number = numbers[0] if len(numbers) == 1 else minus(*numbers)
        assert_counts(row.effective, effective(number, BUCKETS))


def gradient_of(layers: Sequence[int], target: str) -> Number:
    pairs = [len(e) * sum(measures.token_class(e, t) == target for t in range(len(e)))
             for e in ENCODINGS]  # fmt: skip
    numbers = []
    for layer in layers:
        for head in HEADS:
            means = np.nan_to_num(column(measures.gradient, (layer, head, target)))
            numbers.append(ratio((means * pairs).tolist(), pairs))
    return average(numbers)


def test_ratios_of_gradients() -> None:
    groups = {"all": list(LAYERS), "5-12 of 12": like_paper(5, 12, N_LAYERS)}
    tables = build_analysis("gradient").summarize(tally_of("gradient"))
    for row in tables["gradient-layers"].itertuples():
        if row.target in ("other", "first"):  # a ratio of 1, and a class that is not there
            continue
        own, other = (gradient_of(groups[row.layers], name) for name in (row.target, "other"))
        number = lambda w, a=own, b=other: log(a(w) / b(w))  # noqa: E731
        assert_counts(row.effective, effective(number, BUCKETS))
    for row in tables["gradient-steps"].itertuples():
        before, after = (
            gradient_of(layers, row.target)
            for layers in (range(1, int(row.layer)), range(int(row.layer), N_LAYERS + 1))
        )
        number = lambda w, b=before, a=after: log(a(w) / b(w))  # noqa: E731
        assert_counts(row.ratio_effective, effective(number, BUCKETS))


def test_parts_of_speech() -> None:
    table = table_of("parts-of-speech", "parts-of-speech")
    counts: dict[str, list[int]] = {}
    for source in set(table["source"]):
        own = {"nouns": {"NOUN", "PROPN"}, "not nouns": {"VERB", "PUNCT"}}.get(source, {source})
        counts[source] = [sum(tag in own for tag in e.tags or ()) for e in EXAMPLES]
    for row in table.itertuples():
        key, below = (row.layer, row.head, row.source, row.target), counts[row.source]
        above = np.nan_to_num(column(measures.parts_of_speech, key)) * below
        number = ratio(above.tolist(), below)
        assert_counts(row.effective, effective(number, BUCKETS, [n > 0 for n in below]))


@pytest.mark.parametrize("name", ["dependency", "coreference"])
def test_lengths(name: str) -> None:
    table = table_of(name, f"{name}-length")
    assert table["effective"].notna().sum() > 2
    for row in table.itertuples():
        if name == "dependency":
            lengths = [_arc_lengths(encoding, row.relation) for encoding in ENCODINGS]
        else:
            lengths = [_link_lengths(encoding, row.mention_type) for encoding in ENCODINGS]
        number = ratio([sum(own) for own in lengths], [len(own) for own in lengths])
        assert_counts(row.effective, effective(number, BUCKETS, [bool(own) for own in lengths]))


def _arc_lengths(encoding: Encoding, relation: str) -> list[int]:
    tree = encoding.example.tree
    assert tree is not None
    return [abs(word - head) for word, head in enumerate(tree.heads)
            if relation in names_of(encoding, word)]  # fmt: skip


def _link_lengths(encoding: Encoding, kind: str) -> list[int]:
    return [
        mention.head - max(other.head for other in right)
        for mention, _, right, groups in ask_coreference(encoding)
        if kind in groups
    ]


def test_arcs_lost_to_special_tokens() -> None:
    n_arcs = [sum("all (no punct or root)" in names_of(e, word)
                  for word in range(len(e.example.words or ()))) for e in ENCODINGS]  # fmt: skip
    for row in table_of("dependency", "dependency-special").itertuples():
        key = (row.direction, row.layer, row.head)
        shares = column(lost_to_special, key)
        lost = np.nan_to_num(shares) * n_arcs
        assert_counts(row.effective, effective_share(lost.tolist(), n_arcs, BUCKETS))


def test_means_of_distances() -> None:
    n_rows = [len(encoding) for encoding in ENCODINGS]
    names = [(layer, head) for layer in LAYERS for head in HEADS]

    def of_pairs(chosen: Callable[[Any, Any], bool]) -> Number:
        keys = [(*a, *b) for a, b in combinations(names, 2) if chosen(a, b)]
        sums = [n * fmean(rows[key] for key in keys)
                for n, rows in zip(n_rows, by_example(distance), strict=True)]  # fmt: skip
        return ratio(sums, n_rows)

    def within(layer: float) -> Number:
        return of_pairs(lambda a, b: a[0] == b[0] and (pd.isna(layer) or a[0] == layer))

    def between(layer: float) -> Number:
        return of_pairs(lambda a, b: a[0] != b[0] and (pd.isna(layer) or layer in (a[0], b[0])))

    for row in table_of("distance", "distance-heads").itertuples():
        own = (row.layer, row.head)
        near = of_pairs(lambda a, b, own=own: own in (a, b) and a[0] == b[0])
        far = of_pairs(lambda a, b, own=own: own in (a, b) and a[0] != b[0])
        assert_counts(row.within_effective, effective(near, BUCKETS))
        assert_counts(row.between_effective, effective(far, BUCKETS))
    for row in table_of("distance", "distance-layers").itertuples():
        near, far = within(row.layer), between(row.layer)
        assert_counts(row.within_effective, effective(near, BUCKETS))
        assert_counts(row.between_effective, effective(far, BUCKETS))
        assert_counts(row.difference_effective, effective(minus(far, near), BUCKETS))
    (row,) = table_of("distance", "distance-ends").itertuples()
    ends = of_pairs(lambda a, b: {a[0], b[0]} == {1, N_LAYERS})
    assert_counts(row.effective, effective(ends, BUCKETS))
    assert_counts(row.difference_effective, effective(minus(ends, between(nan)), BUCKETS))


def test_orders_of_cross_attention() -> None:
    for row in table_of("monotonicity", "monotonicity").itertuples():
        number = mean(column(cross.monotonicity, (row.layer, row.head)))
        assert_counts(row.effective, effective(number, BUCKETS))


def test_alignment_errors() -> None:
    for row in table_of("word-alignment", "word-alignment").itertuples():
        offset = {"output": -1, "input": 0}[row.step]
        found, size = [], []
        for encoding in PAIR_ENCODINGS:
            assert encoding.target is not None
            weights = random_maps(encoding).numpy()[row.layer - 1][row.head - 1]
            links = cross.align(weights, encoding, encoding.target, offset)
            gold = encoding.example.links or ()
            sure = {(s, t) for s, t, is_sure in gold if is_sure}
            found.append(len(links & sure) + len(links & {(s, t) for s, t, _ in gold}))
            size.append(len(links) + len(sure))
        assert_counts(row.effective, effective(ratio(found, size), BUCKETS, [n > 0 for n in size]))


WITHOUT = {
    "dependency-directions",
    "coreference-contrasts",
}  # needs how often every two heads are both right


@pytest.mark.parametrize("name", list(ANALYSES.built_in))
def test_every_table_with_intervals_has_effective_sample_sizes(name: str) -> None:
    for table, columns in build_analysis(name).tables.items():
        has_interval = any(column.split("_")[-1] == "low" for column in columns)
        is_counted = any(column.split("_")[-1] == "effective" for column in columns)
        assert is_counted == (has_interval and table not in WITHOUT), table


@pytest.mark.parametrize("name", [n for n in ANALYSES.built_in if n not in ("ablation", "gap")])
def test_sums_of_older_runs_give_the_same_numbers_without_the_sizes(name: str) -> None:
    analysis, whole = build_analysis(name), tally_of(name)
    if analysis.watches is Watch.MODEL_PAIR:
        pytest.skip("the sums of two models: tests/analyses/test_head_matches.py")
    dropped = tuple(n for n in whole.totals if n.startswith(PLAIN) and "null/" not in n)
    kept = {n: t for n, t in whole.totals.items() if n not in dropped}
    tables, older = analysis.summarize(whole), analysis.summarize(Tally(kept))
    for table, found in tables.items():
        numbers = [c for c in found if c.split("_")[-1] != "effective"]
        pd.testing.assert_frame_equal(older[table][numbers], found[numbers])
