"""Figures of probes."""

import pandas as pd

from headscope.probes.charts import draw_parts


def test_every_part_of_the_attention_has_its_name_and_names_do_not_touch() -> None:
    names = ["greedy", "layer 1", "layer 2", "layer 3", "all heads"]
    uas = [0.3, 0.41, 0.405, 0.2, 0.6]
    table = pd.DataFrame(
        {
            "part": names,
            "n_heads": [1, 12, 12, 12, 36],
            "heads": "1-1 1-2",
            "uas": uas,
            "low": [value - 0.05 for value in uas],
            "high": [value + 0.05 for value in uas],
        }
    )
    drawn = draw_parts({"probe-parts": table}).to_dict()
    assert [layer for layer in drawn["layer"] if layer["mark"]["type"] == "text"]
    (data,) = drawn["datasets"].values()
    at = {row["part"]: row["name_at"] for row in data}
    assert at["layer 1"] == 0.41
    assert at["all heads"] == 0.6
    assert at["layer 2"] < 0.41 - 0.01, "moved away from the name above it"
    assert at["layer 3"] == 0.2
