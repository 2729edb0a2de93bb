"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkstemp

from headscope.errors import WriteError

__all__ = ["explain_write_errors", "write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside `path`, flush it to disk, and give it its name."""
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Say plainly why a file or folder could not be written: a full disk, a read-only folder."""
    try:
        yield
    except OSError as error:
        raise WriteError(
            f"{path} cannot be written: {error.strerror or error}. Expected a writable folder with "
            "free space; free some, or choose another --out."
        ) from error
