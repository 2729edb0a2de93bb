"""What the benchmarks compare with gives the same numbers, and so can be compared with."""

import numpy as np
import pytest
from benchmarks import coverage, speed
from benchmarks.speed import OPTIONS, check_agreement
from benchmarks.usual import measure_usually
from benchmarks.workload import WholeMaps, build_analyses, make_segments, minilm

from headscope.corpora.opening import open_corpus
from headscope.engine.measure import measure_examples


def test_the_usual_way_gives_the_numbers_of_the_engine() -> None:
    source, examples = minilm(), make_segments(3, 40)
    batch = source.batch(source.encode(examples, 40))
    result = measure_examples(examples, source, build_analyses(), OPTIONS)
    check_agreement(measure_usually(source, [batch]), result)


def test_each_part_of_a_pass_has_its_seconds() -> None:
    parts = speed._measure_in_parts(minilm(), make_segments(2, 30))
    names = {analysis.name for analysis in build_analyses()}
    assert names < set(parts)
    assert min(parts[name] for name in names) > 0


def test_whole_maps_give_the_numbers_of_slices() -> None:
    source, examples = minilm(), make_segments(3, 40)
    sliced, whole = (
        measure_examples(examples, shown, build_analyses(), OPTIONS).tallies["entropy"]
        for shown in (source, WholeMaps(source))
    )
    np.testing.assert_allclose(sliced.totals["nats"], whole.totals["nats"], rtol=1e-5)


def test_coverage_has_a_cell_for_each_head_and_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coverage, "open_corpus", lambda path, role: open_corpus("starter", role))
    monkeypatch.setattr(coverage, "N_RESAMPLED", 2)
    found = list(coverage._resample(minilm(), np.random.default_rng(0)))
    cells = {number: cells for _, number, _, _, cells in found}
    n_heads = 6 * 12
    assert cells["mean, entropy"] == 2 * n_heads  # over all rows, and that of the opening token
    for relation in coverage.RELATIONS:
        for kind in ("accuracy", "difference"):
            assert cells[f"{kind}, {relation}"] == 2 * n_heads, (kind, relation)
    assert all(0 <= float(held) <= 100 for *_, held, _ in found)
