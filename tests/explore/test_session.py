"""What the page is told: tokens, maps, and what changes without a head."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import headscope as hs
from headscope.analyses.position import Position
from headscope.data.attention import LayerChange, head_name
from headscope.data.example import Example
from headscope.engine.head_views import all_heads
from headscope.engine.measure import measure_examples
from headscope.engine.open_models import Models
from headscope.errors import StudyError
from headscope.explore.change import find_means, measure_change
from headscope.explore.maps import PRECISION, read_maps, shrink
from headscope.explore.run_facts import describe_run, find_measures
from headscope.explore.session import Session
from headscope.explore.texts import (
    ExampleList,
    describe_tokens,
    encode_text,
    list_examples,
    read_texts,
)
from headscope.models.ablation import MODES, AblationSource
from headscope.models.language import HiddenStateOutcome
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.options import RunOptions
from headscope.runs.run import load_run
from tests.conftest import DemoRun
from tests.explore.made import TEXT, demo_models, make_session, true_map
from tests.models import every_family
from tests.models.test_families import source_of
from tests.models.test_gradients import language_model
from tests.models.tiny import build_tokenizer
from tests.toy_seq2seq import toy_examples, toy_tokenizer, train_toy

SENTENCE = "The old boat sails home before the storm."


def go_on() -> None:
    """Somebody waits for the answer."""


def test_a_map_equals_the_model_to_the_stated_precision() -> None:
    session = make_session()
    asked = {"text": TEXT, "head": "3-9"}
    roots = np.frombuffer(session.map(asked, go_on), "<u2").astype(float) / 65535
    expected = true_map(TEXT, 2, 8)
    assert np.abs(roots.reshape(expected.shape) ** 2 - expected).max() <= PRECISION


def test_small_maps_of_a_short_text_are_the_maps_in_eight_bits() -> None:
    told = make_session().look({"text": TEXT}, go_on)
    n = len(told["tokens"])
    assert told["thumbSize"] == n
    look, _ = make_session()._read_maps({"text": TEXT}, go_on)
    roots = look.thumbs.roots[2, 8] / 255
    assert np.abs(roots**2 - true_map(TEXT, 2, 8)).max() < 0.005


@pytest.mark.parametrize(("n_tokens", "size"), [(7, 3), (12, 4), (9, 9), (5, 4)])
def test_blocks_of_a_small_map_keep_row_sums(n_tokens: int, size: int) -> None:
    weights = torch.rand(2, n_tokens, n_tokens, generator=torch.Generator().manual_seed(0))
    weights = weights / weights.sum(-1, keepdim=True)
    small = (shrink(weights, size) / 255) ** 2
    assert small.shape[-1] <= size
    np.testing.assert_allclose(small.sum(-1), 1, atol=0.02)
    block = -(-n_tokens // size)
    slow = weights[:, :block, -(n_tokens % block or block) :].sum(-1).mean(-1)
    np.testing.assert_allclose(small[:, 0, -1], slow, atol=0.01)


def test_a_long_text_keeps_one_layer_and_runs_again_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("headscope.explore.maps.KEPT_BYTES", 0)
    source = demo_models().source
    encoding, _ = encode_text(source, Example("x", text=TEXT))
    look = read_maps(source, encoding)
    assert not look.keeps_all
    assert list(look._layers) == [0]
    np.testing.assert_allclose(look.weights(4, 2).numpy(), true_map(TEXT, 4, 2), atol=1e-6)
    assert list(look._layers) == [4]
    assert list(read_maps(source, encoding, first_layer=3)._layers) == [3]


def test_old_texts_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    session = make_session()
    session.look({"text": TEXT}, go_on)
    assert session._n_bytes == 4 * 72 * len(true_map(TEXT, 0, 0)) ** 2
    monkeypatch.setattr("headscope.explore.session.KEPT_BYTES", session._n_bytes)
    session.look({"text": "Bees fly far."}, go_on)
    assert [key[-1] for key in session._maps] == ["Bees fly far."]


def test_typed_text_has_the_tokens_of_running_text_and_words() -> None:
    source = demo_models().source
    encoding, n_whole = encode_text(source, Example("x", text="Unbelievable, isn't it?"))
    (plain,) = source.encode([Example("x", text="Unbelievable, isn't it?")], 512)
    told = describe_tokens(encoding, n_whole)
    assert encoding.surfaces == plain.surfaces
    assert told["words"] == ["Unbelievable", ",", "isn't", "it", "?"]
    assert told["cutFrom"] == 0


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "xlm-roberta"])
def test_words_never_change_the_tokens(name: str) -> None:
    source = source_of(name)
    for text in (SENTENCE, "Two  boats,\n\none harbour. 🙂 مرحبا"):
        (plain,) = source.encode([Example("x", text=text)], source.max_tokens)
        encoding, _ = encode_text(source, Example("x", text=text))
        assert encoding.surfaces == plain.surfaces


def test_text_over_the_limit_is_cut_and_its_real_length_told() -> None:
    told = make_session().look({"text": "far " * 900}, go_on)
    assert len(told["tokens"]) == 512
    assert told["cutFrom"] == 902


@pytest.mark.parametrize("text", ["", "  \n ", "a" * 60_001])
def test_no_text_and_far_too_much_are_refused(text: str) -> None:
    with pytest.raises(StudyError, match="Expected"):
        make_session().look({"text": text}, go_on)


@pytest.mark.parametrize(
    "asked",
    [
        {"text": TEXT, "head": "9-1"},
        {"text": TEXT, "head": "x"},
        {"text": TEXT, "head": "1-1", "model": 7},
        {"text": TEXT, "head": "1-1", "model": "0"},
        {"id": "nowhere", "head": "1-1"},
    ],
)
def test_what_is_not_there_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(StudyError, match="Expected"):
        make_session().map(asked, go_on)


def test_examples_come_with_trees_and_chains() -> None:
    session = make_session()
    told = session.look({"id": "starter_encyclopedia_beaver-5"}, go_on)
    assert [0, 1, "det"] in [list(arc) for arc in told["arcs"]]
    documents = session.listed.corpora[1]
    assert documents.title == "starter, documents"
    document = next(iter(documents.examples))
    assert session.look({"id": document}, go_on)["chains"]


def test_a_run_whose_corpus_is_gone_still_opens() -> None:
    gone = {"path": "/nowhere/at/all.conllu", "role": "treebank", "corpus": "all.conllu"}
    assert list_examples([gone]) == ExampleList()


def test_texts_of_a_file_are_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "two.txt"
    path.write_text("Bees fly.\n\nThe sea is wide.\n")
    assert read_texts(str(path)) == ["Bees fly.", "The sea is wide."]
    assert read_texts("Bees fly.") == ["Bees fly."]
    path.write_text("\n")
    with pytest.raises(StudyError, match="empty"):
        read_texts(str(path))


# Models whose heads are named otherwise.


@cache
def hybrid() -> LoadedModel:
    """A model with attention in its layers 2 and 4 alone."""
    return wrap_model(every_family.build("zamba2"), build_tokenizer("roberta"), "zamba2")


def test_layers_of_a_hybrid_have_the_models_own_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    source, asked = hybrid(), {"text": SENTENCE, "head": "4-3"}
    session = Session([Models(source)], ExampleList())
    assert session.boot()["models"][0]["layers"] == [2, 4]
    encoding, _ = encode_text(source, Example("the text", text=SENTENCE))
    found: dict[int, torch.Tensor] = {}
    source.attend(source.batch([encoding]), lambda a: found.setdefault(a.layer, a.weights[0]))
    expected = found[1][2].double().numpy()
    for kept_bytes in (10**9, 0):
        monkeypatch.setattr("headscope.explore.maps.KEPT_BYTES", kept_bytes)
        session._maps.clear()
        roots = np.frombuffer(session.map(asked, go_on), "<u2").astype(float) / 65535
        assert np.abs(roots.reshape(expected.shape) ** 2 - expected).max() <= PRECISION
    with pytest.raises(StudyError, match="layers 2, 4"):
        session.map({**asked, "head": "1-1"}, go_on)


def test_the_head_of_a_hybrid_that_is_switched_off_is_the_one_that_was_named() -> None:
    source = hybrid()
    encoding, _ = encode_text(source, Example("the text", text=SENTENCE))
    found: dict[int, LayerChange] = {}
    means = find_means(source, [Example("m", text=SENTENCE)])
    ablated = AblationSource(HiddenStateOutcome(source), means, [(3, 2)])
    ablated.attend(source.batch([encoding]), lambda change: found.update({change.layer: change}))
    told = measure_change(Models(source), encoding, [(3, 2)], "zero", None, None)
    assert told["mean"] > 0
    assert told["mean"] == pytest.approx(float(found[1].changes[0, 2, 0]), abs=1e-6)


def test_of_an_encoder_decoder_the_encoder_is_shown_and_said(tmp_path: Path) -> None:
    run = hs.analyze(
        train_toy("copy"), tokenizer=toy_tokenizer(), text=toy_examples("copy", 20),
        only=["position"], progress=False, out=tmp_path / "run",
    )  # fmt: skip
    models = Models(wrap_model(train_toy("copy"), toy_tokenizer()))
    session = Session([models], ExampleList(), run)
    boot = session.boot()
    assert boot["models"][0]["part"] == "encoder"
    source = models.source
    assert set(boot["runs"][0]["cards"]) == {head_name(*head) for head in all_heads(source)}
    table = run.tables["position"]
    own = table[(table["attention"] == "encoder") & (table["target"] == "next")]
    (measure,) = [m for m in boot["runs"][0]["measures"] if m["name"] == "next (weight)"]
    assert measure["values"] == pytest.approx(own["weight"].tolist(), rel=1e-4)
    n_own = sum(shown.view.kind == "encoder" for shown in run.examples)
    assert len(boot["runs"][0]["examples"]) == n_own < len(run.examples)
    told = session.spread({"head": "1-1", "role": "position: next"}, go_on)
    assert sum(row["count"] for row in told["rows"]) == 20


# Switching heads off.


def ablation_of(source: LoadedModel, text: str, head: tuple[int, int]) -> dict[str, float]:
    """What the analysis measures for this head."""
    means = find_means(source, [Example("m", text=SENTENCE)])
    encoding, _ = encode_text(source, Example("the text", text=text))
    found: dict[int, LayerChange] = {}
    ablated = AblationSource(HiddenStateOutcome(source), means, [head])
    ablated.attend(source.batch([encoding]), lambda change: found.update({change.layer: change}))
    return dict(zip(MODES, found[head[0]].changes[0, head[1]].tolist(), strict=True))


@pytest.mark.parametrize("name", ["bert", "llama", "gpt2"])
@pytest.mark.parametrize("mode", MODES)
def test_one_head_off_changes_what_ablation_measures(name: str, mode: str) -> None:
    source = source_of(name)
    encoding, _ = encode_text(source, Example("the text", text=SENTENCE))
    means = find_means(source, [Example("m", text=SENTENCE)])
    told = measure_change(Models(source), encoding, [(1, 3)], mode, None, means)
    assert told["mean"] == pytest.approx(ablation_of(source, SENTENCE, (1, 3))[mode], abs=1e-6)
    assert len(told["hidden"]) == len(encoding)


def test_several_heads_are_off_at_once_and_the_model_is_whole_again() -> None:
    source = source_of("bert")
    encoding, _ = encode_text(source, Example("the text", text=SENTENCE))

    def change(*heads: tuple[int, int]) -> list[float]:
        hidden: list[float] = measure_change(Models(source), encoding, heads, "zero", None, None)[
            "hidden"
        ]
        return hidden

    alone, both = change((0, 0)), change((0, 0), (2, 4))
    assert alone != both
    assert change((0, 0)) == alone
    assert max(change()) < 1e-6


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_predictions_are_those_of_the_model(name: str) -> None:
    head = language_model(name)
    source = head.without_head()
    encoding, _ = encode_text(source, Example("the text", text=SENTENCE))
    place = 3
    told = measure_change(Models(source, head), encoding, [(0, 1)], "zero", place, None)
    inputs = dict(head.batch([encoding]).inputs)
    ids = inputs["input_ids"].clone()
    if told["objective"] == "masked":
        ids[0, place] = head.encoder.tokenizer.mask_token_id
    with torch.inference_mode():
        shares = head.model(**{**inputs, "input_ids": ids}).logits[0, place].softmax(-1)
    assert told["predictions"][0][1] == pytest.approx(float(shares.max()), abs=1e-6)
    true = encoding.inputs["input_ids"][place + (told["objective"] == "next")]
    assert told["predictions"][told["true"]][1] == pytest.approx(float(shares[true]), abs=1e-6)
    assert all(before != after for _, before, after in told["predictions"])


def test_a_model_without_a_language_head_says_so() -> None:
    told = make_session().change({"text": TEXT, "heads": ["3-9"], "mode": "zero"}, go_on)
    assert told["why"].endswith("language-modelling head.")
    assert "predictions" not in told


def test_mean_outputs_need_a_corpus() -> None:
    session = Session([demo_models()], ExampleList())
    with pytest.raises(StudyError, match="corpus"):
        session.change({"text": TEXT, "heads": ["1-1"], "mode": "mean"}, go_on)


# The run.


def test_the_page_knows_the_run_and_its_plain_words(demo_run: DemoRun) -> None:
    run = load_run(demo_run.folder)
    told = describe_run(run)
    json.dumps(told, allow_nan=False)
    assert "determiner" in told["cards"]["3-9"]["words"]
    assert told["cards"]["3-9"]["kind"] == "a syntactic relation"
    assert {kind["name"] for kind in told["kinds"]} == {c["kind"] for c in told["cards"].values()}
    assert told["examples"]
    measures = {f"{m['group']}: {m['name']}": m for m in find_measures(run.tables)}
    table = run.tables["position"]
    row = table[(table["target"] == "previous") & (table["layer"] == 1) & (table["head"] == 3)]
    measure = measures["position: previous (weight)"]
    place = measure["heads"].index("1-3")
    assert measure["values"][place] == pytest.approx(float(row["weight"].iloc[0]), rel=1e-4)
    assert measure["low"][place] == pytest.approx(float(row["low"].iloc[0]), rel=1e-4)
    assert not any(name.startswith("dependency best") for name in measures)


def test_a_head_over_the_corpus_has_an_example_of_every_part_of_its_range(
    demo_run: DemoRun,
) -> None:
    run = load_run(demo_run.folder)
    session = make_session(run)
    told = session.spread({"head": "1-3", "role": "position: previous"}, go_on)
    scores = [row["score"] for row in told["rows"]]
    assert scores == sorted(scores, reverse=True)
    n_windows = run.manifest["counts"]["text"]["used"]
    assert sum(row["count"] for row in told["rows"]) == n_windows  # all texts of the demo
    assert "dependency: det" in told["roles"]
    assert {"coreference: all (coref-128)", "coreference: all (coref-512)"} <= set(told["roles"])
    row = told["rows"][0]
    example = session._example({"id": row["id"]})
    (encoding,) = session.models[0].source.encode([example], 128)
    result = measure_examples([example], session.models[0].source, [Position()], RunOptions())
    ((_, score),) = result.rankings["position"].find("previous", "best", (0, 2))
    assert row["score"] == pytest.approx(score, abs=1e-3)
    assert len(encoding) > 2


def test_windows_of_documents_are_found_again(demo_run: DemoRun) -> None:
    session = make_session(load_run(demo_run.folder))
    told = session.spread({"head": "2-2", "role": "coreference: all (coref-128)"}, go_on)
    assert all(row["id"] and row["text"] for row in told["rows"])
    assert session.look({"id": told["rows"][0]["id"]}, go_on)["chains"]


def test_a_run_without_examples_of_the_range_says_how_to_get_them(demo_run: DemoRun) -> None:
    run = replace(load_run(demo_run.folder), folder=None)
    with pytest.raises(StudyError, match="analyze` again with"):
        make_session(run).spread({"head": "1-3"}, go_on)


def test_a_corpus_that_is_gone_leaves_scores_and_counts(demo_run: DemoRun) -> None:
    run = load_run(demo_run.folder)
    passes = {k: {**p, "path": "/nowhere.conllu"} for k, p in run.manifest["passes"].items()}
    session = make_session(replace(run, manifest={**run.manifest, "passes": passes}))
    told = session.spread({"head": "1-3", "role": "position: previous"}, go_on)
    assert {row["id"] for row in told["rows"]} == {""}
    assert sum(row["count"] for row in told["rows"]) == run.manifest["counts"]["text"]["used"]
