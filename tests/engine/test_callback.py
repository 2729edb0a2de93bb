"""Measuring while a model learns, on a small real training."""

import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

import headscope as hs
from headscope.errors import OutputError, StudyError
from headscope.models.demo import find_demo_folder

TEXTS = ["The keeper lit her lamp.", "Bees fly far over the wide sea.", "Ships come home."]
STEPS = 6


def train(folder: Path, *callbacks: Any) -> BertForMaskedLM:
    """A tiny BERT with dropout after a few steps, always the same ones."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(find_demo_folder())
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=10,
        num_hidden_layers=3,
        num_attention_heads=5,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    model = BertForMaskedLM(config)
    arguments = TrainingArguments(
        str(folder / "checkpoints"),
        max_steps=STEPS,
        learning_rate=0.01,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        model,
        arguments,
        train_dataset=[tokenizer(text) for text in TEXTS * 8],
        data_collator=DataCollatorForLanguageModeling(tokenizer),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )
    trainer.train()
    return model


def watch(folder: Path, **options: Any) -> hs.HeadscopeCallback:
    return hs.HeadscopeCallback(
        **{"text": TEXTS, "every": 4, "out": folder / "runs", "only": "position", **options}
    )


def test_a_series_of_runs_is_written_and_training_is_not_touched(tmp_path: Path) -> None:
    callback = watch(tmp_path)
    watched = train(tmp_path, callback)
    assert list(callback.folders) == [0, 4, STEPS]
    runs = {step: hs.load_run(tmp_path / f"runs/step-{step}") for step in callback.folders}
    assert len({run.manifest["model"]["digest"] for run in runs.values()}) == 3
    assert all(len(run.tables["position"]) == 3 * 5 * 3 for run in runs.values())
    again = hs.analyze(
        watched, tokenizer=AutoTokenizer.from_pretrained(find_demo_folder()), text=TEXTS,
        only="position", progress=False,
    )  # fmt: skip
    assert again.tables["position"].equals(runs[STEPS].tables["position"])
    alone = train(tmp_path)
    for name, weights in alone.state_dict().items():
        assert torch.equal(weights, watched.state_dict()[name]), name
    with pytest.raises(OutputError, match="step-0 exists already"):
        train(tmp_path, watch(tmp_path))


def test_what_fails_later_is_told_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Block(hs.HeadscopeCallback):
        """Something takes the place of a folder while the model learns."""

        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if state.global_step == 4:
                (tmp_path / "runs/step-4").write_text("in the way")
            super().on_step_end(args, state, control, **given)

    callback = Block(TEXTS, 4, tmp_path / "runs", only="position")
    with caplog.at_level(logging.WARNING, logger="headscope"):
        train(tmp_path, callback)
    assert "Step 4 was not measured" in caplog.text
    assert list(callback.folders) == [0, STEPS]


def test_a_series_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    from transformers import TrainerControl, TrainerState

    (tmp_path / "runs/step-4").mkdir(parents=True)
    callback = watch(tmp_path)
    state = TrainerState(global_step=4)
    callback.on_train_begin(None, state, TrainerControl(), model=None)  # type: ignore[arg-type]
    assert list(callback.folders) == [4]  # measured before, and not again


def test_what_cannot_be_measured_is_told_before_training(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="Nothing was given"):
        hs.HeadscopeCallback()
    with pytest.raises(StudyError, match="every=0"):
        watch(tmp_path, every=0)
    with pytest.raises(hs.HeadscopeError, match="No corpus"):
        watch(tmp_path, text="nowhere.txt")
    with pytest.raises(StudyError, match="No analysis named"):
        train(tmp_path, watch(tmp_path, only="positoin"))
