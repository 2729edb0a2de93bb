"""Untrained models repeat the passes that a run really makes, no others."""

import headscope as hs
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.runs.run import Run
from tests.models.tiny import build_model, build_tokenizer
from tests.toy_seq2seq import toy_examples, toy_tokenizer, train_toy


def tiny_bert(**options: int) -> LoadedModel:
    return wrap_model(build_model("bert", **options), build_tokenizer("wordpiece"))


def assert_repeated(run: Run) -> None:
    """Every untrained pass repeats a pass of the run, with its window and analyses."""
    passes = run.manifest["passes"]
    untrained = {k: e for k, e in passes.items() if e["draw"] is not None}
    assert len(untrained) * 2 == len(passes)
    for entry in untrained.values():
        first = passes[entry["repeats"]]
        assert {k: entry[k] for k in ("window", "cut", "analyses", "attention")} == {
            k: first[k] for k in ("window", "cut", "analyses", "attention")
        }


def test_a_model_of_few_tokens_reads_documents_in_one_length_also_untrained() -> None:
    run = hs.analyze(tiny_bert(), coref="starter", null=1, progress=False)
    assert_repeated(run)
    assert "window" not in run.untrained["coreference"].columns


def test_a_model_of_one_layer_has_no_distances_untrained_either() -> None:
    run = hs.analyze(
        tiny_bert(num_hidden_layers=1), text=["Two boats, one harbour."] * 3, null=1, progress=False
    )
    assert "distance" not in run.tables
    assert "distance" not in run.untrained
    assert_repeated(run)


def test_an_encoder_decoder_is_measured_whole_also_untrained() -> None:
    run = hs.analyze(
        train_toy("copy"), tokenizer=toy_tokenizer(), text=toy_examples("copy", 20), null=1,
        progress=False,
    )  # fmt: skip
    assert_repeated(run)
    assert set(run.untrained) <= set(run.tables)
    for name, table in run.untrained.items():
        if "attention" in run.tables[name]:
            assert set(table["attention"]) == set(run.tables[name]["attention"])
    untrained, trained = (t["monotonicity"]["correlation"] for t in (run.untrained, run.tables))
    assert untrained.max() < trained.max()
