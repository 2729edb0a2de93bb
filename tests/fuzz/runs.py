"""Cases of damaged run folders, bad model folders and bad options."""

import json
import math
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import torch
from pandas.testing import assert_frame_equal
from transformers import BertConfig, BertModel

from headscope.comparison.match import match_models
from headscope.engine.analyze import analyze
from headscope.engine.checkpoint import read_checkpoint
from headscope.errors import HeadscopeError
from headscope.models.load import load_model
from headscope.options import ModelOptions, RunOptions, collect_options
from headscope.runs.run import load_run
from tests.fuzz.corpora import ACCEPTED, REFUSED, Failure, check_message
from tests.fuzz.mutate import NASTY, mutate
from tests.making import MadeSource, make_example
from tests.models.tiny import wordpiece_tokenizer

__all__ = ["make_model", "make_run", "try_model", "try_options", "try_run"]

EXAMPLES = [make_example(seed, n_words=4 + seed % 3) for seed in range(6)]
QUICK = {"progress": False, "examples": True}


@cache
def make_run(folder: Path) -> Any:
    """A finished run to damage, made if it is not there, and what it holds."""
    if not (folder / "run").exists():
        made = {"text": EXAMPLES, "treebank": EXAMPLES, "only": "position,dependency"}
        analyze(MadeSource(), out=folder / "run", **made, **QUICK)
    run = load_run(folder / "run")
    tallies = {path.name: read_checkpoint(path) for path in (folder / "run/tallies").iterdir()}
    return run, tallies


def try_run(rng: Random, folder: Path, good: Path) -> str:
    """Read a run of which one file is damaged: it is as it was, or it is refused."""
    run, tallies = make_run(good)
    files = sorted(p for p in (good / "run").rglob("*") if p.is_file() and p.suffix != ".csv")
    chosen = rng.choice(files)
    copy = folder / "run"
    shutil.copytree(good / "run", copy, copy_function=os.link)
    damaged = copy / chosen.relative_to(good / "run")
    content = mutate(rng, damaged.read_bytes())
    damaged.unlink()  # the good file stays as it is
    damaged.write_bytes(content)
    try:
        read = load_run(copy)
        for name, before in tallies.items():
            now = read_checkpoint(copy / "tallies" / name)
            if repr(now) != repr(before):
                raise Failure(f"{chosen.name} is damaged, and other sums were read")
    except HeadscopeError as error:
        check_message(str(error), copy, content)
        return REFUSED
    if read.manifest != run.manifest:
        raise Failure("another manifest was read without a word")
    for name, table in run.tables.items():
        assert_frame_equal(table, read.tables[name], check_dtype=False)
    if len(read.examples) != len(run.examples):
        raise Failure("examples were lost without a word")
    return ACCEPTED


@cache
def make_model(folder: Path) -> Path:
    """The smallest BERT with its tokenizer, in a folder."""
    if (folder / "model").exists():
        return folder / "model"
    torch.manual_seed(0)
    tokenizer = wordpiece_tokenizer()
    sizes = {"hidden_size": 8, "intermediate_size": 8, "max_position_embeddings": 64}
    config = BertConfig(
        vocab_size=len(tokenizer), num_hidden_layers=2, num_attention_heads=2, **sizes
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    return folder / "model"


def try_model(rng: Random, folder: Path, good: Path) -> str:
    """Measure with a model of which one file is damaged or one number is absurd."""
    shutil.copytree(make_model(good), folder / "model")
    files = ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors")
    path = folder / "model" / rng.choice(files)
    if path.suffix == ".json" and rng.random() < 0.7:
        values = json.loads(path.read_text())
        key = rng.choice(sorted(values))
        values[key] = rng.choice([-1, 0, 1, 3, 10**9, 10**30, "x", None, [], {}, True, 0.5, "NaN"])
        path.write_text(json.dumps(values))
    else:
        path.write_bytes(mutate(rng, path.read_bytes()))
    try:
        model = load_model(folder / "model")
        run = analyze(model, text=EXAMPLES, only="position,entropy", **QUICK)
    except HeadscopeError as error:
        if len(str(error)) > 1500:
            raise Failure(f"a message of {len(str(error))} characters") from error
        return REFUSED
    for table in run.tables.values():
        numbers = table.select_dtypes("number").drop(columns=["low", "high"], errors="ignore")
        if table.empty or not all(map(math.isfinite, numbers.fillna(0).to_numpy().ravel())):
            raise Failure("an empty or infinite table was made without a word")
    return ACCEPTED


VALUES: tuple[Any, ...] = (  # of Python; what the command line may bring is in NASTY
    *(-1, 0, 1, 2, 7, 8, 100, 2**31, 2**63 - 1, 2**63, 10**30, 10**5000, -(10**30), True, False),
    *(0.5, float("nan"), float("inf"), None, "", "x", "auto", "norm", "both", "\ud800", "a\0b"),
    *("x" * 300, "../" * 100, [], {}, [1], [10**5000], {"a": 1}, ["a=b"], object()),
)
TYPED = tuple(part.decode(errors="surrogateescape") for part in NASTY)


def try_options(rng: Random, folder: Path) -> str:
    """Ask for a run with bad values of options, names and paths."""
    names = [*collect_options(RunOptions, ModelOptions), "rows", "max_heads", "null_arcs", "coarse"]
    names += ["token_classes", "query_pieces", "out", "only", "also", "text", "model"]
    given: dict[str, Any] = {**QUICK, "text": EXAMPLES, "only": "position"}
    for name in rng.sample(names, rng.choice((1, 1, 2, 3))):
        given[name] = rng.choice(rng.choice((VALUES, VALUES, TYPED)))
    if isinstance(given.get("out"), str):
        given["out"] = f"{folder}/{given['out']}"
    model = given.pop("model", MadeSource())
    run: Callable[..., Any] = analyze if rng.random() < 0.9 else match_models
    try:
        if run is analyze:
            run(model, **given)
        else:
            run(model, MadeSource(), **given)
    except HeadscopeError as error:
        if len(str(error)) > 2500:
            raise Failure(f"a message of {len(str(error))} characters: {error}") from error
        return REFUSED
    return ACCEPTED
