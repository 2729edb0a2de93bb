"""Files that are there whole or not at all, and are read only if they are what was written."""

import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from platform import node
from secrets import token_hex
from shutil import rmtree
from typing import Any

from headscope.errors import WriteError, shorten

__all__ = [
    "checksum", "explain_write_errors", "read_sealed", "refuse_unwritable", "seal",
    "sweep_temporaries", "write_atomically", "write_folder",
]  # fmt: skip

CHECKSUM = "checksum"  # of all else in a JSON object
HOST = sha256(node().encode()).hexdigest()[:6]
TEMPORARY = re.compile(r"\..+\.(?P<host>[0-9a-f]{6})-(?P<process>\d+)-[0-9a-f]{16}")
A_DAY = 24 * 3600  # after which a temporary file of another machine is nobody's


def checksum(content: bytes) -> str:
    """What tells two contents apart, however alike they are."""
    return sha256(content).hexdigest()


def seal(values: dict[str, Any], **layout: Any) -> bytes:
    """A JSON object with a checksum of itself; `layout` is for `json.dumps`."""
    plain = json.loads(json.dumps(values))
    sealed = {**plain, CHECKSUM: checksum(_canonical(plain))}
    return (
        json.dumps(sealed, ensure_ascii=False, **layout).encode(errors="backslashreplace") + b"\n"
    )


def read_sealed(path: Path) -> dict[str, Any]:
    """What `seal` made and a file holds; ValueError for anything else.

    An object without a checksum, as older versions wrote it, is taken as it is.
    """
    try:
        values = json.loads(path.read_bytes().decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    expected = values.pop(CHECKSUM, None)
    if expected is not None and checksum(_canonical(values)) != expected:
        raise ValueError("its checksum differs: it was altered or damaged")
    return values


def _canonical(values: dict[str, Any]) -> bytes:
    return json.dumps(values, sort_keys=True).encode()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside `path`, flush it to disk, and give it its name."""
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _name_temporary(path)
        try:
            with temporary.open("xb") as stream:  # readable by whom the umask says
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def write_folder(path: Path, files: Mapping[str, bytes]) -> None:
    """A new folder with these files, by their paths in it: all of them, or no folder."""
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = _name_temporary(path)
        try:
            for name, content in files.items():
                write_atomically(temporary / name, content)
            temporary.replace(path)  # also over an empty folder
        except BaseException:
            rmtree(temporary, ignore_errors=True)
            raise


def refuse_unwritable(path: Path) -> None:
    """An error if no folder can be made at this path, before there is anything to write."""
    with explain_write_errors(path):
        place = next(folder for folder in (path, *path.parents) if folder.exists())
        temporary = _name_temporary(place / "folder")
        temporary.mkdir()
        temporary.rmdir()


def _name_temporary(path: Path) -> Path:
    return path.with_name(f".{path.name[:100]}.{HOST}-{os.getpid()}-{token_hex(8)}")


def sweep_temporaries(folder: Path, is_deep: bool = True) -> None:
    """Remove what a killed process was writing in a folder; not what a living one still writes."""
    for path in folder.rglob(".*") if is_deep else folder.glob(".*"):
        match = TEMPORARY.fullmatch(path.name)
        if match and _is_abandoned(path, match["host"] == HOST, int(match["process"])):
            if path.is_dir():
                rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def _is_abandoned(path: Path, is_of_this_host: bool, process: int) -> bool:
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > A_DAY:
            return True
    if not is_of_this_host:
        return False
    try:
        os.kill(process, 0)  # asks whether it lives, and does nothing to it
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it lives, and is somebody else's
        return False
    return False


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Say plainly why a file or folder could not be written: a full disk, a read-only folder."""
    try:
        yield
    except (OSError, ValueError) as error:  # the latter: no name, or half a character in it
        reason = getattr(error, "strerror", None) or error
        raise WriteError(
            f"{shorten(str(path), 200)} cannot be written: {reason}. Expected a writable "
            "folder with free space; free some, or choose another --out."
        ) from error
