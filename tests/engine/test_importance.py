"""Runs that watch gradients and changes: what is loaded and read once, and is the same after."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import PreTrainedModel

import headscope as hs
from headscope.data.example import Example
from headscope.engine import analyze as analyze_module
from headscope.engine import work as work_module
from headscope.engine.progress import Bars, show_progress
from headscope.errors import StudyError
from headscope.models.ablation import _altered, mean_outputs
from headscope.models.anatomy import eval_mode
from headscope.models.gradients import GradientSource
from headscope.models.language import build_task
from tests.models.test_gradients import language_model
from tests.models.tiny import SENTENCES, build_model, build_tokenizer

QUICK = {"progress": False, "shard_examples": 2, "examples": False}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny masked language model in a folder."""
    folder = tmp_path_factory.mktemp("models") / "tiny-bert"
    model = language_model("bert")
    model.model.save_pretrained(folder)
    model.encoder.tokenizer.save_pretrained(folder)
    return folder


def ablate(out: Path | None = None, **options: Any) -> hs.Run:
    model, tokenizer = build_model("bert"), build_tokenizer("wordpiece")
    given = {"text": SENTENCES[:5], "only": "ablation", "heads": "1-2,3-5", **QUICK, **options}
    return hs.analyze(model, tokenizer=tokenizer, out=out, **given)


def count_calls(
    monkeypatch: pytest.MonkeyPatch, target: Any, name: str, stop_after: int | None = None
) -> list[Any]:
    """The first arguments of the calls of a function, which then stops if it is told to."""
    calls: list[Any] = []
    real = getattr(target, name)

    def counted(*arguments: Any, **options: Any) -> Any:
        if len(calls) == stop_after:
            raise KeyboardInterrupt
        calls.append(arguments[0])
        return real(*arguments, **options)

    monkeypatch.setattr(target, name, counted)
    return calls


def test_the_mean_outputs_are_not_measured_again_by_a_run_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = ablate().tables["ablation"]
    with monkeypatch.context() as patched:
        passes = count_calls(patched, work_module, "mean_outputs")
        count_calls(patched, work_module, "measure_examples", stop_after=1)
        with pytest.raises(KeyboardInterrupt):
            ablate(tmp_path / "run")
        assert len(passes) == 1
    assert (tmp_path / "run/tallies/changes-text-means.safetensors").exists()
    monkeypatch.setattr(work_module, "mean_outputs", pytest.fail)
    resumed = ablate(tmp_path / "run", resume=True).tables["ablation"]
    pd.testing.assert_frame_equal(resumed, whole, check_exact=True)
    again = ablate(tmp_path / "run", resume=True).tables["ablation"]
    pd.testing.assert_frame_equal(again, whole, check_exact=True)


def test_the_pass_of_mean_outputs_has_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Bars] = []

    @contextmanager
    def keep(is_shown: bool) -> Iterator[Bars]:
        with show_progress(is_shown) as bars:
            shown.append(bars)
            yield bars

    monkeypatch.setattr(analyze_module, "show_progress", keep)
    ablate()
    tasks = [task for bars in shown for task in bars.progress.tasks]
    done = {task.description: (task.completed, task.total) for task in tasks}
    assert done["changes-text-means"] == done["changes-text"] == (5, 5)


def test_mean_outputs_tell_of_each_batch() -> None:
    model = hs.load_model("demo")
    encodings = model.encode([hs.Example(str(n), text=t) for n, t in enumerate(SENTENCES[:3])], 64)
    told: list[int] = []
    mean_outputs(model, [model.batch([encoding]) for encoding in encodings], progress=told.append)
    assert told == [1, 1, 1]


def test_gradients_and_attention_are_of_one_model_that_is_loaded_once(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    real = PreTrainedModel.from_pretrained.__func__

    def counted(kind: type, *arguments: Any, **options: Any) -> Any:
        loaded.append(kind.__name__)
        return real(kind, *arguments, **options)

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(counted))
    given = {"text": SENTENCES[:3], **QUICK}
    both = hs.analyze(saved, only="position", also="gradient,ablation", heads="1-1", **given)
    assert loaded == ["BertForMaskedLM"]
    assert set(both.manifest["analyses"]) == {"position", "gradient", "ablation"}
    assert set(both.tables["ablation"]["effect"]) == {"loss"}
    loaded.clear()
    plain = hs.analyze(saved, only="position", **given)
    assert loaded == ["BertModel"]
    pd.testing.assert_frame_equal(plain.tables["position"], both.tables["position"])
    assert plain.manifest["model"]["digest"] == both.manifest["model"]["digest"]


def test_a_model_without_a_head_leaves_gradients_out_and_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = {"text": SENTENCES[:3], **QUICK}
    run = hs.analyze("demo", only="position", also="gradient", **given)
    assert set(run.tables) == {"position"}
    assert "without a language-modelling head" in run.manifest["left_out"]["gradient"]
    (told,) = caplog.messages
    assert told.startswith("Skipped 'gradient': ")
    assert told.endswith("without a language-modelling head.")
    with pytest.raises(StudyError, match="without a language-modelling head"):
        hs.analyze("demo", only="gradient", **given)


@pytest.mark.parametrize("analysis", ["ablation", "gradient"])
def test_a_text_without_a_token_to_predict_changes_no_number_and_is_counted(analysis: str) -> None:
    model = language_model("gpt2")
    given = {"tokenizer": model.encoder.tokenizer, "only": analysis, **QUICK}
    texts = {str(n): text for n, text in enumerate([*SENTENCES, ".", "a", "T"])}
    examples = [hs.Example(name, text=text) for name, text in texts.items()]
    whole = hs.analyze(model.model, text=examples, **given)
    longer = hs.analyze(model.model, text=examples[: len(SENTENCES)], **given)
    (counts,) = whole.manifest["counts"].values()
    assert counts["used"] == len(SENTENCES)
    assert sum(counts["skipped"].values()) == 3
    assert [*counts["skipped_ids"].values()] == [["6", "7", "8"]]
    table, alone = whole.tables[analysis], longer.tables[analysis]
    if analysis == "ablation":  # the mean output of a head is over all tokens
        table, alone = (t[t["mode"] != "mean"] for t in (table, alone))
    pd.testing.assert_frame_equal(table, alone, check_exact=True)


def test_gradients_of_head_masks_are_those_of_the_scaled_heads() -> None:
    """By the slow way: the loss with one head's output a little larger and a little smaller."""
    task = build_task(language_model("llama"))
    model, step = task.source, 0.02
    examples = [Example("a", text=SENTENCES[0])]
    batch = model.batch(model.encode(examples, 64))
    seen: list[Any] = []
    GradientSource(task).attend(batch, seen.append)
    inputs, targets = task.prepare(batch)

    def loss(layer: int, head: int, factor: float) -> float:
        def scale(at: int, output: Any, weights: Any, values: Any) -> Any:
            output = output.clone()
            output[:, :, head] *= factor if at == layer else 1
            return output

        with _altered(model.model, scale), eval_mode(model.model), torch.no_grad():
            return float(task.losses(inputs, targets)[0])

    for shown in seen:
        for head in range(model.n_heads):
            slope = (loss(shown.layer, head, 1 + step) - loss(shown.layer, head, 1 - step)) / (
                2 * step
            )
            assert float(shown.masks[0, head]) == pytest.approx(slope, abs=1e-4)


def test_importance_stands_beside_ablation_with_the_rank_correlation() -> None:
    model = language_model("llama")
    done = hs.analyze(
        model.model, tokenizer=model.encoder.tokenizer, text=SENTENCES[:4],
        only="importance,ablation", **QUICK,
    )  # fmt: skip
    both = done.tables["importance-ablation"]
    assert len(both) == model.n_layers * model.n_heads
    removed = done.tables["ablation"].query("mode == 'zero'")
    assert both["ablation"].tolist() == removed["change"].tolist()
    ranks = [both["importance"].rank(), both["ablation"].abs().rank()]
    expected = np.corrcoef(*ranks)[0, 1]
    (agreement,) = done.tables["importance-agreement"].to_dict("records")
    assert agreement["rank_correlation"] == pytest.approx(expected)
