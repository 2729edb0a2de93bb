"""What a Trainer's trackers get of a measurement: TensorBoard's files, trackio offline."""

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)

import headscope as hs
from headscope.exports.trackers import list_numbers, log_figures
from headscope.models.demo import find_demo_folder
from tests.engine.made import run as made_run

TEXTS = ["The keeper lit her lamp.", "Bees fly far over the wide sea."]
STEPS = 3


def test_layers_and_notable_heads_have_their_shares() -> None:
    run = made_run(only="position,entropy")
    position = run.tables["position"]
    previous = position[position["target"] == "previous"]
    names: set[str] = set()
    numbers = list_numbers(run, names)
    for layer, part in previous.groupby("layer"):
        name = f"headscope/previous token/layer-{layer}"
        assert numbers[name] == pytest.approx(part["weight"].mean())
    heads = {name for name in numbers if "/head-" in name}
    assert heads == names
    assert "headscope/previous token/head-1-2" in heads, "the planted head"
    assert len([name for name in heads if name.startswith("headscope/previous token/")]) == 1
    names.add("headscope/previous token/head-3-5")
    again = list_numbers(run, names)
    assert again.keys() - numbers.keys() == {"headscope/previous token/head-3-5"}


def test_a_tracker_that_refuses_a_figure_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    class TensorBoardCallback:
        @property
        def tb_writer(self) -> Any:
            raise OSError("the disk is full")

    log_figures(made_run(only="position"), [TensorBoardCallback()], 7)
    assert "Figures were not logged at step 7: the disk is full" in caplog.text


def test_a_trainer_logs_to_all_that_it_reports_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))  # read when it is imported
    pytest.importorskip("trackio")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "events"))
    tokenizer = AutoTokenizer.from_pretrained(find_demo_folder())
    shape = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    shape |= {"intermediate_size": 8, "max_position_embeddings": 32, "vocab_size": len(tokenizer)}
    config = BertConfig(**shape)
    arguments = TrainingArguments(
        str(tmp_path / "checkpoints"),
        max_steps=STEPS,
        report_to=["tensorboard", "trackio"],
        project="heads",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    trainer = Trainer(
        BertForMaskedLM(config),
        arguments,
        train_dataset=[tokenizer(text) for text in TEXTS * 8],
        data_collator=DataCollatorForLanguageModeling(tokenizer),
        processing_class=tokenizer,
    )
    callback = hs.HeadscopeCallback(TEXTS, 2, tmp_path / "runs", only="position").attach(trainer)
    trainer.train()
    assert list(callback.folders) == [0, 2, STEPS]
    name = "headscope/previous token/layer-2"
    wanted = {}
    for step, folder in callback.folders.items():
        table = hs.load_run(folder).tables["position"]
        rows = table[(table["target"] == "previous") & (table["layer"] == 2)]
        wanted[step] = pytest.approx(rows["weight"].mean(), rel=1e-5)
    logged = {entry["step"]: entry[name] for entry in trainer.state.log_history if name in entry}
    assert logged == wanted

    read = events.EventAccumulator(str(tmp_path / "events"))
    read.Reload()
    assert {e.step: e.value for e in read.Scalars(f"train/{name}")} == wanted
    images = read.Images("headscope/position")
    assert [image.step for image in images] == [0, 2, STEPS]
    assert images[0].width > 100

    (database,) = (tmp_path / "trackio").glob("*.db")
    with sqlite3.connect(database) as connection:
        rows = [json.loads(row[0]) for row in connection.execute("SELECT metrics FROM metrics")]
    connection.close()
    assert [row[f"train/{name}"] for row in rows if f"train/{name}" in row] == [*wanted.values()]
    shown = [row["headscope/position"] for row in rows if "headscope/position" in row]
    assert len(shown) == 3
    assert all(re.search(r"\.png", json.dumps(value)) for value in shown)
