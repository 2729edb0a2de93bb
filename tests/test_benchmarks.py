"""What the benchmarks compare with gives the same numbers, and so can be compared with."""

from benchmarks.speed import OPTIONS, check_agreement
from benchmarks.usual import measure_usually
from benchmarks.workload import build_analyses, make_segments, minilm

from headscope.engine.measure import measure_examples


def test_the_usual_way_gives_the_numbers_of_the_engine() -> None:
    source, examples = minilm(), make_segments(3, 40)
    batch = source.batch(source.encode(examples, 40))
    result = measure_examples(examples, source, build_analyses(), OPTIONS)
    check_agreement(measure_usually(source, [batch]), result)
