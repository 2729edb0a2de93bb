"""What holds of every registered analysis, and that each law can be broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headscope.analyses.position import Position
from headscope.contracts import Analysis, Watch
from headscope.data.attention import Readings
from headscope.data.example import Example
from headscope.data.reading import SUMS, RowReading
from headscope.engine.measure import Result, measure_examples
from headscope.engine.resolve import build_analysis
from headscope.options import RunOptions, option
from headscope.registry import ANALYSES
from headscope.runs.tables import make_tables
from headscope.stats.estimates import Estimates
from headscope.stats.sums import Sums, Tally
from headscope.testing import check_analysis
from tests.making import (
    N_HEADS,
    N_LAYERS,
    MadeSource,
    encode_pair,
    encode_words,
    make_example,
    make_pair,
    random_maps,
)
from tests.references import REFERENCES, VALUE_COLUMN, assert_equals_reference
from tests.references.language_models import reach_variance

EXAMPLES = [make_example(seed) for seed in range(14)]
PAIRS = {f"made:{seed}": make_pair(seed) for seed in range(14)}
PRECISIONS = [torch.float32, torch.bfloat16]  # exact, and rounded most
VALUES = {
    **VALUE_COLUMN,
    "ablation": "change",
    "head-matches": "divergence",
    "induction-proof": "gain",
    "importance": "importance",
    "copying": "top_1",
}

NAMES = list(ANALYSES.built_in)
ALSO_ACROSS = [name for name in NAMES if getattr(build_analysis(name), "measures_cross", False)]
every_analysis = pytest.mark.parametrize("name", NAMES)
# Of two models each table names the heads in its own way; tests/analyses has what they hold.
of_one_model = [n for n in NAMES if build_analysis(n).watches is not Watch.MODEL_PAIR]


def made_source(name: str, **options: Any) -> MadeSource:
    """Random numbers of the kind that the analysis watches."""
    watches = build_analysis(name).watches
    emits = Watch.ATTENTION if watches is Watch.MODEL_PAIR else watches
    return MadeSource(**{"emits": emits, **options})


def measure(
    examples: Sequence[Example], name: str, source: MadeSource | None = None, **options: int
) -> Result:
    analyses = [build_analysis(name)]
    settings = RunOptions(**options)
    source = source or made_source(name)
    if source.emits is Watch.CROSS_ATTENTION:
        pairs = [(PAIRS.get(example.id, example), example.document) for example in examples]
        examples = [replace(pair, document=document) for pair, document in pairs]
    return measure_examples(examples, source, analyses, settings)


@cache
def measure_all(name: str) -> Result:
    """The sums over all examples; they are to be read, not to be added to."""
    return measure(EXAMPLES, name)


def made_example(name: str, seed: int, n_words: int) -> Example:
    is_across = made_source(name).emits is Watch.CROSS_ATTENTION
    return (make_pair if is_across else make_example)(seed, n_words)


def table_of(result: Result, name: str) -> pd.DataFrame:
    return tables_of(result, name)[name]


def tables_of(result: Result, name: str) -> Mapping[str, pd.DataFrame]:
    return make_tables(build_analysis(name), result.tallies[name])


def assert_same_totals(one: Tally, other: Tally) -> None:
    assert one.totals.keys() == other.totals.keys()
    for key, total in one.totals.items():
        np.testing.assert_allclose(other.totals[key], total, rtol=1e-12, atol=1e-12)


@every_analysis
@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
def test_every_analysis_keeps_the_contract(name: str, precision: torch.dtype) -> None:
    check_analysis(build_analysis(name), precision)


@every_analysis
@settings(max_examples=6)
@given(data=st.data())
def test_any_partition_into_shards_adds_up_to_the_whole(name: str, data: st.DataObject) -> None:
    parts = data.draw(st.lists(st.integers(0, 3), min_size=len(EXAMPLES), max_size=len(EXAMPLES)))
    sums = Result()
    for part in sorted(set(parts)):
        shard = [e for e, p in zip(EXAMPLES, parts, strict=True) if p == part]
        sums = sums + measure(shard, name)
    whole = measure_all(name)
    assert_same_totals(whole.tallies[name], sums.tallies[name])
    assert sums.counts.used == whole.counts.used == len(EXAMPLES)


@every_analysis
@settings(max_examples=6)
@given(order=st.permutations(EXAMPLES), batch_tokens=st.integers(1, 200))
def test_order_and_batch_size_do_not_matter(
    name: str, order: list[Example], batch_tokens: int
) -> None:
    whole = measure_all(name)
    other = measure(order, name, batch_tokens=batch_tokens)
    assert_same_totals(whole.tallies[name], other.tallies[name])


@pytest.mark.parametrize("name", of_one_model)
@pytest.mark.parametrize("n_words", [1, 2, 7])
@pytest.mark.parametrize("n_pieces", [1, 3])
def test_tables_cover_every_layer_and_head(name: str, n_words: int, n_pieces: int) -> None:
    source = made_source(name, pieces=lambda word, place: n_pieces)
    examples = [made_example(name, seed, n_words) for seed in range(4)]
    table = table_of(measure(examples, name, source), name)
    ends = [("layer", "head"), ("layer_a", "head_a"), ("layer_b", "head_b")]
    columns = [table[[*end]].dropna() for end in ends if end[0] in table]
    if not columns:  # a table of words, not of heads
        assert len(table)
        return
    found = {(layer, head) for part in columns for layer, head in part.to_numpy().tolist()}
    assert found == {
        (layer, head) for layer in range(1, N_LAYERS + 1) for head in range(1, N_HEADS + 1)
    }


@every_analysis
def test_no_examples_give_an_empty_table_with_the_same_columns(name: str) -> None:
    analysis = build_analysis(name)
    tables = make_tables(analysis, Tally())
    assert {table: tuple(t.columns) for table, t in tables.items()} == analysis.tables
    assert all(len(table) == 0 for table in tables.values())


@pytest.mark.parametrize("name", [name for name in NAMES if name in REFERENCES])
def test_tables_equal_the_slow_reference(name: str) -> None:
    is_across = made_source(name).emits is Watch.CROSS_ATTENTION
    encodings = [encode_words(example) for example in EXAMPLES]
    if is_across:
        encodings = [encode_pair(pair) for pair in PAIRS.values()]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    assert_equals_reference(table_of(measure_all(name), name), name, maps, encodings)


def test_the_variance_of_distances_equals_the_slow_reference() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    rows = table_of(measure_all("reach"), "reach").set_index(["layer", "head"])["variance"]
    assert rows.to_dict() == pytest.approx(reach_variance(maps, encodings))


@pytest.mark.parametrize("name", ALSO_ACROSS)
def test_tables_of_cross_attention_equal_the_slow_reference(name: str) -> None:
    encodings = [encode_pair(pair) for pair in PAIRS.values()]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    result = measure(EXAMPLES, name, MadeSource(emits=Watch.CROSS_ATTENTION))
    assert_equals_reference(table_of(result, name), name, maps, encodings)


def test_what_is_measured_of_every_kind_of_attention() -> None:
    assert ALSO_ACROSS == ["position", "special-tokens", "entropy", "max-weight", "distance"]


def test_what_has_no_slow_reference_here_is_compared_elsewhere() -> None:
    # with the model itself in tests/models/test_ablation.py, pair by pair in test_match.py
    elsewhere = {"ablation", "head-matches", "induction-proof", "importance", "copying"}
    assert set(NAMES) - set(REFERENCES) == elsewhere


@every_analysis
def test_one_document_gives_no_intervals(name: str) -> None:
    alone = [replace(example, document="the only one") for example in EXAMPLES]
    table = table_of(measure(alone, name), name)
    assert table[["low", "high"]].isna().all(axis=None)


@every_analysis
def test_intervals_hold_the_estimate(name: str) -> None:
    table = table_of(measure_all(name), name).dropna(subset=["low", "high"])
    value = VALUES[name]
    assert ((table["low"] <= table[value]) & (table[value] <= table["high"])).mean() > 0.98


RANGES = {"correlation": (-1, 1), "loss": (0, inf), "nats": (0, inf), "divergence": (0, inf)}
ADDED = {"treebank", "corpus", "window", "cut", "documents", "attention", "draw"}  # by the engine


@every_analysis
def test_no_table_has_a_column_that_tells_corpora_apart(name: str) -> None:
    for columns in build_analysis(name).tables.values():
        assert not ADDED & set(columns)


SHARES = dict.fromkeys(("weight", "accuracy", "split", "copied", "first", "aer"), (0, 1))


@every_analysis
def test_intervals_of_few_documents_stay_where_the_number_can_be(name: str) -> None:
    two = [replace(example, document=f"{i % 2}") for i, example in enumerate(EXAMPLES[:5])]
    table = table_of(measure(two, name), name)
    least, most = {**RANGES, **SHARES}.get(VALUES[name], (-inf, inf))
    ends = table[["low", "high"]].to_numpy(float)
    assert ((ends >= least) & (ends <= most) | np.isnan(ends)).all()


# What breaks one law each.

TABLES = {"toy": Position.tables["position"]}


@dataclass(frozen=True)
class Toy(Position):
    """A sound analysis that the others spoil."""

    name: ClassVar[str] = "toy"
    tables: ClassVar[Any] = TABLES


def test_a_sound_toy_keeps_the_contract() -> None:
    check_analysis(Toy())


def test_an_analysis_that_can_be_changed_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="frozen"):

        @dataclass
        class Thawed(Analysis):
            rows: int = 1


@dataclass(frozen=True)
class Nameless(Toy):
    name: ClassVar[Any] = None


@dataclass(frozen=True)
class WatchesText(Toy):
    watches: ClassVar[Any] = "attention"


@dataclass(frozen=True)
class NeedsList(Toy):
    needs: ClassVar[Any] = ["words"]


@dataclass(frozen=True)
class ColumnsList(Toy):
    tables: ClassVar[Any] = {"toy": list(TABLES["toy"])}


@dataclass(frozen=True)
class NoTables(Toy):
    tables: ClassVar[Any] = {}


@dataclass(frozen=True)
class Wordless(Toy):
    size: int = option(3, " ")


@dataclass(frozen=True)
class Unpicklable(Toy):
    def __reduce__(self) -> Any:
        return (Toy, ())


@dataclass(frozen=True)
class NotAgain(Toy):
    words: Any = ("a",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", (*self.words, "more"))


@dataclass(frozen=True)
class Axisless(Toy):
    sums: ClassVar[Any] = {"weight": ("layer", "head")}


@dataclass(frozen=True)
class LabelsOfNothing(Toy):
    labels: ClassVar[Any] = {"colour": ("red",)}


@dataclass(frozen=True)
class OtherAxes(Toy):
    sums: ClassVar[Any] = {**Position.sums, "segments": "layer"}


@dataclass(frozen=True)
class OtherColumns(Toy):
    def summarize(self, sums: Sums) -> Any:
        return {"toy": Estimates({"w": sums.ratio("weight", "segments")})}


@dataclass(frozen=True)
class OtherTable(Toy):
    def summarize(self, sums: Sums) -> Any:
        return {**super().summarize(sums), "another": pd.DataFrame()}


@dataclass(frozen=True)
class WeightsHalved(RowReading):
    """A reading that changes the maps."""

    def of_rows(self, weights: Tensor, rows: slice) -> Tensor:
        weights.mul_(0.5)
        return weights.sum(-1)


@dataclass(frozen=True)
class Meddler(Toy):
    reads: ClassVar[Any] = (SUMS, WeightsHalved())


@dataclass(frozen=True)
class ListGiver(Toy):
    def measure(self, seen: Readings) -> Any:
        return list(super().measure(seen).values())


@dataclass(frozen=True)
class ArrayGiver(Toy):
    def measure(self, seen: Readings) -> Any:
        return {name: value.numpy() for name, value in super().measure(seen).items()}


@dataclass(frozen=True)
class HeadsFirst(Toy):
    def measure(self, seen: Readings) -> Any:
        return {name: value.sum(0) for name, value in super().measure(seen).items()}


@dataclass(frozen=True)
class Divider(Toy):
    def measure(self, seen: Readings) -> Any:
        values = dict(super().measure(seen))
        return {**values, "weight": values["weight"] / 0}


@dataclass(frozen=True)
class MeanOfBatch(Toy):
    """A mean over the examples of a batch: its sums depend on who came along."""

    def measure(self, seen: Readings) -> Any:
        values = dict(super().measure(seen))
        return {
            **values,
            "weight": values["weight"].mean(0, keepdim=True).expand_as(values["weight"]),
        }


@dataclass(frozen=True)
class Counter(Toy):
    """One that remembers: the parts of a corpus give other sums than the whole."""

    seen: ClassVar[list[int]] = []

    def measure(self, seen: Readings) -> Any:
        self.seen.append(1)
        values = dict(super().measure(seen))
        return {**values, "weight": values["weight"] * len(self.seen)}


def find_companions() -> set[str]:
    """Examples of the check that have another of their length in their third of the corpus."""
    lengths = [len(encode_words(make_example(seed))) for seed in range(12)]
    return {
        f"made:{one}"
        for one in range(12)
        for other in range(one % 3, 12, 3)
        if one != other and lengths[one] == lengths[other]
    }


@dataclass(frozen=True)
class Sociable(Toy):
    """One that sees whether an example is alone in its batch; parts of a corpus hide it."""

    companions: ClassVar[set[str]] = find_companions()

    def measure(self, seen: Readings) -> Any:
        values = dict(super().measure(seen))
        ids = {encoding.example.id for encoding in seen.batch.encodings}
        is_lonely = len(ids) == 1 and ids <= self.companions
        return {**values, "weight": values["weight"] * (2 if is_lonely else 1)}


@dataclass(frozen=True)
class FirstHead(Toy):
    """One to which the first head is something else."""

    def measure(self, seen: Readings) -> Any:
        values = dict(super().measure(seen))
        weight = values["weight"].clone()
        weight[:, :, 0] *= 2
        return {**values, "weight": weight}


@dataclass(frozen=True)
class LackedTable(Toy):
    tables: ClassVar[Any] = {**TABLES, "second": ("layer",)}


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Nameless, "`name` is a string of the class"),
        (WatchesText, "`watches` is a Watch"),
        (NeedsList, "`needs` is a frozenset"),
        (ColumnsList, "`tables` names the columns"),
        (NoTables, "`tables` names the columns"),
        (Wordless, "the option size has a help text"),
        (Unpicklable, "it pickles"),
        (NotAgain, "it can be made again from its fields as JSON"),
        (Axisless, "`sums` names the axes of each sum, in one string"),
        (LabelsOfNothing, "`labels` are those of axes of its `sums`"),
        (OtherAxes, "'segments' has the axes example, layer"),
        (
            OtherColumns,
            "`summarize` gives .* declared: 'toy' has the columns .* w, and .* weight, ",
        ),
        (OtherTable, "`summarize` gives the tables and columns declared: 'another' is given"),
        (LackedTable, "`summarize` gives the tables and columns declared: 'second' is declared"),
        (Meddler, "`measure` leaves its input unchanged"),
        (ListGiver, "`measure` gives named arrays"),
        (ArrayGiver, "`measure` gives named arrays, each a torch.Tensor"),
        (HeadsFirst, "the first axis of what it measures is the example"),
        (Divider, "sums and counts are finite numbers"),
        (MeanOfBatch, "the sums of the parts of a corpus are those of the whole"),
        (Counter, "the sums of the parts of a corpus are those of the whole"),
        (Sociable, "neither the order of examples nor the size of batches changes the sums"),
        (FirstHead, "heads in another order give the same rows for other heads"),
    ],
)
def test_a_broken_analysis_is_named_with_the_law_it_breaks(kind: Any, law: str) -> None:
    with pytest.raises(AssertionError, match=rf"^{kind.__name__}: {law}"):
        check_analysis(kind())
