"""A run as a pattern of DuoAttention: which heads of a decoder need all keys and values.

    full_attention_heads.tsv   a line for each layer, a number from 0 to 1 for each KV head
    config.json                `sink_size` and `recent_size`: what the other heads keep

Query heads that share keys and values need all of them if one does, so a KV head has the largest
number of its query heads. Readers choose the heads with the highest numbers.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headscope.errors import StudyError, shorten, suggest
from headscope.exports.formats import Files, Measured, list_measured, refuse_kinds
from headscope.runs.run import Run

__all__ = ["make_files"]

SINK, RECENT = 128, 256  # of the patterns that come with DuoAttention
DIGITS = "%.6g"


def make_files(run: Run, options: Mapping[str, Any]) -> Files:
    """The two files of a pattern, by their names."""
    refuse_kinds(run, "duoattention")
    measured = _choose(run, options.get("measure"))
    window = _read_window(run, measured, options)
    scores, n_groups = _score_heads(run, measured), _count_groups(run)
    by_group = scores.reshape(len(scores), n_groups, -1).max(axis=2)  # [layer, group]
    model = run.manifest["model"]
    config = {
        "model_name": model["name"],
        **window,
        "measure": measured.spec.for_cache,
        "says": measured.spec.says,
        "of_group": "largest",
        "num_hidden_layers": len(scores),
        "num_key_value_heads": n_groups,
        "digest": model["digest"],
        "versions": run.manifest["versions"],
    }
    lines = ("\t".join(DIGITS % number for number in row) + "\n" for row in by_group)
    return {
        "full_attention_heads.tsv": "".join(lines).encode(),
        "config.json": json.dumps(config, indent=2).encode() + b"\n",
    }


def _choose(run: Run, name: str | None) -> Measured:
    """The measure of this name."""
    known = {m.spec.for_cache: m for m in list_measured(run.tables) if m.spec.for_cache}
    if name is None or name not in known:
        wrong = "Nothing says which heads need all keys and values."
        if name is not None:
            wrong = f"No measure {shorten(name)!r} for a cache.{suggest(name, known)}"
        here = [name for name, measured in known.items() if measured.heads is not None]
        raise StudyError(
            f"{wrong} Expected --measure {' or '.join(known)}; this run has "
            f"{', '.join(here) or 'none of them'}."
        )
    if known[name].heads is None:
        raise StudyError(
            f"This run has no {name}. Expected a run of `headscope analyze MODEL "
            f"{known[name].made_by}`; measure it, or choose another --measure."
        )
    return known[name]


def _read_window(run: Run, measured: Measured, options: Mapping[str, Any]) -> dict[str, int]:
    """How many first and recent tokens a head without all keys keeps."""
    names, window = ("first", "recent"), (SINK, RECENT)
    if measured.spec.window is not None:
        used = run.manifest["analyses"][measured.analysis]
        window = tuple(used[name] for name in measured.spec.window)
    chosen = {name: options.get(name, least) for name, least in zip(names, window, strict=True)}
    least = dict(zip(names, window if measured.spec.window else (0, 1), strict=True))
    for name, value in chosen.items():
        if value < least[name]:
            raise StudyError(
                f"--{name} {value} cannot be used. Expected {least[name]} or more, as nothing is "
                f"known of a smaller window; raise it."
            )
    return {"sink_size": chosen["first"], "recent_size": chosen["recent"]}


def _score_heads(run: Run, measured: Measured) -> NDArray[np.float64]:
    """The number of every head, by layer and head."""
    model, heads = run.manifest["model"], measured.heads
    assert heads is not None
    places = heads[["layer", "head"]].to_numpy(int)
    n_layers, n_heads = places.max(axis=0)
    if model.get("layer_numbers", []) != [*range(1, n_layers + 1)]:
        raise StudyError(
            f"Some layers of {model['name']} have no attention, and DuoAttention has a line for "
            "each layer. Expected attention in all layers; choose another model."
        )
    scores = np.full((n_layers, n_heads), np.nan)
    scores[tuple(places.T - 1)] = heads["value"]
    if np.isnan(scores).any():
        raise StudyError(
            f"{measured.spec.for_cache} has no number for {int(np.isnan(scores).sum())} heads of "
            f"this run. Expected one for each head; measure more text, or choose another --measure."
        )
    return scores.clip(0, 1)


def _count_groups(run: Run) -> int:
    """How many KV heads a layer has."""
    model = run.manifest["model"]
    n_groups = int(model.get("key_value_heads", 0))
    if not n_groups or model["heads"] % n_groups:  # older runs do not say it
        raise StudyError(
            f"How many KV heads {model['name']} has is not in the run. Expected a model with the "
            "same number in every layer, measured with this version; run `headscope analyze` again."
        )
    return n_groups
