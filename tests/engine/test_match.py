"""Matching the heads of two models."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.corpora.collection import MemoryCorpus
from headscope.engine.analyze import analyze
from headscope.engine.match import match_models
from headscope.errors import ModelError, StudyError
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from tests.making import MadeSource
from tests.models.tiny import SENTENCES, build_model, build_tokenizer
from tests.references.distance import jensen_shannon

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


def test_models_with_different_vocabularies_are_refused() -> None:
    with pytest.raises(ModelError, match="have different tokenizers"):
        match_models(tiny(), tiny("gpt2", "gpt2"), text=SENTENCES, **QUICK)


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
