"""Do 95 % intervals hold the truth in 95 of 100 studies? `make coverage` prints the tables.

Simulated: documents of correlated words, whose true share is known. Resampled: the documents of a
real corpus are taken as the whole population, studies are drawn from them, and each study's
interval is asked whether it holds the number of the whole population.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.analyses.dependency.measure import Dependency, is_single
from headscope.analyses.entropy import Entropy
from headscope.analyses.position import Position
from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.contracts import CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.engine.measure import measure_examples
from headscope.models.load import load_model
from headscope.options import RunOptions
from headscope.stats.accuracy import choose_best
from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.difference import best_of, paired_difference, unpaired_difference, widen
from headscope.stats.interval import estimate, proportion, share
from headscope.stats.tests import compare

Array = NDArray[np.float64]

DATA = Path(__file__).parents[2] / "shared" / "data"
N_STUDIES = 2000
N_RESAMPLED = 400
CORRELATION = 0.1  # of two words of a document
SHARES = (0.02, 0.1, 0.5, 0.9, 0.98)
SIZES = ((6, 20), (20, 20), (100, 20), (1000, 20), (24, 8), (60, 200))  # documents, words in each
STUDY_SIZES = (10, 24, 60)
RELATIONS = ("all", "det", "nsubj", "obj", "amod")
MIN_COUNT = 50
N_RUN_STUDIES, N_HEADS = 500, 20  # of the simulation of two runs


def main() -> None:
    """Print all tables."""
    rng, of_runs, of_corpora = map(np.random.default_rng, range(3))
    _print("Simulated", ("true share", "documents", "words each", *KINDS), _simulate(rng))
    _print("Differences of two runs", RUN_COLUMNS, _simulate_runs(of_runs))
    if not DATA.exists():
        sys.exit("The resampled part needs ../shared/data, which is not on this machine.")
    model = load_model("demo")
    found = list(_resample(model, of_corpora))
    _print("Resampled", ("corpus", "number", "documents", "coverage %", "cells"), found)
    _print("Means over unequal documents", WEIGHED_COLUMNS, _resample_unequal(model, of_corpora))
    _print("Held-out best heads", HELD_OUT_COLUMNS, _resample_held_out(model, of_corpora))


RUN_COLUMNS = (
    *("documents", "paired", "not paired", "largest head", "its difference"),
    *("all heads equal: largest head", "its difference from one that stands out"),
)
WEIGHED_COLUMNS = (
    *("number", "documents", "coverage %: documents weigh alike", "segments weigh alike"),
    "width of the first over the second",
)
HELD_OUT_COLUMNS = (
    *("words in the study", "studies", "accuracy %", "difference %"),
    *("accuracy overstated %", "difference overstated %"),
)
COUNTS = (0, 20, 50, 100, 200, 500)  # words of a relation in a study, from
KINDS = ("Wilson, design effect", "jackknife-t", "difference", "examples as independent")


def _simulate(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    for truth in SHARES:
        for n_documents, n_words in SIZES:
            one, other, count = (
                np.zeros((N_BUCKETS, N_STUDIES)) for _ in ("one", "other", "count")
            )
            scale = (1 - CORRELATION) / CORRELATION
            for _ in range(n_documents):
                bucket, study = rng.integers(0, N_BUCKETS, N_STUDIES), np.arange(N_STUDIES)
                words = np.maximum(1, rng.poisson(n_words, N_STUDIES))
                own = rng.beta(truth * scale, (1 - truth) * scale, N_STUDIES)
                np.add.at(one, (bucket, study), rng.binomial(words, own))
                np.add.at(other, (bucket, study), rng.binomial(words, own))
                np.add.at(count, (bucket, study), words)
            wilson = proportion(one, count)
            below = leave_one_out(count)
            jackknife = estimate(share(leave_one_out(one), below), (0, 1))
            difference = estimate(share(leave_one_out(one - other), below))
            n = count.sum(axis=0)
            half = 1.96 * np.sqrt(wilson.value * (1 - wilson.value) / n)
            naive = (wilson.value - half <= truth) & (truth <= wilson.value + half)
            covers = [
                (wilson.low <= truth) & (truth <= wilson.high),
                (jackknife.low <= truth) & (truth <= jackknife.high),
                # where both find the same words there is no interval, and no difference
                ~((difference.low > 0) | (difference.high < 0)),
                naive,
            ]
            yield (truth, n_documents, n_words, *(f"{100 * c.mean():.1f}" for c in covers))


def _simulate_runs(rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Heads of two runs over documents of uneven size, whose true means are known."""
    spread = np.stack([np.linspace(0.2, 0.6, N_HEADS), np.linspace(0.25, 0.5, N_HEADS)])
    one_stands_out = np.linspace(0, 0.1, N_HEADS)
    one_stands_out[-1] = 0.6
    cases = (spread, np.stack([one_stands_out, np.full(N_HEADS, 0.35)]))  # the other: all equal
    for n_documents in (6, 12, 24, 60, 200):
        covers = np.zeros((6, N_RUN_STUDIES))
        for study in range(N_RUN_STUDIES):
            first, second = _draw_runs(rng, spread, n_documents, is_shared=True)
            apart = _draw_runs(rng, spread, n_documents, is_shared=False)[1]
            truth = spread[1] - spread[0]
            covers[:2, study] = (
                _holds(paired_difference(second, first), truth).mean(),
                _holds(unpaired_difference(apart, first), truth).mean(),
            )
            for case, means in enumerate(cases):
                first, second = _draw_runs(rng, means, n_documents, is_shared=True)
                covers[2 + 2 * case : 4 + 2 * case, study] = _holds_largest(first, second, means)
        yield (n_documents, *(f"{100 * c.mean():.1f}" for c in covers))


def _holds_largest(first: Array, second: Array, means: Array) -> tuple[bool, bool]:
    """Whether the intervals of the second run's largest head, and of its difference, hold."""
    one, other = best_of(first), best_of(second)
    wide = widen(*(paired_difference(other[part][:, None], one[part][:, None]) for part in (1, 2)))
    alone = [estimate(other[part][:, None]) for part in (1, 2)]
    low, high = min(e.low[0] for e in alone), max(e.high[0] for e in alone)
    largest = means.max(axis=1)
    return bool(low <= largest[1] <= high), bool(_holds(wide, largest[1] - largest[0])[0])


def _draw_runs(
    rng: np.random.Generator, means: Array, n_documents: int, is_shared: bool
) -> tuple[Array, Array]:
    """Replicates of both runs; a document's effect is the same in both if it is shared."""
    buckets = rng.integers(0, N_BUCKETS, n_documents)
    segments = 1 + rng.poisson(4, n_documents)
    effect = rng.normal(0, 0.05, (n_documents, N_HEADS))
    found = []
    for mean in means:
        own = effect if is_shared else rng.normal(0, 0.05, (n_documents, N_HEADS))
        noise = rng.normal(0, 0.05, (n_documents, N_HEADS)) / np.sqrt(segments)[:, None]
        sums, count = np.zeros((N_BUCKETS, N_HEADS)), np.zeros((N_BUCKETS, 1))
        np.add.at(sums, buckets, segments[:, None] * (mean + own + noise))
        np.add.at(count, buckets, segments[:, None])
        found.append(share(leave_one_out(sums), leave_one_out(count)))
    return found[0], found[1]


def _holds(found: Any, truth: Any) -> NDArray[np.bool_]:
    return np.asarray((found.low <= truth) & (truth <= found.high))


def _resample(model: Any, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    text = open_corpus(DATA / "text/enwiki.txt", CorpusRole.TEXT)
    surface = {"position": Position(), "special-tokens": SpecialTokens(), "entropy": Entropy()}
    documents = list(_measure(model, text, list(surface.values()), CorpusRole.TEXT))
    numerators = {"position": "weight", "special-tokens": "weight", "entropy": "nats"}
    for name, numerator in numerators.items():
        above = np.stack([d[name][numerator] for d in documents])  # [document, layer, ...]
        below = np.stack([d[name]["segments"] for d in documents])
        below = _like(below, above)
        for size in STUDY_SIZES:
            yield (
                "enwiki",
                f"mean, {name}",
                size,
                *_cover(above, below, size, rng, is_share=False),
            )
    treebank = open_corpus(DATA / "treebanks/en_ewt-ud-dev.conllu", CorpusRole.TREEBANK)
    documents = list(_measure(model, treebank, [Dependency()], CorpusRole.TREEBANK))
    for relation in RELATIONS:
        name = f"correct/{relation}"
        parts = [d["dependency"] for d in documents if name in d["dependency"]]
        correct = np.stack([part[name] for part in parts])  # [document, layer, head, direction]
        count = _like(np.stack([part[f"count/{relation}"] for part in parts]), correct)
        offsets = np.stack([part[f"offset/{relation}"] for part in parts])
        best = offsets.sum(axis=(0, 1)).argmax()  # of all documents
        offset = offsets[:, None, None, :, best]  # [document, 1, 1, direction]
        for size in STUDY_SIZES[1:]:
            yield (
                "EWT dev",
                f"accuracy, {relation}",
                size,
                *_cover(correct, count, size, rng, True),
            )
            difference = _cover(correct - offset, count, size, rng, False)
            yield ("EWT dev", f"difference, {relation}", size, *difference)


def _resample_unequal(model: Any, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Means over documents of which a few hold much of the text, by both weighings."""
    text = open_corpus(DATA / "treebanks/en_ewt-ud-train.conllu", CorpusRole.TEXT)
    surface = {"position": "weight", "special-tokens": "weight", "entropy": "nats"}
    analyses = [Position(), SpecialTokens(), Entropy()]
    documents = list(_measure(model, text, analyses, CorpusRole.TEXT))
    for name, numerator in surface.items():
        above = np.stack([d[name][numerator] for d in documents])  # [document, layer, ...]
        below = np.stack([d[name]["segments"] for d in documents])
        below = _like(below, above)
        n_segments = below.reshape(len(below), -1).max(axis=1).reshape(-1, *[1] * (above.ndim - 1))
        for size in (20, 40, 100):
            alike, widths = zip(
                *(
                    _cover_wide(above / weight, below / weight, size, rng)
                    for weight in (n_segments, np.ones_like(n_segments))
                ),
                strict=True,
            )
            yield (f"mean, {name}", size, *alike, f"{widths[0] / widths[1]:.2f}")


def _like(below: Array, above: Array) -> Array:
    """What a mean is over, as an array of its sums' axes; its own, if any, follow the head."""
    axes = (1, 1, *below.shape[1:]) if below.ndim > 1 else ()
    return below.reshape(len(below), *axes, *[1] * (above.ndim - 1 - len(axes)))


def _cover_wide(
    above: Array, below: Array, n_documents: int, rng: np.random.Generator
) -> tuple[str, float]:
    """How often intervals hold the number of all documents, and their mean width."""
    flat = above.reshape(len(above), -1)
    under = np.broadcast_to(below, above.shape).reshape(flat.shape)
    truth = flat.sum(axis=0) / under.sum(axis=0)
    held, widths = [], []
    for _ in range(N_RESAMPLED):
        drawn = rng.integers(0, len(flat), n_documents)
        replicates = share(leave_one_out(flat[drawn]), leave_one_out(under[drawn]))
        found = estimate(replicates)
        held.append(_holds(found, truth)[~np.isnan(found.low)])
        widths.append(np.nanmean(found.high - found.low))
    return f"{100 * np.concatenate(held).mean():.1f}", float(np.mean(widths))


def _resample_held_out(model: Any, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
    """Best heads of all relations, by the words of the relation that a study has.

    The truth is the accuracy, over all documents, of what the study chose.
    """
    treebank = open_corpus(DATA / "treebanks/en_ewt-ud-dev.conllu", CorpusRole.TREEBANK)
    documents = list(_measure(model, treebank, [Dependency(null_arcs=0)], CorpusRole.TREEBANK))
    held: dict[int, list[Sequence[bool]]] = {}
    for relation in sorted({n.partition("/")[2] for d in documents for n in d["dependency"]}):
        parts = [d["dependency"] for d in documents if f"correct/{relation}" in d["dependency"]]
        if not is_single(relation) or len(parts) < 10:
            continue
        correct = np.stack([part[f"correct/{relation}"].ravel() for part in parts])
        count = np.array([part[f"count/{relation}"].sum() for part in parts])
        offsets = np.stack([part[f"offset/{relation}"][0] for part in parts])
        for size in (24, 60, len(parts)):
            for _ in range(N_RESAMPLED // 10):
                study = _choose_in_study(correct, count, offsets, size, rng)
                if study is not None:
                    least = max(n for n in COUNTS if n <= study[0])
                    held.setdefault(least, []).append(study[1:])
    for least, found in sorted(held.items()):
        shares = 100 * np.mean(found, axis=0)
        yield (f"{least} or more", len(found), *(f"{part:.1f}" for part in shares))


def _choose_in_study(
    correct: Array, count: Array, offsets: Array, n_documents: int, rng: np.random.Generator
) -> tuple[int, bool, bool, bool, bool] | None:
    """The words of a study; whether the intervals of its held-out head and of its gain hold, and
    whether they lie above the truth."""
    drawn = rng.integers(0, len(count), n_documents)
    bucket = rng.integers(0, N_BUCKETS, n_documents)
    one, n, by_offset = (
        np.zeros((N_BUCKETS, *part.shape[1:])) for part in (correct, count, offsets)
    )
    for into, part in ((one, correct), (n, count), (by_offset, offsets)):
        np.add.at(into, bucket, part[drawn])
    best = choose_best(one, n)
    if best.n_folds == 0:
        return None
    chosen = best.by_bucket[:, best.heldout_count > 0]  # [partition, bucket]
    weights = best.heldout_count[best.heldout_count > 0]
    shares = correct.sum(axis=0) / count.sum()
    truth = float((shares[chosen].mean(axis=0) * weights).sum() / weights.sum())
    offset = int(by_offset.sum(axis=0).argmax())
    accuracy = proportion(best.heldout, best.heldout_count)
    gain = compare(best.heldout, by_offset[:, offset], best.heldout_count)
    gain_truth = truth - offsets[:, offset].sum() / count.sum()
    return (
        int(n.sum()),
        bool(accuracy.low <= truth <= accuracy.high),
        bool(np.isnan(gain.low) or gain.low <= gain_truth <= gain.high),
        bool(accuracy.low > truth),
        bool(gain.low > gain_truth),
    )


def _measure(
    model: Any, corpus: Iterable[Example], analyses: list[Any], role: CorpusRole
) -> Iterator[dict[str, dict[str, Array]]]:
    """The totals of each document, by analysis and name."""
    for _, examples in groupby(corpus, key=lambda example: example.own_document):
        result = measure_examples(list(examples), model, analyses, RunOptions(), role, 128)
        yield {
            name: {key: total.sum(axis=0) for key, total in tally.totals.items()}
            for name, tally in result.tallies.items()
        }


def _cover(
    above: Array, below: Array, n_documents: int, rng: np.random.Generator, is_share: bool
) -> tuple[str, int]:
    """How often intervals of studies hold the number of all documents, over all cells."""
    flat = above.reshape(len(above), -1)  # [document, cell]
    under = np.broadcast_to(below, above.shape).reshape(flat.shape)
    truth = flat.sum(axis=0) / under.sum(axis=0)
    held, made = np.zeros(len(truth)), np.zeros(len(truth))
    for _ in range(N_RESAMPLED):
        drawn, bucket = rng.integers(0, len(flat), n_documents), rng.integers(0, 64, n_documents)
        one, other = (np.zeros((N_BUCKETS, len(truth))) for _ in range(2))
        np.add.at(one, bucket, flat[drawn])
        np.add.at(other, bucket, under[drawn])
        jackknife = estimate(share(leave_one_out(one), leave_one_out(other)))
        found: Any = proportion(one, other) if is_share else jackknife
        has_interval = ~np.isnan(found.low)
        made += has_interval
        held += has_interval & (found.low <= truth) & (truth <= found.high)
    return f"{100 * held.sum() / made.sum():.1f}", len(truth)


def _print(title: str, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


if __name__ == "__main__":
    main()
