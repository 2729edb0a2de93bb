"""Runs over models that differ: hybrids, learned sinks, heads that cannot be altered."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from transformers import AutoModelForCausalLM

import headscope as hs
from headscope.errors import ModelError, StudyError
from headscope.models.loaded import wrap_model
from headscope.models.pair import ModelPair
from headscope.runs.tables import number_layers
from headscope.view.page import render_report
from tests.engine.made import EXAMPLES, assert_same_tables, run
from tests.making import MadeSource, random_maps
from tests.models import every_family
from tests.models.tiny import SENTENCES, build_tokenizer

QUICK: dict[str, Any] = {"text": SENTENCES[:4], "progress": False}


def analyze(name: str, **options: Any) -> hs.Run:
    model = every_family.build(name, options.pop("kind", every_family.AutoModel))
    return hs.analyze(model, tokenizer=build_tokenizer("roberta"), **{**QUICK, **options})


class Hybrid(MadeSource):
    """A source whose layers are the third, the fifth and the ninth of its model."""

    layer_numbers = (2, 4, 8)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "layer_numbers": [3, 5, 9]}


def test_every_table_of_a_hybrid_has_the_models_own_layer_numbers() -> None:
    plain, own = run(MadeSource()), run(Hybrid())
    new = {1: 3, 2: 5, 3: 9}
    n_columns = 0
    for name, table in plain.tables.items():
        if name in ("layout", "dendrogram"):  # derived from the others
            continue
        for column in [c for c in table if "layer" in str(c).split("_")]:
            n_columns += 1
            found, before = own.tables[name][column], table[column]
            assert found.dropna().tolist() == [new[n] for n in before.dropna()]
            assert found.isna().tolist() == before.isna().tolist()
    assert n_columns >= 8
    assert set(own.tables["layout"]["layer"]) == {3, 5, 9}


def test_examples_cards_and_drawings_of_a_hybrid_agree(tmp_path: Path) -> None:
    found = run(Hybrid(), examples=True, out=tmp_path / "run")
    assert {shown.view.layer + 1 for shown in found.examples} <= {3, 5, 9}
    plain = run(MadeSource(), examples=True)
    new = {0: 2, 1: 4, 2: 8}
    assert [(s.title, new[s.view.layer], s.view.head, s.score) for s in plain.examples] == [
        (s.title, s.view.layer, s.view.head, s.score) for s in found.examples
    ]
    assert hs.load_run(tmp_path / "run").card("9-2").title == "Head 9-2"
    page = render_report(found.tables, found.manifest, found.examples, found.findings)
    names = {f"{s.view.layer + 1}-{s.view.head + 1}" for s in found.examples}
    assert set(re.findall(r"<summary>[^<]*: head (\d+-\d+) ", page)) == names
    assert set(re.findall(r"<title>Head (\d+-\d+)</title>", page)) == names
    assert 'href="#head-9-2"' in page
    assert 'href="#head-1-2"' not in page
    assert "3 × 5" in page


def test_a_head_of_a_hybrid_is_drawn_by_its_own_number() -> None:
    model, tokenizer = every_family.build("zamba2"), build_tokenizer("roberta")
    drawn = hs.show(model, "The boat sails home.", tokenizer=tokenizer, head="4-1")
    assert drawn.title.endswith("head 4-1")
    all_heads = hs.show(model, "The boat sails home.", tokenizer=tokenizer)
    assert "Head 2-4" in all_heads.svg
    assert "Head 1-1" not in all_heads.svg
    with pytest.raises(StudyError, match=r"no head 1-1\. Expected layers 2, 4 and heads 1 to 4"):
        hs.show(model, "The boat sails home.", tokenizer=tokenizer, head="1-1")
    with pytest.raises(StudyError, match=r"no layer 3\. Expected layers 2, 4"):
        hs.show(model, "The boat sails home.", tokenizer=tokenizer, layer=3)


def test_a_layer_of_the_second_model_has_the_second_models_number() -> None:
    first = {"layer_numbers": [1, 2]}
    pair = {"first": first, "second": {"layer_numbers": [4, 8]}}
    columns = ["layer_a", "layer_b", "nearest_layer_b"]
    table = pd.DataFrame([(1, 2, 1), (2, 1, 2)], columns=columns)
    found = number_layers({"matches": table}, pair)["matches"]
    assert found.to_numpy().tolist() == [[1, 8, 4], [2, 4, 8]]


def test_a_model_that_has_a_sink_is_compared_with_one_that_has_none() -> None:
    sink = wrap_model(every_family.build("gpt_oss"), build_tokenizer("roberta"), "sink")
    plain = wrap_model(every_family.build("llama"), build_tokenizer("roberta"), "plain")
    pair = ModelPair(sink, plain)
    seen: list[Any] = []
    pair.attend(pair.batch(pair.encode([hs.Example("a", text=SENTENCES[0])], 13)), seen.append)
    assert [attention.has_sink for attention in seen] == [True] * 8
    assert list(pair.layer_numbers) == list(range(8))


def test_a_learned_sink_is_a_class_of_tokens_and_a_behaviour() -> None:
    tables = analyze("gpt_oss", only="special-tokens,entropy,distance").tables
    shares = tables["special-tokens"]
    of_sink = shares[(shares["target"] == "sink") & (shares["source"] == "all")]["weight"]
    assert (of_sink > 0).all()
    totals = shares.dropna().groupby(["layer", "head", "source"])["weight"].sum()
    assert totals.to_numpy() == pytest.approx(1)
    assert (tables["entropy"]["nats"] <= tables["entropy"]["uniform"] + 1e-6).all()
    assert tables["distance"]["divergence"].between(0, 0.6932).all()


@pytest.mark.parametrize("name", ["mpnet", "bloom", "xglm", "big_bird", "diffllama"])
def test_what_cannot_be_altered_is_left_out_with_the_reason(name: str) -> None:
    found = analyze(name, only="position,ablation")
    assert set(found.tables) == {"position"}
    assert "cannot be altered or weighted" in found.manifest["left_out"]["ablation"]


def test_a_run_that_can_do_nothing_else_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(StudyError, match="4 layers call attention 8 times"):
        analyze("diffllama", kind=AutoModelForCausalLM, only="ablation,gradient", out=out)
    with pytest.raises(ModelError, match="something stands between the heads"):
        analyze("bitnet", weights="norm", out=out)
    assert not out.exists()


class Failing(MadeSource):
    def attend(self, batch: Any, observe: Any) -> None:
        raise ModelError("The model fails.")


def test_a_model_that_fails_at_its_first_batch_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="The model fails"):
        run(Failing(), out=tmp_path / "runs" / "new")
    assert not (tmp_path / "runs").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelError, match="The model fails"):
        run(Failing(), out=tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_model_that_fails_later_leaves_what_can_be_resumed(tmp_path: Path) -> None:
    """Its first shard was kept."""
    broken = EXAMPLES[-1].id

    def fail_at_last(encoding: Any) -> torch.Tensor:
        if encoding.example.id == broken:
            raise ModelError("The model fails.")
        return random_maps(encoding)

    out = tmp_path / "run"
    with pytest.raises(ModelError, match="The model fails"):
        run(MadeSource(maps=fail_at_last), out=out)
    assert (out / "tallies/text.safetensors").exists()
    assert_same_tables(run(MadeSource(), out=out, resume=True), run(MadeSource()))
