"""The oracle: every measure in slow, obvious loops, straight from the paper."""

from collections.abc import Sequence

import pandas as pd
import pytest

from headscope.data.encoding import Encoding
from tests.references.coreference import contrasts, coreference, coreference_distance, gap
from tests.references.cross import monotonicity, word_alignment
from tests.references.dependency import dependency
from tests.references.distance import distance
from tests.references.language_models import induction, induction_text, reach, retrieval, sinks
from tests.references.measures import (
    Maps,
    entropy,
    gradient,
    max_weight,
    parts_of_speech,
    position,
    special_tokens,
    word_pieces,
)
from tests.references.trees import trees

REFERENCES = {
    "position": position,
    "entropy": entropy,
    "max-weight": max_weight,
    "special-tokens": special_tokens,
    "gradient": gradient,
    "parts-of-speech": parts_of_speech,
    "word-pieces": word_pieces,
    "distance": distance,
    "dependency": dependency,
    "trees": trees,
    "coreference": coreference,
    "coreference-contrasts": contrasts,
    "coreference-distance": coreference_distance,
    "gap": gap,
    "monotonicity": monotonicity,
    "word-alignment": word_alignment,
    "induction": induction,
    "induction-text": induction_text,
    "sinks": sinks,
    "retrieval": retrieval,
    "reach": reach,
}
VALUE_COLUMN = {
    "position": "weight",
    "entropy": "nats",
    "max-weight": "weight",
    "special-tokens": "weight",
    "gradient": "gradient",
    "parts-of-speech": "weight",
    "word-pieces": "split",
    "distance": "divergence",
    "dependency": "accuracy",
    "trees": "accuracy",
    "coreference": "accuracy",
    "coreference-contrasts": "difference",
    "coreference-distance": "accuracy",
    "gap": "accuracy",
    "monotonicity": "correlation",
    "word-alignment": "aer",
    "induction": "weight",
    "induction-text": "weight",
    "sinks": "first",
    "retrieval": "copied",
    "reach": "distance",
}


def assert_equals_reference(
    table: pd.DataFrame,
    name: str,
    maps: Maps,
    encodings: Sequence[Encoding],
    tolerance: float = 1e-9,
) -> None:
    """Every cell of an analysis's table equals the slow loops over the same maps."""
    expected = REFERENCES[name](maps, encodings)
    value = VALUE_COLUMN[name]
    before = table.columns[: list(table.columns).index(value)]
    labels = [column for column in before if column not in ("correct", "count", "links")]
    found = {
        tuple(None if pd.isna(row[label]) else row[label] for label in labels): row[value]
        for row in table.to_dict("records")
    }
    assert found.keys() == expected.keys()
    for key, number in expected.items():
        assert found[key] == pytest.approx(number, rel=tolerance, abs=tolerance, nan_ok=True), key
