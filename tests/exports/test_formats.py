"""Files for HeadVis and DuoAttention: read back as their readers do, and what is refused."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, Field
from typer.testing import CliRunner

import headscope as hs
from headscope.cli import app
from headscope.errors import OutputError, StudyError
from tests.engine.made import run as made_run
from tests.exports.made import N_HEADS, N_LAYERS, decoder_run


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)


class Config(Strict):
    """What HeadVis reads of `config.json`."""

    model_name: str
    dataset_name: str
    heads: list[list[int]]
    n_layers: int
    n_heads: int
    n_intervals: int
    metrics: list[str] = Field(min_length=1)
    metric_descriptions: dict[str, str]
    head_data_pattern: str
    has_umap: bool
    pipeline_config: dict[str, Any]


class Sequence(Strict):
    sequence_id: int
    interval: int = Field(ge=1)
    tokens: list[str]
    attention_indices: list[int]
    attention_values: list[float]
    seq_len: int
    max_activation: float


class Head(Strict):
    """`heads/L0H0.json`."""

    sequences: list[Sequence]
    statistics: dict[str, float | int | None]


# What Neuronpedia's loader asks for in the configuration or its `pipeline_config`.
REQUIRED = {"model_name", "dataset_name", "n_sequences", "seq_len", "dtype", "attn_implementation"}


def load_headvis(folder: Path) -> tuple[Config, list[dict[str, Any]], dict[str, Head]]:
    """The folder as HeadVis and Neuronpedia read it."""
    raw = json.loads((folder / "config.json").read_text())
    config = Config.model_validate(raw)
    flat = {**raw["pipeline_config"], **raw}
    assert all(flat.get(name) is not None for name in REQUIRED)
    rows = json.loads((folder / "scatter_data.json").read_text())
    heads = {}
    for row in rows:
        name = f"L{row['layer']}H{row['head']}"
        heads[name] = Head.model_validate_json((folder / "heads" / f"{name}.json").read_text())
    return config, rows, heads


def test_headvis_has_a_row_and_a_file_for_each_head_counted_from_0(tmp_path: Path) -> None:
    folder = hs.export(decoder_run(), tmp_path / "headvis")
    config, rows, heads = load_headvis(folder)
    assert config.heads == [[layer, head] for layer in range(N_LAYERS) for head in range(N_HEADS)]
    assert (config.n_layers, config.n_heads) == (N_LAYERS, N_HEADS)
    assert len(heads) == N_LAYERS * N_HEADS == len(list((folder / "heads").iterdir()))
    last = rows[-1]
    assert (last["layer"], last["head"], last["qk_distance"]) == (2, 3, 5.0)
    assert (last["qk_distance_low"], last["qk_distance_high"]) == (4.0, 6.0)
    assert (last["beyond_window"], last["beyond_window_low"]) == (0.55, 0.54)
    assert set(config.metrics) == config.metric_descriptions.keys()
    assert set(config.metrics) <= last.keys()


def test_headvis_has_examples_as_sparse_maps(tmp_path: Path) -> None:
    *_, heads = load_headvis(hs.export(decoder_run(), tmp_path / "headvis"))
    (best,), (worst,) = heads["L1H2"].sequences, heads["L1H3"].sequences
    assert (worst.interval, best.interval) == (1, 2)
    assert best.tokens == ["A", " sea", " gull"]
    assert best.attention_indices == [0, 3, 4, 7]  # query * length + key, faint ones left out
    assert best.attention_values == [1.0, 0.4, 0.6, 0.9996]
    assert best.max_activation == 0.9996  # beside the first row and column
    assert heads["L0H0"].sequences == []


def test_headvis_names_the_numbers_of_a_real_run_as_neuronpedia_does(tmp_path: Path) -> None:
    run = made_run(only="position,entropy,reach")
    config, rows, heads = load_headvis(hs.export(run, tmp_path / "headvis"))
    known = {"self_attention_score", "prev_token_score", "pattern_entropy", "qk_distance"}
    assert {*known, "qk_distance_variance"} <= set(config.metrics)
    position = run.tables["position"]
    wanted = position[position["target"] == "previous"].set_index(["layer", "head"])["weight"]
    for row in rows:
        expected = wanted[row["layer"] + 1, row["head"] + 1]
        assert math.isclose(row["prev_token_score"], expected, abs_tol=1e-4)
    n_places = {(name, s.seq_len, len(s.tokens)) for name, h in heads.items() for s in h.sequences}
    assert n_places
    assert all(length == n_tokens for _, length, n_tokens in n_places)


def load_pattern(folder: Path) -> tuple[np.ndarray, int, int]:
    """A pattern as DuoAttention and kvpress read it."""
    text = (folder / "full_attention_heads.tsv").read_text()
    scores = np.loadtxt(text.splitlines(), dtype=float, delimiter="\t")
    config = json.loads((folder / "config.json").read_text())
    return np.clip(scores, 0, 1), config["sink_size"], config["recent_size"]


def test_a_kv_head_has_the_largest_number_of_its_query_heads(tmp_path: Path) -> None:
    folder = hs.export(decoder_run(), tmp_path / "kv", "duoattention", measure="reach")
    scores, sink, recent = load_pattern(folder)
    assert scores.tolist() == [[0.05, 0.15], [0.25, 0.35], [0.45, 0.55]]
    assert (sink, recent) == (4, 64)  # what was measured


def test_the_measure_and_the_window_are_chosen(tmp_path: Path) -> None:
    run, options = decoder_run(), {"first": 16, "recent": 128}
    folder = hs.export(run, tmp_path / "a", "duoattention", measure="retrieval", **options)
    scores, *window = load_pattern(folder)
    assert scores[0].tolist() == [0.45, 0.55]
    assert window == [16, 128]
    _, *window = load_pattern(
        hs.export(run, tmp_path / "b", "duoattention", measure="reach", recent=128)
    )
    assert window == [4, 128]


@pytest.mark.parametrize(
    ("format", "options", "message"),
    [
        ("hedvis", {}, "No format 'hedvis'.*Did you mean 'headvis'"),
        ("headvis", {"measure": "reach"}, "measure does nothing.*duoattention"),
        ("duoattention", {}, "Expected measure=.*this run has retrieval, reach"),
        ("duoattention", {"measure": "rech"}, "No measure 'rech'.*Did you mean 'reach'"),
        ("duoattention", {"measure": "induction"}, "has no induction.*--text repeats"),
        ("duoattention", {"measure": "reach", "recent": 8}, "recent=8 cannot be used.*64 or more"),
        ("duoattention", {"measure": "retrieval", "recent": 0}, "1 or more"),
    ],
)
def test_what_cannot_be_exported_is_told_and_nothing_is_written(
    tmp_path: Path, format: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StudyError, match=message):
        hs.export(decoder_run(), tmp_path / "out", format, **options)
    assert not list(tmp_path.iterdir())


def test_a_run_without_what_a_format_needs_is_told(tmp_path: Path) -> None:
    run = decoder_run()
    model = run.manifest["model"]
    no_groups = replace(run, manifest={**run.manifest, "model": {**model, "key_value_heads": 0}})
    hybrid = replace(
        run, manifest={**run.manifest, "model": {**model, "layer_numbers": [4, 8, 12]}}
    )
    empty = replace(run, tables={"word-pieces": run.tables["reach"][["layer"]]})
    kinds = replace(run, tables={"reach": run.tables["reach"].assign(attention="cross")})
    to_cache = {"format": "duoattention", "measure": "reach"}
    for wrong, options, message in (
        (no_groups, to_cache, "How many KV heads made has"),
        (hybrid, to_cache, "Some layers of made have no attention"),
        (empty, {}, "no number of every head"),
        (kinds, {}, "several kinds of attention"),
        (run, {"out": None}, "has no folder"),
    ):
        with pytest.raises(StudyError, match=message):
            hs.export(wrong, **{"out": tmp_path / "out", **options})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(OutputError, match="is not empty"):
        hs.export(decoder_run(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_full_disk_leaves_no_part_of_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_left = 5

    def fill(descriptor: int) -> None:
        nonlocal n_left
        n_left -= 1
        if n_left < 0:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("headscope.files.os.fsync", fill)
    with pytest.raises(OutputError, match="No space left"):
        hs.export(decoder_run(), tmp_path / "headvis")
    assert not list(tmp_path.iterdir())


def test_the_command_says_where_it_wrote_and_fails_in_one_sentence(
    tmp_path: Path, demo_run: Any
) -> None:
    runner, out = CliRunner(env={"COLUMNS": "200"}), tmp_path / "headvis"
    command = ["export", str(demo_run.folder), "--format"]
    done = runner.invoke(app, [*command, "headvis", "--out", str(out)])
    assert done.exit_code == 0, done.stderr
    assert done.stdout.strip() == str(out)
    assert len(load_headvis(out)[1]) == 72
    options = ["--measure", "retrieval", "--out", str(tmp_path / "kv")]
    told = runner.invoke(app, [*command, "duoattention", *options])
    assert told.exit_code == 2
    assert re.search(r"^Error: This run has no retrieval\. .*--also retrieval", told.stderr)
