"""A run in the data format of HeadVis, which Neuronpedia reads too.

    config.json           the model, its heads, and what each measure is
    scatter_data.json     a row for each head: its measures, with intervals as NAME_low, NAME_high
    heads/L0H0.json       a file for each head, counted from 0: its example sequences

Measures have the names that Neuronpedia loads wherever an analysis has declared such a number.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from headscope.data.head_view import ShownExample
from headscope.errors import StudyError
from headscope.exports.formats import Files, list_measured, refuse_kinds
from headscope.runs.run import Run
from headscope.view.behaviour import list_behaviours, measure_behaviour

__all__ = ["make_files"]

Place = tuple[int, int]  # layer and head, from 0
LOADED = (  # by Neuronpedia
    "self_attention_score", "prev_token_score", "pattern_entropy", "qk_distance",
    "qk_distance_variance", "induction_score",
)  # fmt: skip
BEST, WORST = 2, 1  # the intervals of a head's examples, of two
FAINT = 0.005  # smaller weights are left out, as in Neuronpedia's files
DEFAULT_TOKENS = 128
MARKERS = re.compile("^[\u0120\u2581]")  # of tokens that begin a word
CONTINUED = "##"
BRACKETS = re.compile(r" \([^()]*\{\}[^()]*\)")  # with a number, in the words of a behaviour


def make_files(run: Run, options: Mapping[str, Any]) -> Files:
    """The files of a run, by their paths."""
    if options:
        raise StudyError(
            f"--{next(iter(options))} does nothing in the format headvis. Expected --format "
            "duoattention with it; leave it out."
        )
    refuse_kinds(run, "headvis")
    measures = {name: frame for name, (_, frame) in _measures(run).items()}
    if not measures:
        raise StudyError(
            "This run has no number of every head, so there is nothing to show. Expected a run of "
            "`headscope analyze MODEL --text FILE`; measure one."
        )
    rows: dict[Place, dict[str, Any]] = {}
    for name, frame in measures.items():
        for record in frame.to_dict("records"):
            layer, head = int(record.pop("layer")) - 1, int(record.pop("head")) - 1
            row = rows.setdefault((layer, head), {"layer": layer, "head": head})
            row |= {_column(name, str(part)): _number(value) for part, value in record.items()}
    examples = defaultdict(list)
    for number, example in enumerate(run.examples):
        if example.end in ("best", "worst") and example.view.keys is None:
            examples[example.view.place].append(_sequence(example, number))
    files: dict[str, Any] = {
        f"heads/L{layer}H{head}.json": _describe_head(examples[layer, head]) for layer, head in rows
    }
    files |= {
        "config.json": _configure(run, sorted(rows)),
        "scatter_data.json": [rows[place] for place in sorted(rows)],
        "server_config.json": {},  # there is no server to ask
        "attributions/manifest.json": {},
    }
    return {path: json.dumps(content, allow_nan=False).encode() for path, content in files.items()}


def _measures(run: Run) -> dict[str, tuple[str, pd.DataFrame]]:
    """What every head is measured for: what it is, and the numbers with their intervals."""
    measures, known = {}, []
    for measured in list_measured(run.tables):
        spec = measured.spec
        known.append((spec.needs, spec.column, spec.where))
        if measured.heads is not None:
            measures[spec.name] = spec.says, measured.heads
    for behaviour in list_behaviours(run.tables):
        source = behaviour.needs, behaviour.column, behaviour.where
        if len(run.tables.get(behaviour.needs, ())) and source not in known:
            heads = measure_behaviour(behaviour, run.tables[behaviour.needs])
            name = re.sub(r"\W+", "_", behaviour.name).strip("_")
            says = f"Share to which the head {BRACKETS.sub('', behaviour.phrase)}."
            measures[name] = says, heads.rename(columns={"share": "value"})
    return {name: made for name, made in measures.items() if len(made[1])}


def _column(name: str, part: str) -> str:
    return name if part == "value" else f"{name}_{part}"


def _number(value: Any) -> float | None:
    return None if pd.isna(value) else round(float(value), 4)


def _configure(run: Run, places: Sequence[Place]) -> dict[str, Any]:
    model, measures = run.manifest["model"], _measures(run)
    key, first = next(iter(run.manifest["passes"].items()))
    counts = run.manifest["counts"].get(key, {})
    layers, heads = map(set, zip(*places, strict=True))
    shape = {"n_layers": len(layers), "n_heads": len(heads)}
    return {
        "model_name": model["name"],
        "dataset_name": first["corpus"],
        "heads": [list(place) for place in places],
        **shape,
        "n_intervals": BEST,
        "metrics": list(measures),
        "metric_descriptions": {name: says for name, (says, _) in measures.items()},
        "head_data_pattern": "L{layer}H{head}.json",
        "has_umap": False,
        "umap_heads": [],
        "custom_plots": [],
        "custom_tables": [],
        "statistics_display": {"n_samples": {"label": "Examples kept", "format": "default"}},
        "pipeline_config": {
            "n_sequences": counts.get("used", 0),
            "seq_len": run.manifest["options"].get("max_tokens") or DEFAULT_TOKENS,
            "dtype": model.get("dtype", ""),
            "attn_implementation": f"headscope ({model.get('weights', 'attention')})",
            "num_hidden_layers": shape["n_layers"],
            "num_attention_heads": shape["n_heads"],
            "not_measured": [name for name in LOADED if name not in measures],
            "intervals": "95 % over documents, as NAME_low and NAME_high",
            "versions": run.manifest["versions"],
        },
    }


def _sequence(example: ShownExample, number: int) -> dict[str, Any]:
    """An example as HeadVis keeps it: weights by their places in the flattened map."""
    view, n = example.view, len(example.view.units)
    rows, keys = (view.weights >= FAINT).nonzero()
    pairs = list(zip(rows.tolist(), keys.tolist(), strict=True))
    return {
        "sequence_id": number,
        "interval": BEST if example.end == "best" else WORST,
        "tokens": list(_spaced(view.units)),
        "attention_indices": [row * n + key for row, key in pairs],
        "attention_values": [round(float(view.weights[pair]), 4) for pair in pairs],
        "seq_len": n,
        "max_activation": round(float(view.weights[1:, 1:].max(initial=0)), 4),  # as they count
        "shown_for": example.title,
        "says": example.says,
        "example": view.example,
    }


def _spaced(units: Sequence[str]) -> Iterator[str]:
    """Tokens or words as text that can be joined."""
    is_marked = any(MARKERS.match(unit) for unit in units)
    for place, unit in enumerate(units):
        if is_marked:
            yield MARKERS.sub(" ", unit)
        elif unit.startswith(CONTINUED):
            yield unit.removeprefix(CONTINUED)
        else:
            yield f"{' ' * bool(place)}{unit}"


def _describe_head(sequences: list[dict[str, Any]]) -> dict[str, Any]:
    largest = [sequence["max_activation"] for sequence in sequences]
    mean = round(sum(largest) / len(largest), 4) if largest else None
    statistics = {"n_samples": len(sequences), "mean_max_activation": mean}
    return {"sequences": sequences, "statistics": statistics}
