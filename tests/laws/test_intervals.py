"""Every interval of a mean, ratio or contrast is that of leaving out documents, one by one.

The reference measures the corpus again without each document and takes the jackknife's t interval
by hand, of ratios on their logarithms. Shares of right answers have another interval
(tests/stats/test_interval.py), and so has what is chosen by fold.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headscope.data.example import Example, stable_hash
from headscope.stats.bucket import N_BUCKETS
from tests.laws.test_analyses import EXAMPLES, measure, of_one_model, tables_of

N_DOCUMENTS = 6
T_5 = 2.570582  # 97.5 % of t with 5 degrees of freedom
BOUNDS = (-1.0, 0.0, 1.0, float(np.log(2)))
SHARES = {"accuracy", "flat_rows", "heldout_accuracy", "untrained_accuracy"}  # of right answers
CHOICES = {"layer", "heldout_difference"}  # of the best: chosen by fold
CHOSEN = {"coreference-contrasts"}  # a table of such
CHECKED = {  # at least these
    "position": {"position"},
    "special-tokens": {"special-tokens", "special-tokens-layers"},
    "entropy": {"entropy", "entropy-layers"},
    "gradient": {"gradient", "gradient-layers"},
    "ablation": {"ablation"},
    "distance": {"distance", "distance-heads", "distance-layers", "distance-ends"},
    "dependency": {"dependency-special", "dependency-length"},
    "coreference": {"coreference-length"},
}


def with_documents() -> list[Example]:
    names: dict[int, str] = {}  # one document for each of some buckets
    for number in range(1000):
        names.setdefault(stable_hash(f"d{number}") % N_BUCKETS, f"d{number}")
    chosen = list(names.values())[:N_DOCUMENTS]
    return [replace(e, document=chosen[i % N_DOCUMENTS]) for i, e in enumerate(EXAMPLES)]


def triples(table: pd.DataFrame) -> Iterator[tuple[str, str, str]]:
    """The columns of each number, and of the ends of its interval."""
    for place, column in enumerate(table.columns):
        if column == "low":
            yield table.columns[place - 1], "low", "high"
        elif column.endswith("_low") and column.removesuffix("_low") in table:
            name = column.removesuffix("_low")
            yield name, column, f"{name}_high"


def by_key(table: pd.DataFrame) -> pd.DataFrame:
    """The rows by all that is not a fraction: layers, heads, names."""
    keys = [c for c in table if not pd.api.types.is_float_dtype(table[c])]
    numbers = table.select_dtypes(float)
    if not keys:
        return numbers
    return numbers.set_index(pd.MultiIndex.from_frame(table[keys].astype(str)))


def assert_is_jackknife(
    whole: pd.DataFrame, left: list[pd.DataFrame], columns: tuple[str, str, str]
) -> int:
    """How many rows were compared."""
    value, low, high = columns
    n_rows = 0
    firsts = [part[value][~part.index.duplicated()] for part in left]
    others = np.stack([first.reindex(whole.index) for first in firsts], axis=1)  # [row, document]
    for (key, row), rest in zip(whole.iterrows(), others, strict=True):
        if np.isnan(row[low]):
            continue
        if np.isnan(rest).any() or np.isclose(rest, row[value], rtol=1e-9, atol=0).any():
            continue  # a document has nothing to say here
        of, back = (np.log, np.exp) if "ratio" in value else (np.asarray, np.asarray)
        middle = of(row[value])
        error = np.sqrt((N_DOCUMENTS - 1) / N_DOCUMENTS * ((of(rest) - middle) ** 2).sum())
        ends = back(middle - T_5 * error), back(middle + T_5 * error)
        for end, found in zip(ends, (row[low], row[high]), strict=True):
            is_cut = any(np.isclose(found, bound) for bound in BOUNDS)
            assert is_cut or found == pytest.approx(float(end), rel=1e-4, abs=1e-7), (key, columns)
        n_rows += 1
    return n_rows


@pytest.mark.parametrize("name", of_one_model)
def test_intervals_are_those_of_leaving_documents_out(name: str) -> None:
    examples = with_documents()
    documents = sorted({str(example.document) for example in examples})
    tables = tables_of(measure(examples, name), name)
    left = [
        tables_of(measure([e for e in examples if e.document != document], name), name)
        for document in documents
    ]
    compared = set()
    for title, table in ((name, part) for name, part in tables.items() if len(part)):
        for columns in triples(table):
            if columns[0] in SHARES | CHOICES or title in CHOSEN:
                continue
            parts = [by_key(part[title]) for part in left]
            if assert_is_jackknife(by_key(table), parts, columns):
                compared.add(title)
    assert compared >= CHECKED.get(name, set())
