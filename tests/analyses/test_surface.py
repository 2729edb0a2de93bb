"""What the analyses of section 3 measure, and how their options are read."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

from headscope.analyses.ablation import Ablation, read_heads
from headscope.analyses.entropy import Entropy
from headscope.analyses.gradient import Gradient
from headscope.analyses.max_weight import PRESENTATION as MAX_WEIGHT
from headscope.analyses.max_weight import MaxWeight
from headscope.analyses.position import Position
from headscope.analyses.special_tokens.classes import class_names, classify
from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.data.attention import LayerAttention, LayerGradient
from headscope.data.encoding import Batch, TokenKind
from headscope.data.example import Example
from headscope.engine.measure import measure_batch, show_layers
from headscope.errors import StudyError
from headscope.options import build_options, collect_options
from headscope.runs.tables import make_tables
from headscope.stats.bucket import bucket_of
from headscope.stats.sums import Tally
from headscope.view.facts import FactMaker
from headscope.view.judge import Claim
from headscope.view.presentation import list_specs
from headscope.view.specs import Behaviour, Figure
from tests.making import encode_words, make_example, random_maps
from tests.references import assert_equals_reference, measures

EXAMPLES = [make_example(seed) for seed in range(12)]
ENCODINGS = [encode_words(example) for example in EXAMPLES]
MAPS = [random_maps(encoding) for encoding in ENCODINGS]


def measure(analysis: Any, *layers: Any) -> dict[str, np.ndarray]:
    """What is measured of these layers of one example."""
    return measure_batch(analysis, show_layers(analysis.reads, layers), n_examples=1)


def tally_of(analysis: Any, all_maps: Sequence[Tensor] = MAPS, has_sink: bool = False) -> Tally:
    """Every example alone, each counted once."""
    tally = Tally()
    for encoding, maps in zip(ENCODINGS, all_maps, strict=True):
        batch, layers = Batch((encoding,)), list[Any]()
        for layer, weights in enumerate(maps):
            if isinstance(analysis, Gradient):
                layers.append(LayerGradient(layer, weights[None], batch))
            else:
                attention = LayerAttention.full(layer, weights[None], batch)
                layers.append(replace(attention, has_sink=has_sink))
        bucket = np.array([bucket_of(encoding.example)])
        tally.add(bucket, measure(analysis, *layers))
    return tally


@pytest.mark.parametrize(
    "analysis", [Position(), SpecialTokens(), Entropy(), MaxWeight(), Gradient()]
)
def test_tables_equal_the_slow_reference(analysis: Any) -> None:
    tables = make_tables(analysis, tally_of(analysis))
    assert {name: tuple(table.columns) for name, table in tables.items()} == analysis.tables
    maps = [maps.numpy() for maps in MAPS]
    assert_equals_reference(tables[analysis.name], analysis.name, maps, ENCODINGS)


def test_periods_and_commas_are_counted_and_ranked_among_tokens() -> None:
    counts = Counter(
        surface
        for encoding in ENCODINGS
        for surface, kind in zip(encoding.surfaces, encoding.kinds, strict=True)
        if kind == TokenKind.TEXT
    )
    analysis = SpecialTokens()
    table = make_tables(analysis, tally_of(analysis))["token-frequency"].set_index("token")
    for name, mark in {"period": ".", "comma": ","}.items():
        assert table.loc[name, "share"] == pytest.approx(counts[mark] / counts.total())
        more = [token for token, count in counts.items() if count > counts[mark]]
        assert table.loc[name, "rank"] == 1 + len(more)


def test_periods_and_commas_of_other_scripts_are_punctuation() -> None:
    words = ("雨", "。", "،", "۔", "।", "，", "!")
    encoding = encode_words(Example("x", words=words), lambda word, place: 1)
    found = classify(Batch((encoding,)), {})[0].argmax(-1)
    names = [class_names({})[i] for i in found.tolist()]
    assert names == ["cls", "other", *["punctuation"] * 5, "other", "sep"]


def test_the_row_of_cls_is_read_where_the_token_stands() -> None:
    """XLNet closes its input with [CLS]; T5 has none."""
    encoding = ENCODINGS[0]
    kinds = np.zeros_like(encoding.kinds)
    kinds[-1] = TokenKind.CLS
    last, none = (replace(encoding, kinds=k) for k in (kinds, np.zeros_like(kinds)))
    found = {}
    for name, one in {"last": last, "none": none}.items():
        attention = LayerAttention.full(0, MAPS[0][0][None], Batch((one,)))
        tally = Tally()
        tally.add(np.zeros(1, np.int64), measure(Entropy(), attention))
        found[name] = make_tables(Entropy(), tally)["entropy"]
    own = found["last"].query("rows == 'cls' and head == 1")["nats"].item()
    row = MAPS[0][0, 0, -1]
    assert own == pytest.approx(float(-(row * row.log()).sum()))
    assert set(found["none"]["rows"]) == {"all"}


def test_what_goes_to_a_learned_sink_is_a_class_and_a_key_of_its_own() -> None:
    """Entropy counts the sink as one more key; position and largest weights are of tokens."""
    shares = [torch.linspace(0.2, 1, maps.shape[-2], dtype=maps.dtype)[:, None] for maps in MAPS]
    lost = [maps * share for maps, share in zip(MAPS, shares, strict=True)]
    arrays = [maps.numpy() for maps in lost]
    table = make_tables(SpecialTokens(), tally_of(SpecialTokens(), lost, True))["special-tokens"]
    found = table.set_index(["layer", "head", "source", "target"])["weight"]
    expected = measures.special_tokens(arrays, ENCODINGS) | measures.sink(arrays, ENCODINGS)
    assert list(table["target"].unique())[-1] == "sink"
    assert found.to_dict() == pytest.approx(expected, nan_ok=True)
    totals = found.groupby(["layer", "head", "source"]).sum(min_count=1).dropna()
    assert totals.to_numpy() == pytest.approx(1)

    full = [torch.cat([maps, 1 - maps.sum(-1, keepdim=True)], dim=-1).numpy() for maps in lost]
    table = make_tables(Entropy(), tally_of(Entropy(), lost, True))["entropy"]
    nats = table.set_index(["layer", "head", "rows"])["nats"].to_dict()
    assert nats == pytest.approx(measures.entropy(full, ENCODINGS))
    even = [sum(math.log(len(encoding) + 1) for _ in encoding.surfaces) for encoding in ENCODINGS]
    mean = sum(one / len(e) for one, e in zip(even, ENCODINGS, strict=True)) / len(ENCODINGS)
    assert table["uniform"].to_numpy() == pytest.approx(mean)


def test_a_model_without_a_sink_has_no_class_for_it() -> None:
    table = make_tables(SpecialTokens(), tally_of(SpecialTokens()))["special-tokens"]
    assert "sink" not in set(table["target"])


def test_a_gradient_counts_only_pairs_that_have_a_weight() -> None:
    """In a decoder a key is seen by itself and by what follows."""
    (encoding, n) = ENCODINGS[0], len(ENCODINGS[0])
    is_visible = torch.ones(n, n).tril().bool()
    gradient = LayerGradient(0, MAPS[0][:1] * is_visible, Batch((encoding,)), is_visible)
    found = measure(Gradient(), gradient)
    assert found["pairs"].sum() == n * (n + 1) / 2
    assert found["pairs"][0, 0, 0] == n  # [CLS], which all tokens see


@pytest.mark.parametrize("kind", [SpecialTokens, Gradient])
def test_token_classes_are_read_from_the_command_line_and_from_python(kind: type) -> None:
    one = collect_options(kind)["token_classes"]
    assert (one.flag, one.repeat, one.default) == ("--token-class", True, {})
    given = ["pron=he,she", "quotes=\"',`"]
    expected = {"pron": ["he", "she"], "quotes": ["\"'", "`"]}
    assert build_options(kind, {"token_classes": given}).token_classes == expected
    assert build_options(kind, {"token_classes": expected}).token_classes == expected
    with pytest.raises(StudyError, match="at least one token"):
        build_options(kind, {"token_classes": ["pron"]})
    with pytest.raises(StudyError, match="a class needs a name other than cls"):
        kind(token_classes={"sep": ["x"]})


@pytest.mark.parametrize(
    "heads", ["3-5,8-10", ["3-5", "8-10"], ((2, 4), (7, 9)), [[2, 4], [7, 9]], [(2, 4), "8-10"]]
)
def test_heads_are_read_from_names_pairs_and_json(heads: Any) -> None:
    assert read_heads(heads) == ((2, 4), (7, 9))
    assert build_options(Ablation, {"heads": heads}) == Ablation(((2, 4), (7, 9)))
    assert hash(Ablation(heads)) == hash(Ablation("3-5, 8-10"))  # type: ignore[arg-type]


def test_no_heads_are_all_heads() -> None:
    assert Ablation().heads is None


@pytest.mark.parametrize("heads", ["3x5", "", "3-5,", "0-1", [3, 5], [(1, 2, 3)], [(-1, 0)], [], 7])
def test_heads_that_cannot_be_read_are_an_error_that_says_how(heads: Any) -> None:
    with pytest.raises(StudyError, match=r"heads.* cannot be read.*e\.g\. heads=.3-5,8-10"):
        build_options(Ablation, {"heads": heads})


def widest(**weights: float) -> pd.DataFrame:
    rows = [
        {"layer": 1, "head": head, "weight": weight, "low": weight - 0.02, "high": weight + 0.02}
        for head, weight in enumerate(weights.values(), start=1)
    ]
    return pd.DataFrame(rows)


def test_broad_heads_are_judged_by_their_rows() -> None:
    (claim,) = MAX_WEIGHT.specs(Claim)
    entropy = pd.DataFrame({"layer": 1, "head": [1, 2], "rows": "all", "share": [0.3, 0.9]})
    entropy = entropy.assign(share_low=entropy["share"] - 0.05, share_high=entropy["share"] + 0.05)
    for flat, verdict in ((0.9, "holds"), (0.3, "does not hold"), (0.52, "undecided")):
        table = widest(a=0.5, b=0.05).assign(flat_rows=[1.0, flat])  # the first is not broad
        table = table.assign(
            flat_low=table["flat_rows"] - 0.05, flat_high=table["flat_rows"] + 0.05
        )
        found = claim.check({"max-weight": table, "entropy": entropy})
        assert found.verdict == verdict
        n_sure = int(verdict == "holds")
        assert found.shows.startswith(f"{n_sure} of the 1 broad heads have at most 10 %")
    none = claim.check({"max-weight": table, "entropy": entropy.assign(share_low=0.1)})
    assert none.verdict == "not measured"


def test_a_row_that_sees_few_tokens_cannot_be_flat_and_does_not_count() -> None:
    encoding = encode_words(make_example(0, n_words=18), lambda word, place: 1)
    weights = torch.ones(1, 1, 20, 20).tril()
    weights = weights / weights.sum(-1, keepdim=True)
    weights[..., 15, :] = 0
    weights[..., 15, 0] = 1
    visible = torch.arange(20) + 1
    values = measure(MaxWeight(), LayerAttention(0, weights, Batch((encoding,)), visible))
    assert (values["flat"].item(), values["rows"].item()) == (10, 11)


def test_the_largest_weight_is_on_the_card_and_in_the_figure() -> None:
    tables = {"max-weight": widest(a=0.5, b=0.05)}
    (maker,) = MAX_WEIGHT.specs(FactMaker)
    assert [fact.text for _, fact in maker.make(tables)] == [
        "50.0 % [48.0-52.0] on average (rank 1 of 2)",
        "5.0 % [3.0-7.0] on average (rank 2 of 2)",
    ]
    (figure,) = MAX_WEIGHT.specs(Figure)
    chart: Any = figure.draw(tables)
    (rows,) = chart.to_dict()["datasets"].values()
    assert [row["weight"] for row in rows] == [0.5, 0.05]


def test_behaviours_stand_in_the_order_of_the_analyses() -> None:
    found = [(behaviour.name, behaviour.ranking) for behaviour in list_specs(Behaviour)]
    assert found == [
        ("previous token", "previous"),
        ("next token", "next"),
        ("same token", "self"),
        ("opening token (cls)", "cls"),
        ("closing tokens (sep)", "sep"),
        ("learned sink", "sink"),
        ("first token (sink)", "first"),
        ("period and comma", "punctuation"),
        ("token class <each>", ""),
        ("special and punctuation", ""),
        ("everything, broadly", "broad"),
        ("induction", "induction"),
        ("duplicate token", "duplicate"),
        ("retrieval", ""),
        ("far away", "far"),
        ("source in order", "in order"),
        ("source backwards", "backwards"),
    ]
    background = [one.name for one in list_specs(Behaviour) if one.is_background]
    assert background == ["special and punctuation", "everything, broadly"]
