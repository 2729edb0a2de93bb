"""Small runs over made-up examples and a model with planted heads."""

import pandas as pd

from headscope.engine.analyze import analyze
from headscope.runs.run import Run
from tests.making import MadeSource, make_example
from tests.planted import PLANTED

EXAMPLES = [make_example(seed, n_words=4 + seed % 5) for seed in range(40)]


def run(source: MadeSource = PLANTED, **options: object) -> Run:
    """A quick run over `EXAMPLES`, or over what the options say."""
    fixed = {"text": EXAMPLES, "progress": False, "shard_examples": 8}
    return analyze(source, **{**fixed, **options})  # type: ignore[arg-type]


def assert_same_tables(one: Run, other: Run) -> None:
    """Two runs have the same tables, to the last digits but three."""
    assert one.tables.keys() == other.tables.keys()
    for name, table in one.tables.items():
        pd.testing.assert_frame_equal(table, other.tables[name], rtol=1e-9)
