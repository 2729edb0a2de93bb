"""What the analyses of section 3 measure, and how their options are read."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from headscope.analyses.ablation.measure import Ablation, read_heads
from headscope.analyses.entropy.measure import Entropy
from headscope.analyses.gradient.measure import Gradient
from headscope.analyses.max_weight.measure import MaxWeight
from headscope.analyses.max_weight.show import PRESENTATION as MAX_WEIGHT
from headscope.analyses.position.measure import Position
from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.data.attention import LayerAttention, LayerGradient
from headscope.data.encoding import Batch
from headscope.errors import StudyError
from headscope.options import build_options, collect_options
from headscope.stats.bucket import bucket_of
from headscope.stats.tally import Tally
from headscope.view.behaviour import list_behaviours
from tests.making import encode_words, make_example, random_maps
from tests.references import assert_equals_reference

EXAMPLES = [make_example(seed) for seed in range(12)]
ENCODINGS = [encode_words(example) for example in EXAMPLES]
MAPS = [random_maps(encoding) for encoding in ENCODINGS]


def tally_of(analysis: Any) -> Tally:
    """Every example alone, each counted once."""
    tally = Tally()
    for encoding, maps in zip(ENCODINGS, MAPS, strict=True):
        batch = Batch((encoding,))
        layers = []
        for layer, weights in enumerate(maps):
            if isinstance(analysis, Gradient):
                layers.append(analysis.measure(LayerGradient(layer, weights[None], batch)))
            else:
                layers.append(analysis.measure(LayerAttention.full(layer, weights[None], batch)))
        values = {name: torch.stack([one[name] for one in layers], dim=1) for name in layers[0]}
        bucket = np.array([bucket_of(encoding.example.own_document)])
        tally.add(bucket, {name: value.numpy() for name, value in values.items()})
    return tally


@pytest.mark.parametrize(
    "analysis", [Position(), SpecialTokens(), Entropy(), MaxWeight(), Gradient()]
)
def test_tables_equal_the_slow_reference(analysis: Any) -> None:
    tables = analysis.summarize(tally_of(analysis))
    assert {name: tuple(table.columns) for name, table in tables.items()} == analysis.tables
    maps = [maps.numpy() for maps in MAPS]
    assert_equals_reference(tables[analysis.name], analysis.name, maps, ENCODINGS)


def test_a_gradient_counts_only_pairs_that_have_a_weight() -> None:
    """In a decoder a key is seen by itself and by what follows."""
    (encoding, n) = ENCODINGS[0], len(ENCODINGS[0])
    is_visible = torch.ones(n, n).tril().bool()
    gradient = LayerGradient(0, MAPS[0][:1] * is_visible, Batch((encoding,)), is_visible)
    found = Gradient().measure(gradient)
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
    with pytest.raises(StudyError, match=r"heads.* cannot be read.*for example heads=.3-5,8-10"):
        build_options(Ablation, {"heads": heads})


def widest(**weights: float) -> pd.DataFrame:
    rows = [
        {"layer": 1, "head": head, "weight": weight, "low": weight - 0.02, "high": weight + 0.02}
        for head, weight in enumerate(weights.values(), start=1)
    ]
    return pd.DataFrame(rows)


def test_a_flat_head_has_a_small_largest_weight() -> None:
    (claim,) = MAX_WEIGHT.claims
    found = claim.check({"max-weight": widest(a=0.5, b=0.05)})
    assert found.verdict == "holds"
    assert found.shows == (
        "1 of 2 heads have a mean largest weight of at most 10 %; the lowest is 5.0 % [3.0-7.0], "
        "of head 1-2."
    )
    open_one = claim.check({"max-weight": widest(a=0.5, b=0.11)})
    assert open_one.verdict == "undecided"
    assert open_one.shows.endswith("1 more head has 10 % within the interval.")


def test_the_largest_weight_is_on_the_card_and_in_the_figure() -> None:
    tables = {"max-weight": widest(a=0.5, b=0.05)}
    (maker,) = MAX_WEIGHT.facts
    assert [fact.text for _, fact in maker.make(tables)] == [
        "50.0 % [48.0-52.0] in the mean (rank 1 of 2)",
        "5.0 % [3.0-7.0] in the mean (rank 2 of 2)",
    ]
    (figure,) = MAX_WEIGHT.figures
    chart: Any = figure.draw(tables)
    (rows,) = chart.to_dict()["datasets"].values()
    assert [row["weight"] for row in rows] == [0.5, 0.05]


def test_behaviours_stand_in_the_order_of_the_analyses() -> None:
    found = [(behaviour.name, behaviour.ranking) for behaviour in list_behaviours()]
    assert found == [
        ("previous token", "previous"),
        ("next token", "next"),
        ("same token", "self"),
        ("opening token (cls)", "cls"),
        ("closing tokens (sep)", "sep"),
        ("first token (sink)", "first"),
        ("period and comma", "punctuation"),
        ("everything, broadly", "broad"),
    ]
    assert [one.name for one in list_behaviours() if one.is_background] == ["everything, broadly"]
