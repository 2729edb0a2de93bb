"""Real models: what the package reports equals slow loops over the model's own attentions."""

from itertools import islice
from pathlib import Path

import pytest
import torch

import headscope as hs
from headscope.contracts import CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.data.counts import ExampleCounts
from headscope.data.encoding import Encoding
from headscope.data.example import Example
from headscope.engine.measure import measure_examples
from headscope.engine.resolve import build_analysis
from headscope.engine.windows import cut_documents
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.options import RunOptions
from headscope.runs.tables import make_tables
from tests.models.tiny import FAMILIES, SENTENCES, build_model, build_tokenizer
from tests.references import assert_equals_reference
from tests.shared import made_model, shared


def own_attentions(source: LoadedModel, encoding: Encoding) -> torch.Tensor:
    source.model.set_attn_implementation("eager")
    with torch.inference_mode():
        maps = source.model(**source.batch([encoding]).inputs, output_attentions=True).attentions
    return torch.cat(maps)  # [layer, head, query, key]


def model_path(name: str) -> str | Path:
    return "demo" if name == "demo" else shared(f"models/{name}")


@pytest.mark.parametrize("name", ["demo", "e5-small"])
def test_tables_equal_the_reference_on_a_real_model(name: str) -> None:
    source = load_model(model_path(name))
    examples = [
        Example("a", text="We ran.", text_pair="Who saw?"),
        Example("b", text="Bread rises."),
        Example("c", words=("She", "kept", "bees", ",", "too", ".")),
    ]
    encodings = source.encode(examples, 128)
    maps = [own_attentions(source, encoding).double().numpy() for encoding in encodings]
    run = hs.analyze(source, text=examples, progress=False)
    names = {"position", "special-tokens", "entropy", "max-weight", "distance"}
    made = {"distance-nearest", "distance-heads", "distance-layers", "layout", "dendrogram"}
    assert run.tables.keys() >= names | made
    for name in names:
        assert_equals_reference(run.tables[name], name, maps, encodings, tolerance=2e-6)


@pytest.mark.parametrize("name", ["gpt2", "mpnet", "modernbert"])
def test_distances_hold_where_attention_is_causal_local_or_seen_by_outputs(name: str) -> None:
    source = wrap_model(build_model(name), build_tokenizer(FAMILIES[name].tokenizer))
    examples = [Example(f"{i}", text=text) for i, text in enumerate(SENTENCES[:3])]
    encodings = source.encode(examples, 40)
    maps = [own_attentions(source, encoding).double().numpy() for encoding in encodings]
    run = hs.analyze(source, text=examples, only=["distance"], progress=False)
    assert_equals_reference(run.tables["distance"], "distance", maps, encodings, tolerance=2e-6)


def test_a_model_in_memory_is_measured_and_left_as_it_was() -> None:
    loaded = load_model("demo")
    model, tokenizer = loaded.model.train(), loaded.encoder.tokenizer
    model.set_attn_implementation("sdpa")
    run = hs.analyze(model, tokenizer=tokenizer, text=["A text.", "Another."], progress=False)
    assert len(run.tables["position"]) == 6 * 12 * 3
    assert model.training
    assert model.config._attn_implementation == "sdpa"
    with pytest.raises(hs.HeadscopeError, match="without its tokenizer"):
        hs.analyze(model, text=["A text."], progress=False)


def test_wikipedia_segments_show_the_heads_the_paper_found() -> None:
    text = shared("data/text/enwiki.txt")
    run = hs.analyze("demo", text=text, limit=40, paper_segments=True, progress=False)
    position = run.tables["position"].set_index(["layer", "head", "target"])
    assert position.loc[(1, 3, "previous"), "low"] > 0.9
    assert position.loc[(2, 9, "next"), "low"] > 0.5
    assert run.manifest["counts"]["text"]["used"] == 40
    entropy = run.tables["entropy"]
    assert (entropy["nats"] <= entropy["uniform"] + 1e-4).all()


@pytest.mark.parametrize("name", ["coreference", "gap"])
def test_antecedents_equal_the_reference_on_a_real_model(name: str) -> None:
    source = load_model("demo")
    path = "data/coref/gap-validation.tsv" if name == "gap" else "data/coref/ontogum"
    documents = list(islice(open_corpus(shared(path), "coref"), 3 if name == "gap" else 1))
    windows = cut_documents(documents, source, 128, ExampleCounts())[:2]
    encodings = source.encode(windows, 128)
    maps = [own_attentions(source, encoding).double().numpy() for encoding in encodings]
    analysis = build_analysis(name)
    result = measure_examples(windows, source, [analysis], RunOptions(), CorpusRole.TREEBANK)
    table = make_tables(analysis, result.tallies[name])[name]
    assert_equals_reference(table, name, maps, encodings, tolerance=2e-6)


def test_bert_base_has_four_previous_token_heads_as_in_the_paper() -> None:
    run = hs.analyze(
        made_model("bert-base-cased-ner"), text=shared("data/text/enwiki.txt"), limit=20,
        only="position", progress=False,
    )  # fmt: skip
    position = run.tables["position"]
    previous = position[(position["target"] == "previous") & (position["weight"] > 0.5)]
    assert {*zip(previous["layer"], previous["head"], strict=True)} == {
        (2, 5), (4, 12), (6, 2), (7, 2)
    }  # fmt: skip


PAIRS = Path(__file__).parents[1] / "samples/en-fr.jsonl"


def test_each_word_of_the_aligned_pairs_is_linked() -> None:
    for example in open_corpus(PAIRS, "text"):
        source, target = (example.text or "").split(), (example.text_pair or "").split()
        links = example.links or ()
        assert {link[0] for link in links} == {*range(len(source))}, example.id
        assert {link[1] for link in links} == {*range(len(target))}, example.id


def test_a_translation_model_aligns_words_better_than_the_diagonal_and_untrained() -> None:
    pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    folder = made_model("opus-mt-en-fr")
    run = hs.analyze(folder, text=PAIRS, only="word-alignment", null=1, progress=False)
    best = run.tables["word-alignment"].nsmallest(1, "aer").iloc[0]
    assert (best["layer"], best["head"], best["step"]) == (6, 1, "output")
    assert best["high"] < 0.1 < 0.3 < best["diagonal_aer"] < 0.7 < best["untrained"]
