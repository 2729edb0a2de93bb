"""How well distances and depths fit trees, as Hewitt and Manning (2019) define it, and the layer
whose hidden states fit best.

- UUAS: the minimum spanning tree over the words of a sentence without punctuation, by predicted
  distance, against that by gold distance: the share of its edges that it has.
- distance Spearman: of each word's distances to all words of its sentence, predicted and gold; the
  mean over the words of all sentences of one length, then over lengths from 5 to 50.
- root accuracy: how often the least deep word that is no punctuation is the root of the sentence.
- depth Spearman: of the depths of a sentence's words; the mean over sentences of one length, then
  over lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from scipy.stats import rankdata

from headscope.kernels.spanning_tree import maximum_spanning_tree
from headscope.probes.batches import make_batches
from headscope.probes.structural import StructuralProbe
from headscope.probes.suite import EMBEDDINGS, Suite, run_side_by_side
from headscope.probes.treebank import ProbeTreebank, Sentence
from headscope.stats.bucket import N_BUCKETS, leave_one_out
from headscope.stats.interval import Estimate, estimate, proportion, share
from headscope.stats.tests import add_spread

__all__ = [
    "GEOMETRY", "Geometry", "GeometrySums", "LayerFit", "Structure", "chain_geometry",
    "choose_layer", "estimate_geometry", "fit_layers", "list_structures", "probe_geometry",
    "spearman", "tree_edges",
]  # fmt: skip

GEOMETRY = ("uuas", "distance_spearman", "root_accuracy", "depth_spearman")
SHORTEST, LONGEST = 5, 50  # sentences that Spearman's correlation is taken of
N_LENGTHS = LONGEST - SHORTEST + 1
BY_LAYER = "each layer"  # in place of a probe's name
N_SENTENCES = 1000  # that layers are compared by, at most
PARTS = ("edges", "roots", "distances", "depths")

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Geometry:
    """Sums by bucket: of edges, roots, and of correlations by length of the sentence."""

    edges: Float[Array, "bucket 2"]  # found, and to be found
    roots: Float[Array, "bucket 2"]
    distances: Float[Array, "bucket length 2"]  # correlations of words, and their number
    depths: Float[Array, "bucket length 2"]

    def value(self, measure: str) -> float:
        """One of the four measures on all data."""
        return float(self.replicates(measure)[0])

    def replicates(self, measure: str) -> Float[Array, " replicate"]:
        """A measure on all data, then without each bucket."""
        by_measure = (self.edges, self.distances, self.roots, self.depths)
        sums = leave_one_out(by_measure[GEOMETRY.index(measure)])
        if sums.ndim == 2:
            return share(sums[:, 0], sums[:, 1])
        means = np.divide(
            sums[..., 0], sums[..., 1], out=np.full(sums.shape[:2], np.nan), where=sums[..., 1] > 0
        )
        has_any = ~np.isnan(means).all(axis=1)
        replicates = np.full(len(means), np.nan)
        replicates[has_any] = np.nanmean(means[has_any], axis=1)
        is_empty = (by_measure[GEOMETRY.index(measure)][..., 1] == 0).all(axis=1)
        replicates[1:][is_empty] = np.nan  # a bucket that has nothing to say
        return replicates


def estimate_geometry(by_seed: Sequence[Geometry], measure: str) -> Estimate[float]:
    """A measure with its interval: over documents, and where there are several, over seeds."""
    mean = Geometry(
        *(np.mean([getattr(geometry, part) for geometry in by_seed], axis=0) for part in PARTS)
    )
    is_share = measure in ("uuas", "root_accuracy")
    bounds = (0.0 if is_share else -1.0, 1.0)
    if is_share:
        sums = mean.edges if measure == "uuas" else mean.roots
        value, low, high = (float(part) for part in proportion(sums[:, 0], sums[:, 1]))
    else:
        value, low, high = (float(p) for p in estimate(mean.replicates(measure), bounds))
    values = np.array([geometry.value(measure) for geometry in by_seed])
    return add_spread(Estimate(value, low, high), values, bounds)


class GeometrySums:
    """Adds up the measures of several predictions for the same sentences."""

    def __init__(self, n_predictions: int) -> None:
        shapes = [(N_BUCKETS, 2)] * 2 + [(N_BUCKETS, N_LENGTHS, 2)] * 2
        self.all = [Geometry(*map(np.zeros, shapes)) for _ in range(n_predictions)]

    def add(
        self,
        sentence: Sentence,
        distances: Float[NDArray[np.floating], "prediction word other"],
        depths: Float[NDArray[np.floating], "prediction word"],
    ) -> None:
        """One sentence; it is left out if a word has no head."""
        if not sentence.is_whole:
            return
        bucket, n = sentence.bucket, len(sentence)
        words = np.flatnonzero(sentence.is_word)
        edges = tree_edges(sentence.distances[np.ix_(words, words)])
        has_root = (sentence.depths[words] == 0).any()
        is_ranked = SHORTEST <= n <= LONGEST
        if is_ranked:
            by_word = spearman(distances, sentence.distances).sum(axis=1)  # [prediction]
            of_depths = spearman(depths, sentence.depths)
        for i, sums in enumerate(self.all):
            predicted_edges = tree_edges(distances[i][np.ix_(words, words)])
            sums.edges[bucket] += (predicted_edges & edges).sum() / 2, edges.sum() / 2
            if has_root:
                shallowest = words[depths[i, words].argmin()]
                sums.roots[bucket] += sentence.depths[shallowest] == 0, 1
            if is_ranked:
                sums.distances[bucket, n - SHORTEST] += by_word[i], n
                sums.depths[bucket, n - SHORTEST] += of_depths[i], 1


def tree_edges(
    distances: Float[NDArray[np.floating], "word other"],
) -> Bool[NDArray[np.bool_], "word other"]:
    """Which pairs of words are edges of the minimum spanning tree, in both directions."""
    is_edge = np.zeros(distances.shape, dtype=bool)
    if len(distances):
        partners = maximum_spanning_tree(-distances.astype(np.float64))
        words = np.flatnonzero(partners >= 0)
        is_edge[words, partners[words]] = is_edge[partners[words], words] = True
    return is_edge


def spearman(predicted: NDArray[np.floating], gold: NDArray[np.floating]) -> Float[Array, " ..."]:
    """The rank correlation along the last axis; 0 where one of the two does not vary. There may be
    several found for each gold."""
    ranks, other = (rankdata(part, axis=-1) for part in (predicted, gold))
    ranks, other = (part - part.mean(axis=-1, keepdims=True) for part in (ranks, other))
    size = np.sqrt((ranks**2).sum(axis=-1) * (other**2).sum(axis=-1))
    products = (ranks * other).sum(axis=-1)
    correlations: Array = np.divide(products, size, out=np.zeros(size.shape), where=size > 0)
    return correlations


def probe_geometry(probe: StructuralProbe, treebank: ProbeTreebank) -> list[Geometry]:
    """The measures of a structural probe, for each of its seeds."""
    sums = GeometrySums(len(probe.seeds))
    batches = make_batches(treebank, lambda word: 0, False, hidden_layer=probe.hidden_layer)
    with torch.inference_mode():
        for _, batch in batches:
            distances, depths = (part.numpy() for part in probe.measure(batch))
            for i, sentence in enumerate(batch.sentences):
                n = len(sentence)
                sums.add(sentence, distances[:, i, :n, :n], depths[:, i, :n])
    return sums.all


def chain_geometry(treebank: ProbeTreebank) -> Geometry:
    """The baseline without a model: words in a chain, each below the one before it."""
    sums = GeometrySums(1)
    for sentence in treebank.sentences:
        places = np.arange(len(sentence), dtype=float)
        sums.add(sentence, np.abs(places - places[:, None])[None], places[None])
    return sums.all[0]


@dataclass(frozen=True, eq=False)
class LayerFit:
    """A layer's probe: how it did on held-out documents, and the measures of each seed."""

    layer: int
    sentences: int
    grade: float
    by_seed: list[Geometry]


class Structure(NamedTuple):
    """What a row of the table of structures tells of."""

    probe: str
    layer: int | None
    sentences: int
    by_seed: list[Geometry]


def fit_layers(suite: Suite) -> list[LayerFit]:
    """A probe for each layer, from a sample of the sentences."""
    sample = suite.train.choose(N_SENTENCES, suite.options.seed)
    smaller = suite.over(sample, suite.test, f"{suite.prefix}{len(sample)}-layers-")

    def fit(layer: int) -> LayerFit:
        model = smaller.train_structural(layer)
        grade = smaller.best_grade(f"structural-probe-layer-{layer}")
        return LayerFit(layer, len(sample), grade, probe_geometry(model, suite.test))

    layers = suite.train.maps.index.hidden_layers
    return list(run_side_by_side({f"{n}": partial(fit, n) for n in layers}).values())


def list_structures(fits: Sequence[LayerFit], suites: Mapping[str, Suite]) -> list[Structure]:
    """Rows of all layers from the sample, of the probes that learned from all sentences (given by
    the suite of each), and of words in a chain."""
    structures: list[Structure] = []
    for fit in fits:
        structures.append(Structure(BY_LAYER, fit.layer, fit.sentences, fit.by_seed))
    for name, suite in suites.items():
        model = suite.learned[name]
        if isinstance(model, StructuralProbe):
            by_seed = probe_geometry(model, suite.test)
            structures.append(Structure(name, model.hidden_layer, len(suite.train), by_seed))
    test = next(iter(suites.values())).test
    return [*structures, Structure("linear-chain", None, 0, [chain_geometry(test)])]


def choose_layer(fits: list[LayerFit]) -> int:
    """The layer that fits held-out documents of the training treebank best; the embeddings, which
    are a baseline, only where there is no other."""
    real = [fit for fit in fits if fit.layer != EMBEDDINGS] or fits
    return real[int(np.argmax([fit.grade for fit in real]))].layer
