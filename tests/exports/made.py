"""A run of a made decoder with 2 KV heads for 4 query heads, for tests of exports."""

from dataclasses import replace

import numpy as np
import pandas as pd

from headscope.data.head_view import HeadView, ShownExample
from headscope.data.table import head_axes, tidy_table
from headscope.runs.run import Run

SHAPE = N_LAYERS, N_HEADS = 3, 4
AXES = head_axes(*SHAPE)
HOSTILE = "</script><img src=x> [link](javascript:x) `code` | *bold*"


def number(table: str, column: str, values: np.ndarray) -> pd.DataFrame:
    """A table of one number of every head with a narrow interval."""
    columns = {column: values, f"{column}_low": values - 0.01, f"{column}_high": values + 0.01}
    return tidy_table(AXES, columns)


def decoder_run() -> Run:
    """Numbers of every head that grow with its place, and one example."""
    values = np.arange(N_LAYERS * N_HEADS).reshape(SHAPE) / 20  # 0 to 0.55
    reach = number("reach", "beyond", values).assign(distance=5.0, low=4.0, high=6.0)
    retrieval = number("retrieval", "copied", values[::-1])
    weights = np.array([[1.0, 0.0, 0.0], [0.4, 0.6, 0.0], [0.0, 0.9996, 0.0004]])
    view = HeadView("doc:1", 1, 2, ("A", "\u0120sea", "\u0120gull"), (False,) * 3, weights)
    examples = [
        ShownExample("previous token", "best", 0.9, "90 %", view),
        ShownExample("previous token", "worst", 0.1, "10 %", replace(view, head=3)),
        ShownExample("previous token", "sheet", 0.0, "", view),
    ]
    manifest = {
        "model": {
            "name": "made", "digest": "d", "weights": "attention", "layers": N_LAYERS,
            "heads": N_HEADS, "key_value_heads": 2, "layer_numbers": [1, 2, 3], "dtype": "float32",
        },
        "passes": {"text": {"corpus": "notes.txt", "role": "text", "digest": "c", "repeats": None}},
        "counts": {"text": {"used": 7, "tokens": 99}},
        "analyses": {"reach": {"reach_first": 4, "reach_last": 64}},
        "options": {"max_tokens": None},
        "versions": {"headscope": "1"},
    }  # fmt: skip
    return Run({"reach": reach, "retrieval": retrieval}, manifest, None, examples)
