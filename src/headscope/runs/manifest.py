"""What a run writes down about itself, and whether a folder holds the same run."""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headscope.contracts import AttentionSource
from headscope.errors import OutputError
from headscope.runs.sample import Sample
from headscope.runs.study import Options, Pass, describe_analyses

__all__ = ["describe_run", "refuse_other_study"]


def describe_run(
    source: AttentionSource,
    passes: Sequence[Pass],
    samples: Mapping[str, Sample],
    options: Options,
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Everything about a run that is known before it starts."""
    return {
        "model": source.describe(),
        "passes": {one.key: _describe_pass(one, samples[one.repeats or one.key]) for one in passes},
        "analyses": describe_analyses([a for one in passes for a in one.analyses]),
        "left_out": dict(left_out),
        "options": asdict(options),
        "versions": {
            **{name: version(name) for name in ("headscope", "torch", "transformers", "numpy")},
            "python": platform.python_version(),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _describe_pass(one: Pass, sample: Sample) -> dict[str, Any]:
    return {
        "corpus": one.corpus.name,
        "role": one.role,
        "path": str(getattr(one.corpus, "path", "")),
        "digest": one.corpus.digest(),
        "available": sample.n_available,
        "examples": sample.n_examples,
        "analyses": [analysis.name for analysis in one.analyses],
        "repeats": one.repeats,
        "variant": one.variant,
        "window": one.window,
        "skipped_files": getattr(one.corpus, "skipped_files", {}),
    }


def refuse_other_study(path: Path, begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A run is resumed only with what it was begun with: anything else would mix two answers."""
    facts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "model": lambda m: [m["model"]["digest"], m["model"].get("weights")],
        "corpora": lambda m: {key: p["digest"] for key, p in m["passes"].items()},
        "analyses": lambda m: m["analyses"],
        "options": lambda m: {**m["options"], "batch_tokens": None},  # a matter of memory alone
    }
    for name, fact in facts.items():
        before, after = _as_json(fact(begun)), _as_json(fact(now))
        if before != after:
            raise OutputError(
                f"{path} holds another run: its {name} differ ({before} there, {after} now). "
                "Expected the same command as before; repeat it, or choose another --out."
            )


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, sort_keys=True))
