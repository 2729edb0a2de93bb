"""Every claim is seen where it was planted, denied where it was not, and never breaks."""

from collections.abc import Callable, Mapping
from math import log, nan
from pathlib import Path

import pandas as pd
import pytest

from headscope.stats.tally import Estimate
from headscope.view.claim import Claim, Finding, check_claims, judge, list_claims
from headscope.data.depth import like_paper

Tables = dict[str, pd.DataFrame]
CLAIMS = list_claims()
N_LAYERS, N_HEADS = 12, 3
UNIFORM = log(128)


def spread(value: float, width: float = 0.01) -> dict[str, float]:
    return {"low": value - width, "high": value + width}


def heads(n_layers: int = N_LAYERS) -> list[tuple[int, int]]:
    return [(layer, head) for layer in range(1, n_layers + 1) for head in range(1, N_HEADS + 1)]


def position(planted: Mapping[tuple[int, int, str], float], rest: float = 0.05) -> Tables:
    rows = []
    for layer, head in heads():
        for target in ("previous", "self", "next"):
            weight = planted.get((layer, head, target), rest)
            rows.append({"layer": layer, "head": head, "target": target, "weight": weight})
            rows[-1] |= spread(weight)
    return {"position": pd.DataFrame(rows)}


def special(
    weight: Callable[[int, str, str], float], n_layers: int = N_LAYERS, width: float = 0.01
) -> Tables:
    """`weight` of a layer, a source and a target."""
    rows = []
    for layer, head in heads(n_layers):
        for source in ("all", "sep", "other"):
            for target in ("cls", "sep", "first", "punctuation", "other"):
                share = weight(layer, source, target)
                row = {"layer": layer, "head": head, "source": source, "target": target}
                rows.append({**row, "weight": share, **spread(share, width)})
    return {"special-tokens": pd.DataFrame(rows)}


def by_layer(target: str, layers: range, high: float = 0.7, low: float = 0.1) -> Tables:
    """High attention to a target in some layers."""
    return special(lambda layer, _, to: high if to == target and layer in layers else low)


def from_sep(own: float, others: float) -> Tables:
    return special(lambda _, source, to: own if source == "sep" and to == "sep" else others)


def gradient(lower: float, upper: float, other: float, sink: str = "sep") -> Tables:
    rows = []
    for layer, head in heads():
        for target, value in {sink: upper if layer >= 5 else lower, "other": other}.items():
            row = {"layer": layer, "head": head, "target": target, "gradient": value}
            rows.append({**row, **spread(value, 0.001)})
    return {"gradient": pd.DataFrame(rows)}


def entropy(broad: set[tuple[int, int]], cls: Callable[[int], float] | None = None) -> Tables:
    """Broad heads, and the share of even attention from the first token of a layer."""
    rows = []
    for layer, head in heads():
        share = 0.9 if (layer, head) in broad else 0.4
        for which, part in {"all": share, "cls": cls(layer) if cls else share}.items():
            nats = part * UNIFORM
            row = {"layer": layer, "head": head, "rows": which, "nats": nats, "uniform": UNIFORM}
            rows.append({**row, **spread(nats)})
    return {"entropy": pd.DataFrame(rows)}


def max_weight(lowest: float) -> Tables:
    rows = [{"layer": layer, "head": head, "weight": 0.4} for layer, head in heads()]
    rows[0]["weight"] = lowest
    return {"max-weight": pd.DataFrame([{**row, **spread(row["weight"])} for row in rows])}


def relation(name: str, accuracy: float, offset: float = 0.3, **other: object) -> dict[str, object]:
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
        "offset": 1,
        "baseline_accuracy": offset,
        "heldout_baseline_accuracy": offset,
        "heldout_difference": gap,
        "difference_low": gap - 0.01,
        "difference_high": gap + 0.01,
        "p_value": 0.001 if gap > 0 else 0.9,
        **other,
    }


def best(*rows: dict[str, object]) -> Tables:
    """The best heads, and every head's accuracy: the same for the one head there is."""
    table = pd.DataFrame(rows)
    columns = ["relation", "direction", "layer", "head", "count", "accuracy", "low", "high"]
    return {"dependency-best": table, "dependency": table[columns]}


FROM_HEAD = {"direction": "head-to-dependent"}


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
            "nearest": 0.2,
            "head_match": match,
            "rule_based": rules[kind],
            "heldout_difference": accuracy - rules[kind],
            "difference_low": accuracy - rules[kind] - 0.01,
            "difference_high": accuracy - rules[kind] + 0.01,
        }
        for kind, accuracy in own.items()
    ]
    table = pd.DataFrame(rows)
    return {"coreference-best": table, "coreference": table.assign(system="head")}


def mentions(total: float, nominal: float = 0.5) -> dict[str, float]:
    return {"all": total, "pronoun": 0.5, "proper": 0.5, "nominal": nominal}


def probes(**uas: float) -> Tables:
    rows = [
        {"probe": name.replace("_", "-"), "uas": value, **spread(value)}
        for name, value in uas.items()
    ]
    return {"probes": pd.DataFrame(rows)}


PAPER_PROBES = {
    "right_branching": 0.26,
    "distances_and_words": 0.58,
    "random_init_attention_and_words": 0.30,
    "attention_only": 0.61,
    "attention_and_words": 0.77,
}


def layers(within: float, between: float, p_value: float) -> Tables:
    row: dict[str, object] = {"layer": None, "within": within, "between": between}
    for name, value in {"within": within, "between": between}.items():
        row |= {f"{name}_low": value - 0.01, f"{name}_high": value + 0.01}
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
    "sep-rises-at-layer-5": (by_layer("sep", range(5, 13)), by_layer("sep", range(1, 5))),
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
    "gradient-to-sep-is-small": (gradient(0.1, 0.01, 0.1), gradient(0.1, 0.08, 0.1)),
    "gradient-to-sep-falls": (gradient(0.1, 0.01, 0.1), gradient(0.01, 0.1, 0.1)),
    "broad-heads": (entropy({(7, 1)}), entropy(set())),
    "broad-heads-are-low": (entropy({(1, 1), (2, 1), (9, 1)}), entropy({(1, 1), (8, 1), (9, 1)})),
    "first-layer-is-broad": (entropy({(1, 2)}), entropy({(2, 2)})),
    "cls-is-broad-in-the-last-layer": (
        entropy(set(), lambda layer: 0.8 if layer == 12 else 0.4),
        entropy(set(), lambda layer: 0.7 if layer == 12 else 0.9),
    ),
    "cls-is-like-others-below": (
        entropy(set(), lambda layer: 0.8 if layer == 12 else 0.45),
        entropy(set(), lambda layer: 0.4 if layer < 6 else 0.8),
    ),
    "at-most-a-tenth-on-a-word": (max_weight(0.08), max_weight(0.2)),
    "no-head-parses": (best(relation("all", 0.345)), best(relation("all", 0.6))),
    "heads-are-specialists": (
        best(relation("det", 0.9), relation("obj", 0.5), relation("amod", 0.5)),
        best(relation("det", 0.9), relation("obj", 0.8), relation("amod", 0.5)),
    ),
    "finds-direct-objects": (best(relation("obj", 0.8)), best(relation("dobj", 0.7))),
    "finds-determiners": (best(relation("det", 0.8)), best(relation("det", 0.7))),
    "finds-objects-of-prepositions": (best(relation("pobj", 0.8)), best(relation("pobj", 0.7))),
    "finds-possessives": (best(relation("nmod:poss", 0.8)), best(relation("poss", 0.7))),
    "finds-passive-auxiliaries": (best(relation("aux:pass", 0.8)), best(relation("auxpass", 0.7))),
    "heads-beat-offsets": (
        best(relation("det", 0.9), relation("obj", 0.3)),
        best(relation("det", 0.9, offset=0.85), relation("obj", 0.9, p_value=0.2)),
    ),
    "many-relations-gain-little": (
        best(relation("det", 0.9), relation("nn", 0.35)),
        best(relation("det", 0.9), relation("nn", 0.5)),
    ),
    "dependents-look-at-heads": (
        best(relation("det", 0.9), relation("pobj", 0.9, **FROM_HEAD)),
        best(relation("det", 0.9, **FROM_HEAD), relation("pobj", 0.9)),
    ),
    "prepositions-look-at-objects": (
        best(relation("pobj", 0.9, **FROM_HEAD)),
        best(relation("pobj", 0.9)),
    ),
    "coreference-beats-head-match": (
        coreference(mentions(0.65), 0.52, mentions(0.69)),
        coreference(mentions(0.60), 0.52, mentions(0.69)),
    ),
    "coreference-is-near-rules": (
        coreference(mentions(0.65), 0.52, mentions(0.69)),
        coreference(mentions(0.60), 0.52, mentions(0.69)),
    ),
    "coreference-is-good-with-nominals": (
        coreference(mentions(0.65, nominal=0.58), 0.52, mentions(0.69, nominal=0.5)),
        coreference(mentions(0.65, nominal=0.48), 0.52, mentions(0.69, nominal=0.5)),
    ),
    "probe-beats-baselines": (
        probes(**PAPER_PROBES),
        probes(**PAPER_PROBES | {"distances_and_words": 0.73}),
    ),
    "probe-parses-well": (
        probes(**PAPER_PROBES),
        probes(**PAPER_PROBES | {"attention_and_words": 0.6}),
    ),
    "words-help-the-probe": (
        probes(**PAPER_PROBES),
        probes(**PAPER_PROBES | {"attention_only": 0.8}),
    ),
    "attention-alone-beats-distances": (
        probes(**PAPER_PROBES),
        probes(**PAPER_PROBES | {"attention_only": 0.5}),
    ),
    "syntax-comes-from-training": (
        probes(**PAPER_PROBES),
        probes(**PAPER_PROBES | {"random_init_attention_and_words": 0.6}),
    ),
    "layers-attend-alike": (layers(0.2, 0.3, 0.001), layers(0.2, 0.3, 0.4)),
    "heads-cluster-by-behaviour": (layout(True), layout(False)),
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


@pytest.mark.parametrize("name", PLANTED)
def test_without_intervals_the_verdict_stays_and_none_is_shown(name: str) -> None:
    for tables in PLANTED[name]:
        bare = {
            key: table.assign(**{c: nan for c in table if c.endswith(("low", "high"))})
            for key, table in tables.items()
        }
        found = find(name, bare)
        assert found.verdict == find(name, tables).verdict
        assert "nan" not in found.shows
        assert "may be chance" not in found.shows


@pytest.mark.parametrize("name", PLANTED)
def test_a_model_of_one_layer_breaks_nothing(name: str) -> None:
    for tables in PLANTED[name]:
        first = {
            key: table[table["layer"].isin([1]) | table["layer"].isna()]
            if "layer" in table and key not in ("dependency-best", "coreference-best")
            else table
            for key, table in tables.items()
        }
        assert "nan" not in find(name, first).shows


@pytest.mark.parametrize(
    "name", ["neighbour-heads-are-early", "sep-rises-at-layer-5", "cls-is-like-others-below"]
)
def test_depth_is_not_judged_in_one_layer(name: str) -> None:
    one = {key: table[table["layer"] == 1] for key, table in PLANTED[name][0].items()}
    found = find(name, one)
    assert found.verdict == "not measured"
    assert "one layer" in found.shows


def test_in_a_decoder_the_first_token_stands_for_sep() -> None:
    def weight(layer: int, source: str, target: str) -> float:
        return nan if source == "sep" else {"first": 0.7, "other": 0.3}.get(target, 0.0)

    decoder = special(weight)
    found = find("half-on-sep", decoder)
    assert found.verdict == "holds"
    assert "In its place stands its first token" in found.shows
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


def test_the_first_token_of_a_decoder_has_no_breadth_to_judge() -> None:
    table = entropy(set())["entropy"]
    table.loc[table["rows"] == "cls", ["nats", "low", "high", "uniform"]] = 0.0
    assert find("cls-is-broad-in-the-last-layer", {"entropy": table}).verdict == "not measured"
    assert find("cls-is-like-others-below", {"entropy": table}).verdict == "not measured"


def test_an_interval_around_the_threshold_is_told() -> None:
    unsure = special(lambda *_: 0.51, width=0.05)
    found = find("half-on-sep", unsure)
    assert found.verdict == "holds"
    assert "51.0 % [46.0-56.0]" in found.shows
    assert "The interval includes 50.0 %" in found.shows
    assert "may be chance" not in judge(Estimate(0.6, 0.55, 0.65), 0.5, "").shows


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
    found = find("probe-beats-baselines", probes(attention_only=0.6))
    assert found.verdict == "not measured"
    assert "attention-and-words" in found.shows
    assert "--vectors FILE" in found.shows


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
    assert "<b>.conllu: does not hold." in found.shows


def test_coreference_is_judged_in_the_papers_window() -> None:
    near, far = (coreference(mentions(a), 0.5, mentions(0.6)) for a in (0.65, 0.3))
    both = {
        key: pd.concat([far[key].assign(window=512), near[key].assign(window=128)]) for key in near
    }
    found = find("coreference-beats-head-match", both)
    assert found.verdict == "holds"
    assert "Windows of 128 tokens" in found.shows


def test_the_page_tells_every_claim() -> None:
    page = (Path(__file__).parents[2] / "docs" / "claims.md").read_text()
    for claim in CLAIMS:
        assert f"| `{claim.name}` | {claim.section} | {claim.says} | {claim.paper} |" in page


def test_claims_name_their_sections_and_numbers() -> None:
    assert {claim.section for claim in CLAIMS} == {"3.1", "3.2", "3.3", "4.2", "4.3", "5", "6"}
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS) >= 15
    assert all(claim.says.endswith(".") and claim.paper for claim in CLAIMS)
