"""Every claim is seen where it was planted, denied where it was not, and never breaks."""

from collections.abc import Callable, Mapping
from math import log, nan

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest

from headscope.analyses.entropy import Entropy
from headscope.analyses.gradient import Gradient
from headscope.analyses.position import Position
from headscope.analyses.special_tokens.claims import check_alike, check_frequent
from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.data.depth import like_paper
from headscope.runs.tables import make_tables
from headscope.stats.interval import Estimate
from headscope.stats.sums import Tally
from headscope.view.claim import Finding, check_claims, list_claims, sum_up
from headscope.view.judge import (
    Claim,
    Passing,
    Replicated,
    all_of,
    fill_exact,
    judge,
    judge_count,
    judge_depth,
    passing,
)

Tables = dict[str, pd.DataFrame]
CLAIMS = list_claims()
N_LAYERS, N_HEADS, N_DOCUMENTS = 12, 3, 9
UNIFORM = log(128)
ONES = np.arange(64) < N_DOCUMENTS


def spread(value: float, width: float = 0.01) -> dict[str, float]:
    return {"low": value - width, "high": value + width}


def heads(n_layers: int = N_LAYERS) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(1, n_layers + 1) for head in range(1, N_HEADS + 1)]


def scatter(values: np.ndarray, width: float) -> np.ndarray:
    """The values of a few documents, each in a bucket of its own, around those given."""
    documents = np.zeros((64, *values.shape))
    noise = np.random.default_rng(0).uniform(-width, width, (N_DOCUMENTS, *values.shape))
    documents[:N_DOCUMENTS] = values + noise
    return documents


def tally_of(name: str, values: np.ndarray, width: float) -> Tally:
    """What segments with about these values add up to, one in each document."""
    return Tally({name: scatter(values, width), "segments": ONES})


def position(planted: Mapping[tuple[int, int, str], float], rest: float = 0.05) -> Tables:
    targets = ("previous", "self", "next")
    values = np.full((N_LAYERS, N_HEADS, len(targets)), rest)
    for (layer, head, target), weight in planted.items():
        values[layer - 1, head - 1, targets.index(target)] = weight
    return make_tables(Position(), tally_of("weight", values, 0.005))


def special(
    weight: Callable[[int, str, str], float], n_layers: int = N_LAYERS, width: float = 0.005
) -> Tables:
    """`weight` of a layer, a source and a target."""
    sources, targets = ("all", "sep", "other"), ("cls", "sep", "first", "punctuation", "other")
    values = np.array(
        [
            [[[weight(layer, s, t) for t in targets] for s in sources]] * N_HEADS
            for layer in range(1, n_layers + 1)
        ]
    )
    tally = tally_of("weight", np.nan_to_num(values), width)
    is_there = ~np.isnan(values[0, 0, :, 0])  # [source]
    counts = {"segments": ONES[:, None] * is_there, "marks": np.zeros((64, 2))}
    counts |= {"others": np.zeros((64, 3)), "tokens": np.zeros(64)}
    tally.totals["weight"][:, values == 0] = 0  # what a model has not is exactly zero
    return make_tables(SpecialTokens(), Tally({**tally.totals, **counts}))


def by_layer(target: str, layers: range, high: float = 0.7, low: float = 0.1) -> Tables:
    """High attention to a target in some layers."""
    return special(lambda layer, _, to: high if to == target and layer in layers else low)


def from_sep(own: float, others: float) -> Tables:
    return special(lambda _, source, to: own if source == "sep" and to == "sep" else others)


def gradient(
    lower: float, upper: float, other: float, sink: str = "sep", first: int = 5, width: float = 0.01
) -> Tables:
    targets = ("cls", "sep", "first", "punctuation", "other")
    values = np.zeros((N_LAYERS, N_HEADS, len(targets)))
    values[: first - 1, :, targets.index(sink)] = lower
    values[first - 1 :, :, targets.index(sink)] = upper
    values[..., targets.index("other")] = other
    size = scatter(values, 0) * np.random.default_rng(0).uniform(1 - width, 1 + width, values.shape)
    noise = np.random.default_rng(1).uniform(1 - width, 1 + width, size.shape)
    pairs = scatter((values[:, 0] > 0).astype(float), 0)
    size = size * noise
    return make_tables(Gradient(), Tally({"size": size, "pairs": pairs}))


def entropy(
    broad: set[tuple[int, int]],
    cls: Callable[[int], float] | None = None,
    n_layers: int = N_LAYERS,
) -> Tables:
    """Broad heads, and the share of even attention from the first token of a layer."""
    values = np.zeros((n_layers, N_HEADS, 2))
    for layer, head in heads(n_layers):
        share = 0.9 if (layer, head) in broad else 0.4
        values[layer - 1, head - 1] = share, cls(layer) if cls else share
    tally = tally_of("nats", values * UNIFORM, 0.05)
    segments = ONES[:, None] * np.ones(2)
    uniform = segments[:, None] * np.full((n_layers, 1), UNIFORM)
    both = {"segments": segments, "uniform": uniform}
    return make_tables(Entropy(), Tally({**tally.totals, **both}))


def max_weight(flat_rows: float) -> Tables:
    """One broad head, and in how many of its rows no token gets much."""
    rows = [
        {"layer": layer, "head": head, "weight": 0.4, **spread(0.4), "flat_rows": 0.01}
        for layer, head in heads()
    ]
    rows[0]["flat_rows"] = flat_rows
    table = pd.DataFrame(rows)
    ends = {"flat_low": table["flat_rows"] - 0.01, "flat_high": table["flat_rows"] + 0.01}
    return {"max-weight": table.assign(**ends), **entropy({(1, 1)})}


def sinks(first: float, is_sink: float) -> Tables:
    """What the first token gets in each layer, and how many heads have a sink there."""
    rows = [{"layer": layer, "head": head, "even": 0.04} for layer, head in heads()]
    layers = [{"layer": layer, "first": first, **spread(first)} for layer in range(1, 5)]
    model = pd.DataFrame([{"is_sink": is_sink, **spread(is_sink)}])
    tables = {"sinks": pd.DataFrame(rows), "sinks-layers": pd.DataFrame(layers)}
    return {**tables, "sinks-model": model}


def induction(weight: float) -> Tables:
    """One head that follows the pattern so much."""
    rows = [
        {"layer": layer, "head": head, "pattern": "induction", "weight": 0.02, **spread(0.02)}
        for layer, head in heads()
    ]
    rows[0] |= {"weight": weight, **spread(weight)}
    return {"induction": pd.DataFrame(rows)}


def retrieval(n_heads: int) -> Tables:
    """So many of a hundred heads copy."""
    places = [(layer, head) for layer in range(1, 11) for head in range(1, 11)]
    rows = [
        {"layer": layer, "head": head, "copied": value, **spread(value)}
        for value, (layer, head) in zip([0.5] * n_heads + [0.02] * 100, places, strict=False)
    ]
    trials = pd.DataFrame({"trials": [20], "answered": [18]})
    return {"retrieval": pd.DataFrame(rows), "retrieval-trials": trials}


def loss_of_copies(fall: float) -> Tables:
    losses = {"first": 9.0, "second": 9.0 - fall, "first - second": fall}
    rows = [{"copy": copy, "loss": loss, **spread(loss)} for copy, loss in losses.items()]
    return {"induction-loss": pd.DataFrame(rows)}


def proof(lost: float) -> Tables:
    """Which share of the gain is lost without the best heads; without others a twentieth."""
    rows = [
        {"heads": heads, "lost": share, "lost_low": share - 0.01, "lost_high": share + 0.01}
        for heads, share in {"best": lost, "random": 0.05, "best - random": lost - 0.05}.items()
    ]
    return {"induction-proof": pd.DataFrame(rows).assign(chosen="1-1 1-2")}


def split_words(share: float) -> Tables:
    return {
        "word-pieces": pd.DataFrame(
            [{"words": 900, "split": share, **spread(share), "pieces": 1.2}]
        )
    }


def frequency(period: int, comma: int) -> Tables:
    rows = [
        {"token": name, "share": 0.04, **spread(0.04), "rank": rank}
        for name, rank in {"period": period, "comma": comma}.items()
    ]
    return {"token-frequency": pd.DataFrame(rows)}


def test_a_text_without_periods_and_commas_has_none_that_are_frequent() -> None:
    tables = frequency(2, 2)
    tables["token-frequency"]["share"] = 0.0  # of one other word
    assert check_frequent(tables).verdict == "does not hold"


def parts_of_speech(not_nouns: float, sink: str = "sep") -> Tables:
    """What words attend to in the head that finds direct objects, 2-1."""
    rows = [
        {"layer": 2, "head": 1, "source": source, "target": target, "weight": w, **spread(w)}
        for source, share in {"nouns": 0.1, "not nouns": not_nouns}.items()
        for target, w in {sink: share, "other": 1 - share}.items()
    ]
    return {
        "parts-of-speech": pd.DataFrame(rows),
        "dependency-best": best(relation("obj", 0.9))["dependency-best"],
    }


def possessives(by_word: float, by_mark: float) -> Tables:
    return best(
        relation("poss", 0.9),
        relation("poss (before 's)", by_word),
        relation("poss (by the 's)", by_mark),
    )


def with_special(lost: float) -> Tables:
    rows = [
        {
            "direction": way,
            "layer": layer,
            "head": head,
            "accuracy": 0.3,
            "with_special": 0.3 - lost,
        }
        | {"difference": -lost, "low": -lost - 0.001, "high": -lost + 0.001}
        for layer, head in heads()
        for way in ("dependent-to-head", "head-to-dependent")
    ]
    return {"dependency-special": pd.DataFrame(rows)}


def lengths(link: float, arc: float) -> Tables:
    links = [{"mention_type": "all", "words": link, **spread(link)}]
    arcs = [{"relation": "all (no punct or root)", "words": arc, **spread(arc)}]
    return {"coreference-length": pd.DataFrame(links), "dependency-length": pd.DataFrame(arcs)}


def ends(divergence: float) -> Tables:
    """Three layers; the first and the last are this far apart, any two 0.3."""
    gap = divergence - 0.3
    row = {"ends": divergence, **spread(divergence), "between": 0.3, "difference": gap}
    row |= {"difference_low": gap - 0.01, "difference_high": gap + 0.01}
    by_layer = layers(0.2, 0.3, 0.001)["distance-layers"]
    both = pd.concat([by_layer, *(by_layer.iloc[1:].assign(layer=n) for n in (2, 3))])
    return {"distance-ends": pd.DataFrame([row]), "distance-layers": both}


def relation(
    name: str, accuracy: float, offset: float = 0.3, backward: float = 0.1, **other: object
) -> dict[str, object]:
    """A relation, as its best head finds it; `backward` read from the head."""
    gap = accuracy - offset
    return {
        "relation": name,
        "count": 500,
        "layer": 2,
        "head": 1,
        "direction": "dependent-to-head",
        "accuracy": accuracy,
        **spread(accuracy),
        "heldout_accuracy": accuracy,
        "heldout_low": accuracy - 0.01,
        "heldout_high": accuracy + 0.01,
        "chosen_in": 8,
        "folds": 8,
        "offset": 1,
        "baseline_accuracy": offset,
        "heldout_difference": gap,
        "difference_low": gap - 0.01,
        "difference_high": gap + 0.01,
        "p_value": 0.001 if gap > 0 else 0.9,
        "backward": backward,
        **other,
    }


def best(*rows: dict[str, object]) -> Tables:
    """The best heads, every head's accuracy (of the one head there is), and both directions."""
    table = pd.DataFrame(rows)
    labels = ["treebank"] if "treebank" in table else []
    columns = [*labels, "relation", "direction", "layer", "head", "count", "accuracy"]
    gap = table["accuracy"] - table["backward"]
    directions = table[[*labels, "relation", "count"]].assign(
        dependent_to_head=table["accuracy"],
        head_to_dependent=table["backward"],
        difference=gap,
        low=gap - 0.01,
        high=gap + 0.01,
    )
    return {
        "dependency-best": table.drop(columns="backward"),
        "dependency": table[[*columns, "low", "high"]],
        "dependency-directions": directions,
    }


def learned(accuracy: float) -> Tables:
    """Two relations beside an untrained model that finds 30 % of them."""
    gap = accuracy - 0.3
    columns = {
        "untrained_accuracy": 0.3,
        "untrained_difference": gap,
        "untrained_difference_low": gap - 0.02,
        "untrained_difference_high": gap + 0.02,
    }
    return best(*(relation(name, accuracy, **columns) for name in ("det", "obj")))


def coreference(own: dict[str, float], match: float, rules: dict[str, float]) -> Tables:
    rows = [
        {
            "mention_type": kind,
            "candidates": "mentions",
            "count": 100,
            "layer": 2,
            "head": 1,
            "direction": "mention-to-antecedent",
            "accuracy": accuracy,
            **spread(accuracy),
            "heldout_accuracy": accuracy,
            "heldout_low": accuracy - 0.01,
            "heldout_high": accuracy + 0.01,
            "chosen_in": 8,
            "folds": 8,
            "nearest": 0.2,
            "head_match": match,
            "rule_based": rules[kind],
            "heldout_difference": accuracy - rules[kind],
            "difference_low": accuracy - rules[kind] - 0.01,
            "difference_high": accuracy - rules[kind] + 0.01,
        }
        for kind, accuracy in own.items()
    ]
    gains = {kind: own[kind] - rules[kind] for kind in own}
    differences = {("all", "head-match"): own["all"] - match}
    differences |= {(kind, "rule-based"): gain for kind, gain in gains.items()}
    for other in ("pronoun", "proper"):
        differences[f"nominal - {other}", "rule-based"] = gains["nominal"] - gains[other]
    contrasts = [
        {"candidates": "mentions", "mention_type": kind, "than": rule, "difference": gap}
        | spread(gap)
        for (kind, rule), gap in differences.items()
    ]
    return {
        "coreference-best": pd.DataFrame(rows),
        "coreference-contrasts": pd.DataFrame(contrasts),
    }


def mentions(total: float, nominal: float = 0.5) -> dict[str, float]:
    return {"all": total, "pronoun": 0.5, "proper": 0.5, "nominal": nominal}


def probes(**uas: float) -> Tables:
    rows = [
        {"probe": name.replace("_", "-"), "uas": value, **spread(value)}
        for name, value in uas.items()
    ]
    gaps = [  # each probe minus those before it, as runs write them
        {"probe": one["probe"], "other": other["probe"], **gap(one["uas"] - other["uas"])}
        for place, one in enumerate(rows)
        for other in rows[:place]
    ]
    return {"probes": pd.DataFrame(rows), "probe-differences": pd.DataFrame(gaps)}


def gap(value: float, width: float = 0.01) -> dict[str, float]:
    return {"difference": value, **spread(value, width)}


PAPER_PROBES = {
    "right_branching": 0.26,
    "distances_and_words": 0.58,
    "random_init_attention_and_words": 0.30,
    "attention_only": 0.61,
    "attention_and_words": 0.77,
}


def paper_and_other(**changed: float) -> tuple[Tables, Tables]:
    """The paper's probes, and those in which one is otherwise."""
    return probes(**PAPER_PROBES), probes(**PAPER_PROBES | changed)


def layers(within: float, between: float, p_value: float) -> Tables:
    row: dict[str, object] = {"layer": None, "within": within, "between": between}
    for name, value in {"within": within, "between": between}.items():
        row |= {f"{name}_low": value - 0.01, f"{name}_high": value + 0.01}
    gap = between - within
    row |= {"difference": gap, "difference_low": gap - 0.01, "difference_high": gap + 0.01}
    rows = [{**row, "p_value": p_value}, {**row, "layer": 1, "p_value": p_value}]
    return {"distance-layers": pd.DataFrame(rows).astype({"layer": "Int64"})}


def layout(is_by_behaviour: bool) -> Tables:
    kinds = [("previous token", "everything, broadly", "det")[i % 3] for i in range(36)]
    clusters = [i % 3 + 1 if is_by_behaviour else i // 12 + 1 for i in range(36)]
    rows = [
        {"layer": layer, "head": head, "cluster": cluster, "behaviour": kind}
        for (layer, head), cluster, kind in zip(heads(), clusters, kinds, strict=True)
    ]
    return {"layout": pd.DataFrame(rows)}


# Of every claim: tables where it holds, and tables where it does not.
PLANTED: dict[str, tuple[Tables, Tables]] = {
    "little-attention-to-itself": (
        position({(1, 1, "self"): 0.9}),
        position({(layer, head, "self"): 0.3 for layer, head in heads()[:20]}),
    ),
    "previous-token-heads": (position({(2, 1, "previous"): 0.6}), position({(2, 1, "next"): 0.6})),
    "next-token-heads": (position({(2, 1, "next"): 0.6}), position({(2, 1, "previous"): 0.6})),
    "neighbour-heads-are-early": (
        position({(2, 1, "next"): 0.6, (3, 1, "previous"): 0.7, (9, 1, "next"): 0.6}),
        position({(2, 1, "next"): 0.6, (8, 1, "previous"): 0.7, (9, 1, "next"): 0.6}),
    ),
    "half-on-sep": (by_layer("sep", range(6, 11)), by_layer("sep", range(1, 6))),
    "sep-rises-at-layer-5": (by_layer("sep", range(5, 13)), by_layer("sep", range(9, 13))),
    "early-heads-look-at-cls": (by_layer("cls", range(1, 5)), by_layer("cls", range(5, 9))),
    "middle-heads-look-at-sep": (by_layer("sep", range(5, 9)), by_layer("sep", range(9, 13))),
    "deep-heads-look-at-punctuation": (
        by_layer("punctuation", range(9, 13)),
        by_layer("punctuation", range(1, 5)),
    ),
    "often-over-half-on-few-tokens": (
        by_layer("sep", range(5, 9)),
        by_layer("sep", range(1, 2)),
    ),
    "sep-looks-at-sep": (from_sep(0.95, 0.3), from_sep(0.8, 0.3)),
    "more-to-sep-from-sep": (from_sep(0.6, 0.3), from_sep(0.1, 0.3)),
    "periods-and-commas-are-frequent": (frequency(3, 2), frequency(1, 4)),
    "gradient-to-sep-is-small": (gradient(0.1, 0.01, 0.1), gradient(0.1, 0.08, 0.1)),
    "gradient-to-sep-falls": (gradient(0.1, 0.01, 0.1), gradient(0.1, 0.01, 0.1, first=9)),
    "not-nouns-look-at-sep": (parts_of_speech(0.7), parts_of_speech(0.3)),
    "broad-heads": (entropy({(7, 1)}), entropy(set())),
    "broad-heads-are-low": (entropy({(1, 1), (2, 1), (9, 1)}), entropy({(1, 1), (8, 1), (9, 1)})),
    "first-layer-is-broad": (entropy({(1, 2), (7, 1)}), entropy({(2, 2)})),
    "cls-is-broad-in-the-last-layer": (
        entropy(set(), lambda layer: 0.8 if layer == 12 else 0.4),
        entropy(set(), lambda layer: 0.7 if layer == 12 else 0.9),
    ),
    "cls-is-like-others-below": (
        entropy(set(), lambda layer: 0.8 if layer == 12 else 0.45),
        entropy(set(), lambda layer: 0.4 if layer < 6 else 0.8),
    ),
    "at-most-a-tenth-on-a-word": (max_weight(0.8), max_weight(0.2)),
    "special-tokens-change-little": (with_special(0.004), with_special(0.02)),
    "few-words-are-split": (split_words(0.08), split_words(0.3)),
    "no-head-parses": (best(relation("all", 0.345)), best(relation("all", 0.45))),
    "heads-are-specialists": (
        best(
            *(relation(name, 0.9, head=head) for head, name in enumerate(("det", "obj", "amod"))),
            relation("nsubj", 0.5, head=1),
        ),
        best(relation("det", 0.9), relation("obj", 0.8), relation("amod", 0.5)),
    ),
    "finds-direct-objects": (best(relation("obj", 0.8)), best(relation("dobj", 0.7))),
    "finds-determiners": (best(relation("det", 0.8)), best(relation("det", 0.7))),
    "finds-objects-of-prepositions": (best(relation("pobj", 0.8)), best(relation("pobj", 0.7))),
    "finds-possessives": (best(relation("nmod:poss", 0.8)), best(relation("poss", 0.7))),
    "finds-passive-auxiliaries": (best(relation("aux:pass", 0.8)), best(relation("auxpass", 0.7))),
    "heads-beat-offsets": (
        best(relation("det", 0.9), relation("obj", 0.3)),
        best(relation("det", 0.9, offset=0.85), relation("obj", 0.3)),
    ),
    "many-relations-gain-little": (
        best(relation("det", 0.9), relation("nn", 0.35)),
        best(relation("det", 0.9), relation("nn", 0.5)),
    ),
    "dependents-look-at-heads": (
        best(relation("det", 0.9), relation("pobj", 0.5, backward=0.9)),
        best(relation("det", 0.5, backward=0.9), relation("pobj", 0.9)),
    ),
    "prepositions-look-at-objects": (
        best(relation("pobj", 0.5, backward=0.9)),
        best(relation("pobj", 0.9)),
    ),
    "possessive-s-stands-for-its-word": (possessives(0.2, 0.9), possessives(0.8, 0.7)),
    "relations-are-learned": (learned(0.9), learned(0.2)),
    "coreference-beats-head-match": (
        coreference(mentions(0.65), 0.52, mentions(0.69)),
        coreference(mentions(0.60), 0.52, mentions(0.69)),
    ),
    "coreference-is-near-rules": (
        coreference(mentions(0.66), 0.52, mentions(0.69)),
        coreference(mentions(0.60), 0.52, mentions(0.69)),
    ),
    "coreference-is-good-with-nominals": (
        coreference(mentions(0.65, nominal=0.58), 0.52, mentions(0.69, nominal=0.5)),
        coreference(mentions(0.65, nominal=0.48), 0.52, mentions(0.69, nominal=0.5)),
    ),
    "links-are-longer-than-arcs": (lengths(19.0, 3.0), lengths(2.0, 3.0)),
    "probe-beats-baselines": paper_and_other(distances_and_words=0.76),
    "probe-parses-well": paper_and_other(attention_and_words=0.6),
    "words-help-the-probe": paper_and_other(attention_only=0.8),
    "attention-alone-beats-distances": paper_and_other(attention_only=0.5),
    "syntax-comes-from-training": paper_and_other(random_init_attention_and_words=0.75),
    "layers-attend-alike": (layers(0.2, 0.3, 0.001), layers(0.3, 0.2, 0.9)),
    "first-and-last-layer-attend-alike": (ends(0.1), ends(0.5)),
    "heads-cluster-by-behaviour": (layout(True), layout(False)),
    "many-heads-have-a-sink": (sinks(0.5, 0.6), sinks(0.5, 0.05)),
    "induction-heads": (induction(0.8), induction(0.2)),
    "repeated-tokens-are-predicted": (loss_of_copies(2.0), loss_of_copies(-0.1)),
    "induction-heads-carry-the-gain": (proof(0.8), proof(0.2)),
    "retrieval-heads-are-few": (retrieval(1), retrieval(9)),
    "first-token-is-a-sink": (sinks(0.5, 0.6), sinks(0.05, 0.6)),
}


def find(name: str, tables: Tables) -> Finding:
    return next(finding for finding in check_claims(tables) if finding.claim.name == name)


def test_every_claim_is_tested() -> None:
    assert list(PLANTED) == [claim.name for claim in CLAIMS]


@pytest.mark.parametrize("name", PLANTED)
def test_a_claim_holds_where_it_is_planted_and_not_elsewhere(name: str) -> None:
    holds, fails = PLANTED[name]
    assert find(name, holds).verdict == "holds", find(name, holds).shows
    assert find(name, fails).verdict == "does not hold", find(name, fails).shows


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_without_its_tables_says_what_measures_it(claim: Claim) -> None:
    for tables in ({}, {name: pd.DataFrame() for name in claim.needs}):
        found = find(claim.name, tables)
        assert found.verdict == "not measured"
        assert f"headscope analyze MODEL {claim.made_by}" in found.shows


NOT_BY_INTERVAL = ("heads-cluster-by-behaviour", "periods-and-commas-are-frequent")


@pytest.mark.parametrize("name", [name for name in PLANTED if name not in NOT_BY_INTERVAL])
def test_without_intervals_nothing_is_decided(name: str) -> None:
    """As of a single document, of which nothing can be left out."""
    for tables in PLANTED[name]:
        bare = {
            key: table.assign(**{c: nan for c in map(str, table) if c.endswith(("low", "high"))})
            for key, table in tables.items()
        }
        found = find(name, bare)
        assert found.verdict in ("undecided", "not measured"), found.shows
        assert "nan" not in found.shows


def test_a_model_of_one_layer_breaks_nothing() -> None:
    one = {**special(lambda *_: 0.2, n_layers=1), **entropy({(1, 1)}, n_layers=1)}
    one |= {key: table[table["layer"] == 1] for key, table in position({}).items()}
    found = {finding.claim.name: finding for finding in check_claims(one)}
    assert not any("nan" in finding.shows for finding in found.values())
    for name in ("neighbour-heads-are-early", "sep-rises-at-layer-5", "cls-is-like-others-below"):
        assert found[name].verdict == "not measured"
        assert "one layer" in found[name].shows


def test_in_a_decoder_the_first_token_stands_for_sep() -> None:
    def weight(layer: int, source: str, target: str) -> float:
        return nan if source == "sep" else {"first": 0.7, "other": 0.3}.get(target, 0.0)

    decoder = special(weight)
    found = find("half-on-sep", decoder)
    assert found.verdict == "holds"
    assert "The claim is tested on its first token instead" in found.shows
    assert "70.0 %" in found.shows
    for name in ("sep-looks-at-sep", "more-to-sep-from-sep", "middle-heads-look-at-sep"):
        assert find(name, decoder).verdict == "not measured"
    small = find("gradient-to-sep-is-small", gradient(0.1, 0.01, 0.1, sink="first"))
    assert small.verdict == "holds"
    assert "first token" in small.shows


def test_a_decoder_is_not_blamed_for_not_looking_ahead() -> None:
    table = position({})["position"]
    table.loc[table["target"] == "next", ["weight", "low", "high"]] = 0.0
    assert find("next-token-heads", {"position": table}).verdict == "not measured"


@pytest.mark.parametrize(
    "name",
    [
        "dependents-look-at-heads",
        "prepositions-look-at-objects",
        "possessive-s-stands-for-its-word",
    ],
)
def test_what_the_mask_decides_is_not_measurable_in_a_causal_model(name: str) -> None:
    tables = {key: table.copy() for key, table in PLANTED[name][0].items()}
    seen = {"dependent-to-head": 0.3, "head-to-dependent": 0.7}
    rows = [relation("all (no punct or root)", 0.3, direction=way) for way in seen]
    both = pd.concat([tables["dependency"], best(*rows)["dependency"]])
    tables["dependency"] = both.assign(visible_share=both["direction"].map(seen))
    found = find(name, tables)
    assert found.verdict == "not measured"
    assert found.shows.startswith("Not measurable in a causal model: ")


def test_a_model_without_cls_is_told_so() -> None:
    tables = {name: t[t["rows"] == "all"] for name, t in entropy(set()).items()}
    found = find("cls-is-like-others-below", tables)
    assert found.verdict == "not measured"
    assert "no opening token" in found.shows


def test_words_that_are_no_nouns_look_at_the_first_token_of_a_decoder() -> None:
    found = find("not-nouns-look-at-sep", parts_of_speech(0.8, sink="first"))
    assert found.verdict == "holds"
    assert "The claim is tested on its first token instead" in found.shows


def test_coreference_is_judged_in_truncated_documents_where_there_are_any() -> None:
    own, other = (coreference(mentions(a), 0.5, mentions(0.6)) for a in (0.65, 0.3))
    both = {
        key: pd.concat([other[key].assign(cut="split"), own[key].assign(cut="truncate")])
        for key in own
    }
    found = find("coreference-beats-head-match", both)
    assert found.verdict == "holds"
    assert "Documents truncated, as in the paper" in found.shows


def test_the_first_token_of_a_decoder_has_no_breadth_to_judge() -> None:
    tables = entropy(set())
    layers = tables["entropy-layers"]
    layers.loc[layers["rows"] != "all", ["share", "share_low", "share_high"]] = nan
    for name in ("cls-is-broad-in-the-last-layer", "cls-is-like-others-below"):
        assert find(name, tables).verdict == "not measured"


def test_an_interval_around_the_line_is_undecided() -> None:
    found = find("half-on-sep", special(lambda *_: 0.5, width=0.1))
    assert found.verdict == "undecided"
    assert found.shows.endswith("The 95 % interval includes 50.0 %: undecided.")
    assert judge(Estimate(0.6, 0.55, 0.65), 0.5, "").verdict == "holds"
    assert judge(Estimate(0.4, 0.35, 0.45), 0.5, "").verdict == "does not hold"
    assert judge(Estimate(0.4, 0.35, 0.45), 0.5, "", is_above=False).verdict == "holds"
    assert judge(Estimate(0.6, nan, nan), 0.5, "").verdict == "undecided"
    assert judge(Estimate(nan, nan, nan), 0.5, "").verdict == "not measured"


def rows(*weights: tuple[float, float, float]) -> pd.DataFrame:
    numbers = pd.DataFrame(list(weights), columns=["weight", "low", "high"])
    return numbers.assign(layer=range(1, len(weights) + 1), head=1)


def test_heads_count_as_sure_or_open_by_their_intervals() -> None:
    table = rows((0.7, 0.6, 0.8), (0.6, 0.4, 0.8), (0.3, 0.2, 0.4), (0.9, nan, nan))
    found = passing(table, 0.5)
    assert list(found.sure["layer"]) == [1]
    assert list(found.open["layer"]) == [2, 4]
    below = passing(table, 0.5, is_above=False)
    assert (list(below.sure["layer"]), list(below.open["layer"])) == ([3], [2, 4])
    verdicts = [judge_count(1, 2, least, "").verdict for least in (1, 2, 3, 4)]
    assert verdicts == ["holds", "undecided", "undecided", "does not hold"]


def test_a_head_that_never_varies_is_exact_where_others_have_intervals() -> None:
    table = position({(2, 1, "previous"): 0.6})["position"]
    planted = table["weight"] > 0.5
    table.loc[planted, ["low", "high"]] = nan
    assert find("previous-token-heads", {"position": table}).verdict == "holds"
    table[["low", "high"]] = nan
    assert find("previous-token-heads", {"position": table}).verdict == "undecided"


def test_heads_that_may_pass_leave_the_place_open() -> None:
    sure = rows(*[(0.7, 0.6, 0.8)] * 12)
    low, high = sure[sure["layer"] == 1], sure[sure["layer"] > 10]
    assert judge_depth(Passing(low, high[:0]), 12, "do").verdict == "holds"
    assert judge_depth(Passing(low, high), 12, "do").verdict == "undecided"
    assert judge_depth(Passing(high, low), 12, "do").verdict == "does not hold"
    assert judge_depth(Passing(low[:0], low), 12, "do").verdict == "undecided"
    assert judge_depth(Passing(low[:0], low[:0]), 12, "do").verdict == "not measured"


def test_all_conditions_must_hold() -> None:
    assert all_of(["holds", "holds"]) == "holds"
    assert all_of(["holds", "undecided"]) == "undecided"
    assert all_of(["undecided", "does not hold"]) == "does not hold"


def test_a_rise_elsewhere_is_told_with_its_layer() -> None:
    found = find("sep-rises-at-layer-5", by_layer("sep", range(9, 13)))
    assert "rises at layer 9 of 12" in found.shows
    slight = find("sep-rises-at-layer-5", by_layer("sep", range(5, 13), high=0.15))
    assert slight.verdict == "does not hold"
    assert "1.5" in slight.shows


def test_what_holds_untrained_says_nothing_about_training() -> None:
    tables = position({(2, 1, "previous"): 0.6})
    untrained = {key: table.assign(draw=1) for key, table in position({}).items()}
    found = {finding.claim.name: finding for finding in check_claims(tables, untrained)}
    own = found["little-attention-to-itself"]
    assert (own.verdict, own.untrained) == ("holds", ("holds",))
    assert "nothing about training" in own.note
    other = found["previous-token-heads"]
    assert (other.verdict, other.untrained, other.note) == ("holds", ("does not hold",), "")
    said = sum_up(list(found.values()))
    assert "Claims of plug-ins" not in said
    assert said.startswith("The paper's claims: 3 of 4 hold, 1 does not hold, 0 undecided, ")
    assert said.endswith("Of those that hold, 1 holds for the untrained model too.")
    assert sum_up(check_claims(tables)).endswith("add --null 1.")


def test_what_is_about_the_data_is_not_judged_untrained() -> None:
    pieces = pd.DataFrame(
        {"words": [900], "pieces": 1.1, "split": 0.05, "low": 0.04, "high": 0.06, "treebank": "a"}
    )
    found = check_claims({"word-pieces": pieces}, {"word-pieces": pieces.assign(draw=1)})
    (own,) = (finding for finding in found if finding.claim.name == "few-words-are-split")
    assert (own.verdict, own.untrained, own.note) == ("holds", (), "")
    assert own.untrained_in_short == "-"
    of_data = {claim.name for claim in CLAIMS if claim.is_of_data}
    assert of_data == {claim.name for claim in CLAIMS if "about the data" in claim.says}


def _profile(weights: Mapping[str, list[float]], seed: int = 1) -> Replicated:
    """A table of two heads a layer, and what it is without each of three documents."""
    rows = [
        {"layer": layer, "head": head, "source": "all", "target": target, "weight": weight}
        for target, own in weights.items()
        for layer, weight in enumerate(own, start=1)
        for head in (1, 2)
    ]
    noise = 0.001 * np.random.default_rng(seed).normal(size=(4, len(rows)))
    noise[0] = 0
    values = np.full((65, len(rows)), np.nan)
    values[:4] = np.array([row["weight"] for row in rows]) + noise
    return Replicated(pd.DataFrame(rows), values)


def test_two_models_attend_alike_where_their_layers_do() -> None:
    rising, falling = [0.1, 0.2, 0.5, 0.6], [0.6, 0.4, 0.2, 0.1]
    one = _profile({"sep": rising, "cls": falling}, seed=0)
    same = check_alike(one, _profile({"sep": [0.0, 0.3, 0.5, 0.9], "cls": falling}))
    assert same.verdict == "holds"
    assert "[CLS] 1.00" in same.shows
    assert check_alike(one, _profile({"sep": falling, "cls": falling})).verdict == "does not hold"
    assert check_alike(one, _profile({"first": rising})).verdict == "not measured"
    one.values[1:] = np.nan  # a single document
    assert check_alike(one, one).verdict == "undecided"


def test_most_draws_decide_what_holds_untrained() -> None:
    some = [position({}), position({}), position({(1, h, "self"): 0.5 for h in (1, 2, 3)}, 0.2)]
    drawn = pd.concat([part["position"].assign(draw=i) for i, part in enumerate(some, start=1)])
    (found,) = (
        finding
        for finding in check_claims(position({}), {"position": drawn})
        if finding.claim.name == "little-attention-to-itself"
    )
    assert found.untrained == ("holds", "holds", "does not hold")
    assert found.untrained_in_short == "holds in 2 of 3 draws"
    assert found.note


def test_layers_scale_with_depth() -> None:
    assert like_paper(6, 10, 24) == list(range(11, 21))
    shallow = special(lambda layer, *_: 0.7 if layer in (3, 4, 5) else 0.1, n_layers=6)
    found = find("half-on-sep", shallow)
    assert found.verdict == "holds"
    assert "layers 3-5 of 6" in found.shows


def test_labels_that_a_treebank_lacks_are_not_held_against_the_model() -> None:
    universal = best(relation("obj", 0.9), relation("case", 0.9))
    found = find("finds-objects-of-prepositions", universal)
    assert found.verdict == "not measured"
    assert "Universal Dependencies" in found.shows
    assert find("finds-direct-objects", universal).verdict == "holds"


def test_rare_relations_are_not_judged() -> None:
    found = find("finds-determiners", best(relation("det", 0.9, count=12)))
    assert found.verdict == "not measured"
    assert "Words of det in the treebank: 12. Expected 50 or more" in found.shows


def test_a_probe_that_was_not_trained_is_named_with_what_trains_it() -> None:
    found = find("probe-beats-baselines", probes(right_branching=0.3, attention_only=0.6))
    assert found.verdict == "not measured"
    assert "attention-and-words" in found.shows
    assert "--vectors FILE" in found.shows


def test_probes_are_compared_in_pairs_not_by_their_intervals() -> None:
    tables = probes(distances_and_words=0.60, attention_only=0.61)
    tables["probes"] = tables["probes"].assign(low=0.5, high=0.7)  # as wide as documents differ
    rows = tables["probe-differences"]
    name = "attention-alone-beats-distances"
    sure = {**tables, "probe-differences": rows.assign(low=0.005, high=0.015)}
    assert find(name, sure).verdict == "holds"
    assert (
        "Minus distances-and-words (60.0 %): +1.0 points [+0.5 to +1.5]." in find(name, sure).shows
    )
    swapped = probes(attention_only=0.61, distances_and_words=0.60)  # the gap the other way round
    swapped["probe-differences"] = swapped["probe-differences"].assign(low=-0.015, high=-0.005)
    assert find(name, swapped).shows == find(name, sure).shows
    unsure = {**tables, "probe-differences": rows.assign(low=-0.005, high=0.025)}
    assert find(name, unsure).verdict == "undecided"
    assert "The 95 % interval includes +0.0 points: undecided." in find(name, unsure).shows
    single = {**tables, "probe-differences": rows.assign(low=None, high=None)}
    assert find(name, single).verdict == "undecided"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("layers-attend-alike", "one layer"), ("gradient-to-sep-falls", "language-modelling head")],
)
def test_models_that_cannot_have_a_table_are_told(name: str, reason: str) -> None:
    assert reason in find(name, {}).shows


def test_a_claim_must_hold_in_every_treebank() -> None:
    rows = [("a.conllu", 0.9), ("<b>.conllu", 0.6)]
    both = best(*(relation("det", accuracy, treebank=name) for name, accuracy in rows))
    found = find("finds-determiners", both)
    assert found.verdict == "does not hold"
    assert "a.conllu: holds." in found.shows
    unsure = best(
        relation("det", 0.9, treebank="a"), relation("det", 0.75, treebank="b", heldout_low=0.7)
    )
    assert find("finds-determiners", unsure).verdict == "undecided"
    assert "<b>.conllu: does not hold." in found.shows


def test_coreference_is_judged_in_the_papers_window() -> None:
    near, far = (coreference(mentions(a), 0.5, mentions(0.6)) for a in (0.65, 0.3))
    both = {
        key: pd.concat([far[key].assign(window=512), near[key].assign(window=128)]) for key in near
    }
    found = find("coreference-beats-head-match", both)
    assert found.verdict == "holds"
    assert "Windows of 128 tokens" in found.shows


def test_claims_name_their_sections_and_numbers() -> None:
    assert {claim.section for claim in CLAIMS} == {
        "3.1",
        "3.2",
        "3.3",
        "4.1",
        "4.2",
        "4.3",
        "5",
        "6",
        "Gu et al. 2025",
        "Olsson et al. 2022",
        "Wu et al. 2024",
        "Xiao et al. 2023",
    }
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS) >= 15
    assert all(claim.says.endswith(".") and claim.paper for claim in CLAIMS)


def test_a_share_of_all_documents_is_known_no_better_than_their_number_allows() -> None:
    shares = {"share": [1.0, 0.0, 0.5, 0.5], "low": [nan, nan, nan, 0.4], "high": [nan] * 3 + [0.6]}
    table = pd.DataFrame({**shares, "documents": 21})
    filled = fill_exact(table, "share")
    least = binomtest(21, 21).proportion_ci().low
    assert filled["low"].tolist() == pytest.approx([least, 0, 0.5, 0.4])
    assert filled["high"].tolist() == pytest.approx([1, 1 - least, 0.5, 0.6])
    assert fill_exact(table.head(3), "share").equals(table.head(3))  # nothing has an interval
