"""Runs made for tests of the report: planted heads, and all tables in the size one asks for."""

from functools import cache

import numpy as np
import pandas as pd

from headscope.analyses.distance.layout import derive_layout
from headscope.analyses.distance.measure import Distance
from headscope.analyses.distance.tables import Distances, head_table, nearest_table, pair_table
from headscope.data.attention import spread_heads
from headscope.data.head_view import HeadView, ShownExample
from headscope.engine.analyze import analyze
from headscope.runs.run import Run
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.sums import Sums, Tally
from headscope.view.presentation import MapOptions
from tests.making import make_example
from tests.planted import PLANTED

HOSTILE = "</script><script>window.stolen = 1</script><img src=x onerror='window.stolen=2'>"


@cache
def planted_run() -> Run:
    """A small real run over a made model of 3 x 5 heads with known heads."""
    # Enough for sentences: over 1,000 tokens.
    examples = [make_example(seed, n_words=4 + seed % 5) for seed in range(150)]
    return analyze(PLANTED, text=examples, treebank=examples, progress=False)


def hostile_run() -> Run:
    """A run whose every label tries to be a script."""
    run = planted_run()
    named = {"dependency", "dependency-best"}
    tables = {
        name: table.replace({"relation": {"obj": HOSTILE}}) if name in named else table
        for name, table in run.tables.items()
    }
    view = HeadView(HOSTILE, 0, 1, (HOSTILE, "b"), (False, False), np.full((2, 2), 0.5), ((0, 1),))
    manifest = {**run.manifest, "model": {**run.manifest["model"], "name": HOSTILE}}
    return Run(tables, manifest, None, [ShownExample(HOSTILE, "best", 0.5, HOSTILE, view)])


def matched_run() -> Run:
    """The heads of two models of 2 x 3 heads, matched with each other."""
    places = [(layer, head) for layer in (1, 2) for head in (1, 2, 3)]
    rows = [
        {"layer_a": layer, "head_a": head, "layer_b": layer, "head_b": 4 - head}
        | {"divergence": 0.1 * place, "low": 0.05 * place, "high": 0.2 * place, "support": 0.9}
        | {"mean_divergence": 0.6, "is_mutual": place < 3}
        for place, (layer, head) in enumerate(places)
    ]
    names = {place: {"name": place} for place in ("first", "second")}
    model = {**planted_run().manifest["model"], "name": "first and second", **names}
    manifest = {**planted_run().manifest, "model": model}
    return Run({"head-matches": pd.DataFrame(rows)}, manifest, None)


@cache
def large_run(n_layers: int = 24, n_heads: int = 16) -> Run:
    """A run of so many layers of so many heads, with its map of heads."""
    tables = large_tables(n_layers, n_heads)
    derived = derive_layout(tables, MapOptions())
    assert derived is not None
    tables |= derived.tables
    return Run(tables, planted_run().manifest, None, planted_run().examples)


def large_tables(n_layers: int, n_heads: int) -> dict[str, pd.DataFrame]:
    """Tables of a model of this size, with random numbers; distances as of a run's default."""
    draw = np.random.default_rng(0)
    heads = [(layer + 1, head + 1) for layer in range(n_layers) for head in range(n_heads)]

    def table(column: str, **labels: list[str]) -> pd.DataFrame:
        rows = pd.DataFrame(heads, columns=["layer", "head"])
        for name, values in labels.items():
            rows = rows.merge(pd.DataFrame({name: values}), how="cross")
        numbers = draw.uniform(0, 1, len(rows))
        return rows.assign(**{column: numbers, "low": numbers * 0.9, "high": numbers * 1.1})

    classes = ["cls", "sep", "punctuation", "other"]
    most = min(n_heads, Distance.max_heads // n_layers)
    compared = [spread_heads(n_heads, most) for _ in range(n_layers)]
    n_compared = n_layers * most
    divergence = np.zeros((N_BUCKETS, n_compared * (n_compared - 1) // 2))
    divergence[:2] = draw.uniform(0, 0.7, (2, divergence.shape[-1]))
    sums = Tally({"divergence": divergence, "rows": (np.arange(N_BUCKETS) < 2).astype(float)})
    distances = Distances(Sums.of(Distance(), sums), compared)
    return {
        "position": table("weight", target=["previous", "self", "next"]),
        "special-tokens": table("weight", source=["all", "sep", "other"], target=classes),
        "entropy": table("nats", rows=["all", "cls"]).assign(
            uniform=4.85, share=0.5, share_low=0.4, share_high=0.6
        ),
        "gradient": table("gradient", target=classes),
        "ablation": table("change", mode=["zero", "mean", "sink"]).assign(effect="loss", base=3.2),
        "distance": pair_table(distances),
        "distance-nearest": nearest_table(distances),
        "distance-heads": head_table(distances),
    }
