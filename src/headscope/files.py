"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex

from headscope.errors import WriteError

__all__ = ["explain_write_errors", "write_atomically"]


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside `path`, flush it to disk, and give it its name."""
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name[:100]}.{token_hex(8)}")
        try:
            with temporary.open("xb") as stream:  # readable by whom the umask says
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
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
