"""Matching the heads of two models."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headscope.comparison import match
from headscope.comparison.match import match_all, match_models
from headscope.corpora.collection import MemoryCorpus
from headscope.data.example import Example
from headscope.data.words import split_words
from headscope.engine.analyze import analyze
from headscope.errors import ModelError, StudyError
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.pair import pair_models
from headscope.runs.run import load_run
from tests.making import MadeSource
from tests.models.tiny import SENTENCES, build_model, build_tokenizer
from tests.references.distance import jensen_shannon, pool_to_words

ORDER = [3, 0, 4, 1, 2]
QUICK = {"progress": False}


def tiny(name: str = "bert", tokenizer: str = "wordpiece", **options: object) -> LoadedModel:
    return wrap_model(build_model(name, **options), build_tokenizer(tokenizer), name)


def permute_heads(model: LoadedModel, order: list[int]) -> LoadedModel:
    """A model that does the same, with the heads of every layer in another order."""
    size = model.model.config.hidden_size // len(order)
    places = torch.tensor([head * size + i for head in order for i in range(size)])
    with torch.no_grad():
        for layer in model.model.encoder.layer:
            attention = layer.attention
            for part in (attention.self.query, attention.self.key, attention.self.value):
                part.weight.copy_(part.weight[places].clone())
                part.bias.copy_(part.bias[places].clone())
            dense = attention.output.dense
            dense.weight.copy_(dense.weight[:, places].clone())
    return model


def test_the_heads_of_a_permuted_copy_are_found_again() -> None:
    run = match_models(tiny(), permute_heads(tiny(), ORDER), text=SENTENCES, **QUICK)
    matches = run.tables["head-matches"]
    assert len(matches) == 3 * len(ORDER)
    assert (matches["layer_a"] == matches["layer_b"]).all()
    found = [ORDER[head - 1] + 1 for head in matches["head_b"]]
    assert found == matches["head_a"].tolist()
    np.testing.assert_allclose(matches["divergence"], 0, atol=1e-6)
    assert matches["is_mutual"].all()
    assert (matches["support"] == 1).all()
    assert (matches["mean_divergence"] > 0.01).all()


def test_divergences_between_models_equal_the_definition() -> None:
    first, second = tiny(), tiny(num_hidden_layers=2, num_attention_heads=4)
    run = match_models(first, second, text=SENTENCES[:2], progress=False)
    maps = []
    for model in (first, second):
        encodings = model.encode(list(MemoryCorpus(SENTENCES[:2])), 40)
        model.model.set_attn_implementation("eager")
        with torch.inference_mode():
            maps.append(
                [
                    torch.cat(
                        model.model(**model.batch([e]).inputs, output_attentions=True).attentions
                    )
                    for e in encodings
                ]
            )
    table = run.tables["distance-between"].set_index(["layer_a", "head_a", "layer_b", "head_b"])
    assert len(table) == 15 * 8
    for key in [(1, 1, 1, 1), (3, 5, 2, 4), (2, 3, 1, 2)]:
        found = [
            jensen_shannon(p.tolist(), q.tolist())
            for one, other in zip(*maps, strict=True)
            for p, q in zip(one[key[0] - 1, key[1] - 1], other[key[2] - 1, key[3] - 1], strict=True)
        ]
        assert table.loc[key, "divergence"] == pytest.approx(np.mean(found), abs=1e-6)
    matches = run.tables["head-matches"]
    assert len(matches) == 8  # the smaller model's heads all have a match
    assert not matches.duplicated(["layer_b", "head_b"]).any()
    assert matches["support"].between(0, 1).all()


def test_models_with_different_tokenizers_are_compared_by_words() -> None:
    first, second = tiny(), tiny("gpt2", "gpt2")
    run = match_models(first, second, text=SENTENCES[:3], rows=128, **QUICK)
    assert run.manifest["model"]["compared"] == "words"
    rows: list[list[list[list[float]]]] = []  # of each model: [head][word][key], over all texts
    pair = pair_models(first, second)
    encodings = pair.encode(list(MemoryCorpus(SENTENCES[:3])), 40)
    for place, model in enumerate((first, second)):
        model.model.set_attn_implementation("eager")
        found: list[list[list[float]]] = [[] for _ in range(15)]
        for encoding in encodings:
            part = encoding.parts[place]
            with torch.inference_mode():
                maps = model.model(**model.batch([part]).inputs, output_attentions=True).attentions
            for head, map_ in enumerate(torch.cat(maps).flatten(0, 1).tolist()):
                words = part.word_ids.tolist()
                found[head] += pool_to_words(map_, words, len(encoding))
        rows.append(found)
    table = run.tables["distance-between"].set_index(["layer_a", "head_a", "layer_b", "head_b"])
    assert len(table) == 15 * 15
    for key in [(1, 1, 1, 1), (3, 5, 2, 4)]:
        one, other = rows[0][key[0] * 5 - 6 + key[1]], rows[1][key[2] * 5 - 6 + key[3]]
        expected = [jensen_shannon(p, q) for p, q in zip(one, other, strict=True)]
        assert table.loc[key, "divergence"] == pytest.approx(np.mean(expected), abs=1e-6)


def test_only_words_that_both_models_see_whole_are_compared() -> None:
    pair = pair_models(tiny(), tiny("gpt2", "gpt2"))
    (encoding,) = pair.encode([Example("a", text=SENTENCES[4])], 12)
    assert encoding.is_truncated
    n_words = len(split_words(Example("a", text=SENTENCES[4])).words or ())
    assert 0 < len(encoding) < n_words
    for part in encoding.parts:
        assert set(part.word_ids.tolist()) - {-1} == set(range(len(encoding)))


def test_matches_stand_beside_chance_and_are_shown_on_an_example(tmp_path: Path) -> None:
    texts = [f"{one} {other}" for one in SENTENCES for other in SENTENCES[:4]]
    run = match_models(
        tiny(), permute_heads(tiny(), ORDER), text=texts, out=tmp_path / "m", **QUICK
    )
    chance = run.tables["head-matches-chance"].set_index("matching")
    assert chance.loc["one to one, held out", "divergence"] == pytest.approx(0, abs=1e-6)
    pairs = run.tables["distance-between"]["divergence"]
    assert chance.loc["at random", "divergence"] == pytest.approx(pairs.mean())
    own = chance.loc["first model, its own other heads", "divergence"]
    assert 0 < own < chance.loc["at random", "divergence"]
    assert chance.loc["first model with itself, other documents", "same_head"] > 0.5
    shown = load_run(tmp_path / "m").examples
    assert len(shown) == 16
    assert shown[0].view.units == shown[1].view.units
    assert "Matches compared with chance" in run.report().read_text()


def test_rows_are_given_as_a_command_gives_them() -> None:
    model = tiny()
    texts = SENTENCES[:2]
    few, every = (match_models(model, model, text=texts, rows=r, **QUICK) for r in ("2", "all"))
    assert few.manifest["analyses"] != every.manifest["analyses"]
    for wrong in ("0", "x", "9" * 5000):
        with pytest.raises(StudyError, match=r"rows=.{1,70} cannot be used"):
            match_models(model, model, text=texts, rows=wrong, **QUICK)
    with pytest.raises(StudyError, match="No option 'coarse'"):
        match_models(model, model, text=texts, coarse=True, **QUICK)


def test_several_models_are_matched_two_by_two(tmp_path: Path) -> None:
    names = ["demo", "random-init:demo", "demo"]
    runs = match_all(names, ["a", "b", "c"], tmp_path, text=["A small boat.", "It sails."], **QUICK)
    assert list(runs) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert runs["a", "c"].tables["head-matches"]["divergence"].max() < 1e-6
    assert (tmp_path / "a--b" / "manifest.json").exists()


def test_a_revision_is_that_of_one_model(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, **options: Any) -> LoadedModel:
        asked.append((name, options["revision"]))
        return load_model("demo")

    monkeypatch.setattr(match, "load_model", load)
    given = {"text": ["A boat."], "revision": "main", "revision_b": "step1000"}
    match_models("a", "b", **given, **QUICK)  # type: ignore[arg-type]
    assert asked == [("a", "main"), ("b", "step1000")]


def test_models_that_cut_text_differently_are_refused() -> None:
    """The same vocabulary with another way to read it: the tokens differ."""
    first = tiny()
    tokenizer = deepcopy(build_tokenizer("wordpiece"))
    tokenizer.backend_tokenizer.normalizer.lowercase = False
    second = wrap_model(build_model("bert"), tokenizer, "cased")
    with pytest.raises(ModelError, match="into different tokens"):
        match_models(first, second, text=SENTENCES, **QUICK)


def test_a_matching_run_is_kept_and_describes_both_models(tmp_path: Path) -> None:
    demo = load_model("demo")
    run = match_models(
        demo, "random-init:demo", text=["A small boat.", "It sails."], out=tmp_path / "m", **QUICK
    )
    assert run.manifest["model"]["first"]["layers"] == 6
    assert run.manifest["model"]["second"]["name"] == "random-init:demo"
    assert (tmp_path / "m/tables/head-matches.csv").exists()
    assert "layout" not in run.tables


def test_an_analysis_of_two_models_is_refused_for_one() -> None:
    with pytest.raises(StudyError, match="compares two models, and only made was given"):
        analyze(MadeSource(), text=["A text."], only="head-matches", progress=False)
