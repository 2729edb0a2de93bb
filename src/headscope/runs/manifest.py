"""What a run writes down about itself, in which format, and whether a folder holds the same run.

To change the format: raise FORMAT, and add the function that makes a manifest of the format before
into one of it, so that older runs can still be read. docs/stability.md lists all formats.
"""

import json
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headscope.errors import OutputError
from headscope.options import RunOptions, collect_options

__all__ = [
    "FORMAT", "begin_manifest", "find_difference", "numbers_of", "package_versions",
    "refuse_other_study", "upgrade_manifest",
]  # fmt: skip

FORMAT = 7  # raised when an older headscope could not read the folder, and when sums change
# format -> to the next one; their sums are refused (`engine/checkpoint.py`)
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
UPGRADES: Mapping[int, Upgrade] = dict.fromkeys(range(3, 7), dict)
# What may differ between a run and the same command that resumes it.
NOT_COMPARED = frozenset(
    {"format", "started", "versions", "status", "tables", "counts", "coverage", "left_out"}
    | {"seconds", "derived", "untrained_tables", "checksums", "failed", "failed_analyses"}
)
SPEED_ONLY = [n for n, o in collect_options(RunOptions).items() if not o.changes_numbers]


def begin_manifest(
    model: Mapping[str, Any], options: Mapping[str, Any], left_out: Mapping[str, str]
) -> dict[str, Any]:
    """What every run says of itself before it starts."""
    return {
        "model": dict(model),
        "left_out": dict(left_out),
        "options": dict(options),
        "versions": {
            **package_versions(),
            "python": platform.python_version(),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def package_versions() -> dict[str, str]:
    """The versions of the packages that numbers depend on."""
    return {name: version(name) for name in ("headscope", "torch", "transformers", "numpy")}


def numbers_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that change numbers: all but those of speed and memory."""
    return {name: value for name, value in options.items() if name not in SPEED_ONLY}


def refuse_other_study(path: Path, begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """A run is resumed only with what it was begun with: anything else would mix two answers."""
    if difference := find_difference(begun, now):
        raise OutputError(
            f"{path} holds another run: its {difference}. "
            "Expected the same command as before; repeat it, or choose another --out."
        )


def find_difference(begun: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What is not the same in two studies, in words; "" if all is."""
    names = {*begun, *now} - NOT_COMPARED
    for name in sorted(names, key=lambda name: (name != "options", name)):  # they explain the rest
        before, after = _comparable(name, begun.get(name)), _comparable(name, now.get(name))
        if before != after:
            what = "corpora" if name == "passes" else name
            return f"{what} differ ({_differences(before, after)})"
    return ""


def _comparable(name: str, value: Any) -> Any:
    value = json.loads(json.dumps(value, sort_keys=True))
    if name == "model":
        return {name: value.get(name) for name in ("digest", "tokenizer", "weights")}
    if name == "options":
        # batches are a matter of memory; shards must stay the same
        return {"shard": None} | value | {"batch_tokens": None}
    if name == "passes":
        return {key: [p["digest"], p["examples"], p["analyses"]] for key, p in value.items()}
    return value


def _differences(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        names: Sequence[str] = [
            name for name in {**before, **after} if before.get(name) != after.get(name)
        ]
        parts = [f"{name} {before.get(name)} there, {after.get(name)} now" for name in names]
        return "; ".join(parts)
    return f"{before} there, {after} now"


def upgrade_manifest(manifest: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest as this version writes it; an error if it is too old, or too new."""
    written = manifest.get("format")
    known = [FORMAT]
    while known[0] - 1 in UPGRADES:
        known.insert(0, known[0] - 1)
    if type(written) is not int or written not in known:
        is_newer = isinstance(written, int) and written > FORMAT
        expected = f"{known[0]} to {FORMAT}" if len(known) > 1 else f"{FORMAT}"
        todo = "update headscope" if is_newer else "run the analysis again with this version of it"
        raise OutputError(
            f"{folder} was written in format {written!r:.20}. This version of headscope expected "
            f"{expected}; {todo}."
        )
    for number in range(written, FORMAT):
        manifest = UPGRADES[number](manifest)
    return {**manifest, "format": FORMAT}
