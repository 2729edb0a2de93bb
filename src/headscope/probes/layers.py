"""The structural probe at every stored layer, and the layer that fits best."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from headscope.probes.geometry import Geometry, chain_geometry, probe_geometry
from headscope.probes.side_by_side import run_side_by_side
from headscope.probes.structural import StructuralProbe
from headscope.probes.suite import EMBEDDINGS, Suite

__all__ = ["LayerFit", "Structure", "choose_layer", "fit_layers", "list_structures"]

BY_LAYER = "each layer"  # in place of a probe's name
N_SENTENCES = 1000  # that layers are compared by, at most


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
    found: list[Structure] = []
    for fit in fits:
        found.append(Structure(BY_LAYER, fit.layer, fit.sentences, fit.by_seed))
    for name, suite in suites.items():
        model = suite.learned[name]
        if isinstance(model, StructuralProbe):
            by_seed = probe_geometry(model, suite.test)
            found.append(Structure(name, model.hidden_layer, len(suite.train), by_seed))
    test = next(iter(suites.values())).test
    return [*found, Structure("linear-chain", None, 0, [chain_geometry(test)])]


def choose_layer(fits: list[LayerFit]) -> int:
    """The layer that fits held-out documents of the training treebank best; the embeddings, which
    are a baseline, only where there is no other."""
    real = [fit for fit in fits if fit.layer != EMBEDDINGS] or fits
    return real[int(np.argmax([fit.grade for fit in real]))].layer
