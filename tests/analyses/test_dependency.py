"""Heads as parsers: equal to the reference, and able to find what was planted."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headscope.analyses.coreference.measure import Coreference
from headscope.analyses.dependency import measure
from headscope.analyses.dependency.claims import is_causal
from headscope.analyses.dependency.gold import derive_arcs, read_gold
from headscope.analyses.dependency.measure import Dependency, is_single, predict_words
from headscope.analyses.gap import Gap
from headscope.analyses.trees import Trees
from headscope.contracts import CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import ROOT, Example, Tree
from headscope.data.words import word_weights
from headscope.engine.measure import measure_batch, measure_examples, show_layers
from headscope.errors import StudyError
from headscope.options import RunOptions
from headscope.runs.tables import make_tables
from headscope.stats.accuracy import choose_best
from headscope.stats.sums import Tally
from headscope.stats.tests import compare, holm
from tests.making import (
    N_HEADS,
    N_LAYERS,
    MadeSource,
    encode_words,
    make_example,
    random_attention,
    random_maps,
)
from tests.references import assert_equals_reference
from tests.references.dependency import (
    dependency,
    lengths,
    lost_to_special,
    names_of,
    offsets,
    predictions,
    visible,
    word_map,
)
from tests.shared import shared

EXAMPLES = [make_example(seed) for seed in range(60)]


def tally_of(
    analysis: Dependency, examples: list[Example] = EXAMPLES, source: MadeSource | None = None
) -> Tally:
    source = source or MadeSource()
    result = measure_examples(examples, source, [analysis], RunOptions(), CorpusRole.TREEBANK)
    return result.tallies["dependency"]


def tables(
    analysis: Dependency, examples: list[Example] = EXAMPLES, source: MadeSource | None = None
) -> dict[str, pd.DataFrame]:
    return make_tables(analysis, tally_of(analysis, examples, source))


def plant_trees(layer: int, head: int, is_transposed: bool) -> Callable[[Encoding], torch.Tensor]:
    """Maps in which one head sends each word to its syntactic head, or the other way round."""

    def maps(encoding: Encoding) -> torch.Tensor:
        weights = random_maps(encoding)
        pattern = torch.zeros_like(weights[0, 0])
        assert encoding.example.tree is not None
        for word, gold in enumerate(encoding.example.tree.heads):
            if gold != ROOT:
                dependent, governor = encoding.word_ids == word, encoding.word_ids == gold
                pairs = np.outer(dependent, governor)
                pattern += torch.from_numpy(pairs.T if is_transposed else pairs)
        weights[layer, head] = 0.02 * weights[layer, head] + pattern
        return weights

    return maps


def test_words_split_into_pieces_keep_row_sums() -> None:
    attention = random_attention([make_example(seed, n_words=6) for seed in range(3)])
    on_words = attention.weights[..., 1:-1].sum(-1)  # [example, head, query]
    for i, encoding in enumerate(attention.batch.encodings):
        for word in range(6):
            pieces = torch.from_numpy(encoding.word_ids == word)
            expected = on_words[i, :, pieces].mean(-1)
            torch.testing.assert_close(word_weights(attention)[i, :, word].sum(-1), expected)


@pytest.mark.parametrize("pieces", ["mean", "first"])
def test_word_maps_equal_the_reference(pieces: str) -> None:
    attention = random_attention([make_example(seed, n_words=5) for seed in range(3)])
    found = word_weights(attention, pieces)
    for i, encoding in enumerate(attention.batch.encodings):
        for head in range(found.shape[1]):
            expected = word_map(attention.weights[i, head].numpy(), encoding, pieces)
            np.testing.assert_allclose(found[i, head].numpy(), expected, rtol=1e-9)


def test_offsets_equal_the_reference() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    table = tables(Dependency())["dependency-offset"]
    found = {(r.relation, r.direction, r.offset): r.accuracy for r in table.itertuples()}
    assert found == pytest.approx(offsets(encodings))


def look_back(encoding: Encoding) -> torch.Tensor:
    """Random maps of a decoder."""
    maps = random_maps(encoding).tril()
    return maps / maps.sum(-1, keepdim=True)


class Decoder(MadeSource):
    """A source in which no token looks ahead."""

    def attend(self, batch: Batch, observe: Callable[[LayerAttention], None]) -> None:
        visible = torch.arange(batch.n_tokens) + 1
        super().attend(batch, lambda shown: observe(replace(shown, visible=visible)))


def test_a_decoder_is_scored_on_what_it_can_see() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    found = tables(Dependency(), source=Decoder(look_back))
    maps = [look_back(encoding).numpy() for encoding in encodings]
    assert_equals_reference(found["dependency"], "dependency", maps, encodings)
    rows = found["dependency"].itertuples()
    shares = {(r.relation, r.direction): r.visible_share for r in rows}
    assert shares == pytest.approx(visible(encodings))
    seen = found["dependency"].query("visible_share > 0")
    np.testing.assert_allclose(
        seen["visible_accuracy"], seen["correct"] / (seen["count"] * seen["visible_share"])
    )
    rows = found["dependency-offset"].itertuples()
    by_offset = {(r.relation, r.direction, r.offset): r.accuracy for r in rows}
    assert by_offset == pytest.approx(offsets(encodings, is_causal=True))
    assert is_causal(found["dependency"])


def test_the_first_word_of_a_decoder_predicts_nothing() -> None:
    words, tree = ("It", "rains", "again"), Tree((1, ROOT, 1), ("expl", "root", "advmod"))
    source = Decoder(look_back, pieces=lambda word, place: 1)
    found = tables(Dependency(), [Example("x", words=words, tree=tree)], source)["dependency"]
    first = found[(found["relation"] == "expl") & (found["direction"] == "dependent-to-head")]
    assert (first["accuracy"] == 0).all()  # it would be 1 if the second word were the default
    assert (first["visible_share"] == 0).all()
    assert first["visible_accuracy"].isna().all()


def test_every_arc_of_an_encoder_is_visible_but_the_roots() -> None:
    found = tables(Dependency())["dependency"]
    single = found[found["relation"].map(is_single)]
    assert (single["visible_share"] == 1).all()
    assert (single["visible_accuracy"] == single["accuracy"]).all()
    assert (found[found["relation"] == "all"]["visible_share"] < 1).all()
    assert not is_causal(found)


def test_attention_to_the_first_word_can_be_ignored() -> None:
    words, tree = ("a", "b", "c"), Tree((ROOT, 2, 0), ("root", "det", "obj"))

    def sink(encoding: Encoding) -> torch.Tensor:
        maps = torch.zeros(3, 5, 5, 5)
        maps[..., 1] = 0.7  # all look at the first word, then at the third
        maps[..., 3] = 0.3
        return maps

    source = MadeSource(sink, pieces=lambda word, place: 1)
    accuracy = {}
    for ignore in (False, True):
        analysis = Dependency(ignore_first_word=ignore)
        found = tables(analysis, [Example("x", words=words, tree=tree)], source)["dependency"]
        rows = found.query("layer == 1 and head == 1 and direction == 'dependent-to-head'")
        accuracy[ignore] = rows.set_index("relation")["accuracy"]
    assert (accuracy[False]["det"], accuracy[False]["obj"]) == (0, 1)
    assert (accuracy[True]["det"], accuracy[True]["obj"]) == (1, 0)


def test_what_special_tokens_take_equals_the_reference() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    table = tables(Dependency())["dependency-special"]
    found = {(r.direction, r.layer, r.head): -r.difference for r in table.itertuples()}
    assert found == pytest.approx(lost_to_special(maps, encodings))
    np.testing.assert_allclose(table["with_special"], table["accuracy"] + table["difference"])
    assert (table["low"] <= table["difference"]).all()
    assert (table["difference"] <= table["high"]).all()


def test_lengths_of_arcs_equal_the_reference() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    table = tables(Dependency())["dependency-length"]
    found = {(r.relation,): r.words for r in table.itertuples()}
    assert found == pytest.approx(lengths(encodings))


def test_the_first_piece_can_attend_for_its_word() -> None:
    encodings = [encode_words(example) for example in EXAMPLES]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    table = tables(Dependency(query_pieces="first"))["dependency"]
    expected = dependency(maps, encodings, "first")
    found = {(r.relation, r.direction, r.layer, r.head): r.accuracy for r in table.itertuples()}
    assert found == pytest.approx(expected)
    assert expected != dependency(maps, encodings, "mean")


@pytest.mark.parametrize("analysis", [Dependency, Trees, Coreference, Gap])
def test_only_known_pieces_can_attend_for_a_word(analysis: type[Dependency]) -> None:
    assert analysis(query_pieces="first").query_pieces == "first"
    with pytest.raises(StudyError, match=r'query_pieces="last" cannot be used\. Expected mean or'):
        analysis(query_pieces="last")


def test_predictions_of_compiled_code_equal_those_of_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = tally_of(Dependency()).totals
    monkeypatch.setattr(measure, "is_compiled", lambda weights: False)
    plain = tally_of(Dependency()).totals
    assert compiled.keys() == plain.keys()
    assert any(name.startswith("correct/") and total.sum() for name, total in plain.items())
    for name, total in plain.items():
        np.testing.assert_allclose(compiled[name], total, atol=1e-6)


def test_an_untrained_model_stands_beside_the_model() -> None:
    analysis, source = Dependency(), MadeSource(plant_trees(1, 3, is_transposed=False))
    own = tally_of(analysis, source=source)
    draws = [
        tally_of(analysis, source=MadeSource(partial(random_maps, seed=seed))) for seed in (1, 2)
    ]
    both = make_tables(analysis, own, draws)["dependency-best"]
    found = both.set_index("relation").loc["obj"]
    untrained = [make_tables(analysis, draw)["dependency-best"] for draw in draws]
    heldout = [table.set_index("relation").loc["obj", "heldout_accuracy"] for table in untrained]
    assert found["untrained_accuracy"] == pytest.approx(np.mean(heldout))
    assert found["untrained_spread"] == pytest.approx(np.std(heldout, ddof=1))
    gain = found["heldout_accuracy"] - found["untrained_accuracy"]
    assert found["untrained_difference"] == pytest.approx(gain)
    assert found["untrained_difference_low"] < gain < found["untrained_difference_high"]


@settings(max_examples=40)
@given(
    seeds=st.lists(st.integers(0, 10_000), min_size=1, max_size=6, unique=True),
    cuts=st.lists(st.integers(0, 4), min_size=1, max_size=7),
)
def test_any_trees_and_any_splits_equal_the_reference(seeds: list[int], cuts: list[int]) -> None:
    """A cut of 0 is a word that the tokenizer drops."""

    def pieces(word: str, place: int) -> int:
        return cuts[place % len(cuts)] if place else 1

    examples = [make_example(seed) for seed in seeds]
    encodings = [encode_words(example, pieces) for example in examples]
    maps = [random_maps(encoding).numpy() for encoding in encodings]
    source = MadeSource(pieces=pieces)
    table = tables(Dependency(), examples, source)["dependency"]
    assert_equals_reference(table, "dependency", maps, encodings)


@pytest.mark.parametrize("direction", ["dependent-to-head", "head-to-dependent"])
def test_a_planted_head_is_found_in_its_direction(direction: str) -> None:
    source = MadeSource(plant_trees(1, 3, is_transposed=direction == "head-to-dependent"))
    best = tables(Dependency(), source=source)["dependency-best"].set_index("relation")
    for relation in ("nsubj", "obj", "all (no punct or root)"):
        row = best.loc[relation]
        assert (row["layer"], row["head"], row["direction"]) == (2, 4, direction)
        assert row["heldout_accuracy"] > 0.95
        assert row["p_raw"] < 1e-4
        assert row["difference_low"] > 0


def test_directions_are_tested_like_any_difference_and_corrected_for_their_number() -> None:
    source = MadeSource(plant_trees(1, 3, is_transposed=False))
    tally = tally_of(Dependency(), source=source)
    table = make_tables(Dependency(), tally)["dependency-directions"].set_index("relation")
    raw = {}
    for relation in table.index:
        correct = tally.totals[f"correct/{relation}"]
        count = tally.totals[f"count/{relation}"]
        ways = [choose_best(correct[..., w].reshape(64, -1), count) for w in (0, 1)]
        raw[relation] = compare(ways[0].heldout, ways[1].heldout, ways[0].heldout_count).p_value
    questions = [name for name in raw if name == "all" or is_single(name)]
    expected = holm(np.array([raw[name] for name in questions]))
    assert expected[questions.index("all")] < 1e-6
    np.testing.assert_allclose(table.loc[questions, "p_value"], expected)


def test_a_perfect_relation_does_not_vanish() -> None:
    source = MadeSource(plant_trees(0, 0, is_transposed=False))
    best = tables(Dependency(), source=source)["dependency-best"].set_index("relation")
    assert best.loc["obj", "accuracy"] == 1.0


def test_the_root_counts_as_missed_in_all_alone() -> None:
    source = MadeSource(plant_trees(0, 0, is_transposed=False))
    best = tables(Dependency(), source=source)["dependency-best"].set_index("relation")
    n_words = sum(len(example.words or ()) for example in EXAMPLES)
    assert best.loc["all", "count"] == n_words
    assert best.loc["all", "accuracy"] == pytest.approx(1 - len(EXAMPLES) / n_words)
    assert "root" not in best.index


@pytest.mark.parametrize("name", ["poss", "nmod:poss"])
def test_the_possessive_mark_may_answer_for_its_possessor(name: str) -> None:
    words, tree = ("Ann", "'s", "boat"), Tree((2, 0, ROOT), (name, "case", "root"))

    def mark_knows(encoding: Encoding) -> torch.Tensor:
        maps = torch.zeros(3, 5, 5, 5)
        maps[..., 1, 2] = 1  # Ann looks at 's
        maps[..., 2, 3] = 1  # 's looks at boat
        return maps

    source = MadeSource(mark_knows, pieces=lambda word, place: 1)
    found = tables(Dependency(), [Example("x", words=words, tree=tree)], source)
    best = found["dependency-best"].set_index("relation")["accuracy"]
    assert best[name] == 1
    assert best[f"{name} (no 's rule)"] == 0
    assert best[f"{name} (before 's)"] == 0
    assert best[f"{name} (by the 's)"] == 1


def test_each_question_counts_once_in_the_correction() -> None:
    words, tree = (
        ("Ann", "'s", "boat", "sank"),
        Tree((2, 0, 3, ROOT), ("poss", "possessive", "nsubj", "root")),
    )
    examples = [Example(f"x{i}", words=words, tree=tree) for i in range(30)]
    best = tables(Dependency(), examples)["dependency-best"].set_index("relation")
    again = [name for name in best.index if " (" in name]
    assert len(again) == 4
    assert best.loc[again, "p_raw"].notna().all()
    assert best.loc[again, "p_value"].isna().all()
    asked = best.drop(index=again)
    lowest = asked["p_raw"].idxmin()
    assert asked.loc[lowest, "p_value"] == pytest.approx(len(asked) * asked.loc[lowest, "p_raw"])


def test_coarse_relations_merge_subtypes() -> None:
    fine, coarse = (tables(Dependency(coarse=c))["dependency-best"] for c in (False, True))
    counts = [dict(zip(t["relation"], t["count"], strict=True)) for t in (fine, coarse)]
    assert "nsubj:pass" not in counts[1]
    assert counts[1]["nsubj"] == counts[0]["nsubj"] + counts[0]["nsubj:pass"]


def test_random_heads_lose_what_choosing_gained_when_held_out() -> None:
    best = tables(Dependency())["dependency-best"]
    chosen = best[best["count"] > 20]
    assert (chosen["heldout_accuracy"] < chosen["accuracy"]).all()


def test_ties_go_to_the_first_word_and_never_to_the_word_itself() -> None:
    encoding = encode_words(make_example(0, n_words=3), lambda word, place: 1)
    even = torch.full((1, 1, 5, 5), 0.2)
    visible = ~torch.eye(3, dtype=torch.bool)[None]
    predicted = predict_words(LayerAttention.full(0, even, Batch((encoding,))), visible)
    assert predicted.words[0, 0].tolist() == [[1, 0, 0], [1, 0, 0]]


def test_moved_arcs_keep_their_relation_and_length_and_stay_in_the_sentence() -> None:
    analysis = Dependency(null_arcs=50)
    batch = Batch(tuple(encode_words(make_example(seed, 7), lambda w, p: 1) for seed in range(3)))
    gold = read_gold(batch, coarse=False)
    drawn = analysis._draw_null_arcs(batch, gold)
    n_arcs = sum(head != ROOT for e in batch.encodings for head in e.example.tree.heads)
    assert drawn.dependents.shape == (n_arcs, 50)
    real = gold.heads[drawn.examples, drawn.words] - drawn.words
    assert (drawn.heads - drawn.dependents == real[:, None]).all()
    assert (drawn.heads >= 0).all()
    assert (drawn.heads < 7).all()
    assert (drawn.dependents != drawn.words[:, None]).any()


def test_moved_arcs_are_counted_as_a_plain_loop_does() -> None:
    analysis = Dependency(null_arcs=4)
    encoding = encode_words(make_example(3, 8), lambda word, place: 1)
    batch, maps = Batch((encoding,)), random_maps(encoding)
    layer = LayerAttention.full(0, maps[1][None], batch)
    values = measure_batch(analysis, show_layers(analysis.reads, [layer]), 1)
    gold = read_gold(batch, coarse=False)
    drawn = analysis._draw_null_arcs(batch, gold)
    found = predict_words(layer, analysis.find_visible(layer)).words[0]
    for i, relation in enumerate(gold.relations):
        expected = torch.zeros(*found.shape[:2], 4)
        for arc, word in enumerate(drawn.words.tolist()):
            if gold.is_relation[0, word, i]:
                for draw in range(4):
                    dependent, head = drawn.dependents[arc, draw], drawn.heads[arc, draw]
                    expected[..., draw] += (found[..., dependent] == head).float()
        assert (values[f"plain null/{relation}"][0, 0] == expected.numpy()).all()


def test_the_row_of_a_head_word_chooses_its_only_dependent_as_a_plain_loop_finds() -> None:
    source = MadeSource()
    encodings = source.encode(EXAMPLES, 512)
    found, asked = Counter[tuple[str, int, int]](), Counter[str]()
    for encoding in encodings:
        tree, maps = encoding.example.tree, source.maps(encoding)
        assert tree is not None
        pairs = Counter(zip(tree.heads, tree.relations, strict=True))
        only = [
            (word, head, relation)
            for word, (head, relation) in enumerate(zip(tree.heads, tree.relations, strict=True))
            if head != ROOT and pairs[head, relation] == 1 and relation in names_of(encoding, word)
        ]
        asked.update(relation for *_, relation in only)
        for layer in range(N_LAYERS):
            for head in range(N_HEADS):
                words = word_map(maps[layer, head].numpy(), encoding)
                rows = predictions(words, encoding, "dependent-to-head")
                found.update((r, layer, head) for word, h, r in only if rows[h] == word)
    totals = tally_of(Dependency(), EXAMPLES).totals
    for relation, count in asked.items():
        assert totals[f"choices/{relation}"].sum() == count
        expected = [[found[relation, i, j] for j in range(N_HEADS)] for i in range(N_LAYERS)]
        np.testing.assert_array_equal(totals[f"choice/{relation}"].sum(axis=0), expected)


def test_a_column_may_find_what_the_row_does_not_choose() -> None:
    source = MadeSource(plant_trees(1, 3, is_transposed=True))
    best = tables(Dependency(), source=source)["dependency-best"].set_index("relation")
    to_dependent = best[best["direction"] == "head-to-dependent"]
    assert to_dependent["choice_share"].dropna().between(0, 1).all()
    assert best.loc[best["direction"] == "dependent-to-head", "choice_share"].isna().all()


def test_a_head_that_is_worse_than_the_offset_has_a_p_near_one() -> None:
    worse = compare(np.zeros(40), np.ones(40), np.full(40, 2.0) + np.arange(40) % 2)
    better = compare(np.ones(40), np.zeros(40), np.full(40, 2.0) + np.arange(40) % 2)
    assert worse.p_better > 0.999
    assert better.p_better < 0.001
    few = compare(np.zeros(5), np.ones(5), np.full(5, 2.0))
    assert few.p_better == 1


def test_a_head_that_knows_the_trees_is_better_than_chance_and_random_heads_are_not() -> None:
    analysis = Dependency(null_arcs=40)
    source = MadeSource(plant_trees(1, 3, is_transposed=False))
    known = tables(analysis, source=source)["dependency-best"].set_index("relation").loc["obj"]
    assert known["chance_accuracy"] < 0.6
    assert known["chance_p_value"] == 1 / 41
    chance = tables(analysis)["dependency-best"].set_index("relation")
    assert chance.loc[["all", "obj", "nsubj"], "chance_p_value"].min() > 0.04


def test_several_treebanks_are_corrected_together_and_summed_up() -> None:
    analysis = Dependency()
    parts = [EXAMPLES[:30], EXAMPLES[30:]]
    own = [tables(analysis, part) for part in parts]
    best = [part["dependency-best"] for part in own]
    joined, every = (
        pd.concat(
            [
                part[table].assign(treebank=name, documents=n)
                for part, name, n in zip(own, "ab", (7, 5), strict=True)
            ],
            ignore_index=True,
        )
        for table in ("dependency-best", "dependency")
    )
    both = analysis.join_corpora({"dependency-best": joined, "dependency": every})
    is_asked = joined["relation"].map(lambda relation: relation == "all" or is_single(relation))
    raw = joined["p_raw"].to_numpy(float)[is_asked.to_numpy(bool)]
    least = min(1, np.nanmin(raw) * (~np.isnan(raw)).sum())
    assert both["dependency-best"]["p_value"].min() == pytest.approx(least)
    pooled = both["dependency-treebanks"].set_index("relation")
    assert pooled.loc["all", "treebanks"] == 2
    assert pooled.loc["all", "documents"] == 12
    ends = joined[joined["relation"] == "all"]["heldout_accuracy"]
    assert ends.min() <= pooled.loc["all", "heldout_accuracy"] <= ends.max()
    row = pooled.loc["all"]
    assert row["heldout_accuracy_low"] < row["heldout_accuracy"] < row["heldout_accuracy_high"]
    alone = analysis.join_corpora({"dependency-best": best[0]})
    assert list(alone) == ["dependency-best"]


def with_prepositions(example: Example) -> Example:
    """The example, some of its words turned into prepositions and their nouns."""
    assert example.tree is not None
    names = {"nsubj": "case", "obj": "obl", "nsubj:pass": "nmod", "punct": "case:acc"}
    relations = tuple(names.get(relation, relation) for relation in example.tree.relations)
    return replace(example, tree=Tree(example.tree.heads, relations))


def test_derived_prepositions_and_their_objects_equal_the_reference() -> None:
    analysis, source = Dependency(null_arcs=0), MadeSource()
    examples = [with_prepositions(example) for example in EXAMPLES]
    result = measure_examples(examples, source, [analysis], RunOptions())
    table = make_tables(analysis, result.tallies["dependency"])["dependency"]
    names = {"prep (derived)", "pobj (derived)"}
    assert names <= set(table["relation"])
    encodings = source.encode(examples, 512)
    expected = dependency([source.maps(e).numpy() for e in encodings], encodings)
    for row in table[table["relation"].isin(names)].itertuples():
        key = (row.relation, row.direction, row.layer, row.head)
        assert row.accuracy == pytest.approx(expected[key])


def test_derived_prepositions_are_those_of_a_treebank_with_the_papers_labels() -> None:
    stanford = {
        example.words: example.tree
        for example in open_corpus(shared("data/treebanks/en_gum5-sd-ccby.conllx"), "treebank")
    }
    hits: Counter[str] = Counter()
    for example in open_corpus(shared("data/coref/ontogum"), "treebank"):
        gold = stanford.get(example.words)
        if gold is None or example.tree is None:
            continue
        arcs = {(name.split()[0], word): head for word, head, name in derive_arcs(example)}
        for word, (head, relation) in enumerate(zip(gold.heads, gold.relations, strict=True)):
            if relation in ("prep", "pobj"):
                hits[f"{relation} gold"] += 1
                hits[f"{relation} right"] += arcs.get((relation, word)) == head
        hits.update(f"{relation} derived" for relation, _ in arcs)
    assert hits["prep gold"] > 3000
    for relation in ("prep", "pobj"):
        assert hits[f"{relation} right"] > 0.89 * hits[f"{relation} gold"]
        assert hits[f"{relation} right"] > 0.94 * hits[f"{relation} derived"]
