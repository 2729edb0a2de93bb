"""Files of arrays with facts and a checksum: what is read is what was written."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from headscope.errors import OutputError, shorten

__all__ = ["damaged", "describe_arrays", "read_arrays"]

FACTS, CHECKSUM = "facts", "checksum"


def read_arrays(path: Path, framework: str) -> tuple[dict[str, Any], Any]:
    """The arrays of a file and its facts, if they are those that were written."""
    try:
        with safe_open(path, framework=framework) as stream:
            metadata = stream.metadata()
            arrays = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise damaged(path, error) from error
    try:
        facts = json.loads(metadata[FACTS])
        plain = {
            name: value if framework == "numpy" else value.numpy() for name, value in arrays.items()
        }
        if metadata.get(CHECKSUM, found := _checksum(plain, metadata[FACTS])) != found:
            raise ValueError("its checksum differs")
        return arrays, facts
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise damaged(path, error) from error


def describe_arrays(arrays: Mapping[str, Any], facts: Any) -> dict[str, str]:
    """The facts of a file, and a checksum of these and of all its numbers."""
    text = json.dumps(facts)
    return {FACTS: text, CHECKSUM: _checksum(arrays, text)}


def _checksum(arrays: Mapping[str, Any], facts: str) -> str:
    digest = sha256(facts.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def damaged(path: Path, error: Exception) -> OutputError:
    """The error for a file that is not what was written."""
    return OutputError(
        f"{path} is damaged ({shorten(str(error))}). Expected what the run kept there; remove the "
        "file to have it made again with --resume, or remove the folder and run the analysis again."
    )
