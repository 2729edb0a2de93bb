"""The structural probe at every stored layer, and the layer that fits best."""

from dataclasses import dataclass

import numpy as np

from headscope.probes.batches import NeuralScorer
from headscope.probes.geometry import Geometry, probe_geometry
from headscope.probes.suite import EMBEDDINGS, Suite

__all__ = ["LayerFit", "choose_layer", "fit_layers", "geometry_by_seed"]

N_SENTENCES = 2000  # that layers are compared by, at most


@dataclass(frozen=True, eq=False)
class LayerFit:
    """A layer's probe: how it did on held-out documents, and the measures of each seed."""

    layer: int
    sentences: int
    grade: float
    by_seed: list[Geometry]


def fit_layers(suite: Suite) -> list[LayerFit]:
    """A probe for each layer, from a sample of the sentences."""
    sample = suite.train.choose(N_SENTENCES, suite.options.seed)
    smaller = suite.over(sample, suite.test, f"{suite.prefix}{len(sample)}-layers-")
    fits = []
    for layer in suite.train.maps.index.hidden_layers:
        model = smaller.train_structural(layer)
        grade = smaller.best_grade(f"structural-probe-layer-{layer}")
        fits.append(LayerFit(layer, len(sample), grade, geometry_by_seed(model, suite)))
    return fits


def geometry_by_seed(model: NeuralScorer, suite: Suite) -> list[Geometry]:
    """The measures of each seed's probe on the test sentences."""
    return [probe_geometry(member, suite.test) for member in model.members]


def choose_layer(fits: list[LayerFit]) -> int:
    """The layer that fits held-out documents of the training treebank best; the embeddings, which
    are a baseline, only where there is no other."""
    real = [fit for fit in fits if fit.layer != EMBEDDINGS] or fits
    return real[int(np.argmax([fit.grade for fit in real]))].layer
