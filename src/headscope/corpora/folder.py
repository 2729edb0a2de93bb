"""The files of a folder as one corpus."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from headscope.contracts import Corpus
from headscope.data.example import Example
from headscope.errors import InputError

__all__ = ["FolderCorpus"]


@dataclass(frozen=True)
class FolderCorpus:
    """The files of a folder, one after the other; an id begins with its file's place in it.

    A file that cannot be read stops the reading at the end, with all such files named; or it is
    left out, if `skip_bad` says so.
    """

    path: Path
    members: dict[str, Corpus]  # by path within the folder
    skip_bad: bool = False

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def provides(self) -> frozenset[str]:
        members = self._good_members.values() if self.skip_bad else self.members.values()
        return frozenset.intersection(*(member.provides for member in members))

    @cached_property
    def skipped_files(self) -> dict[str, str]:
        """The files that are left out, and why."""
        return self._find_bad() if self.skip_bad else {}

    def __iter__(self) -> Iterator[Example]:
        bad: dict[str, str] = {}
        for place, member in self._good_members.items():
            try:
                for example in member:
                    yield replace(example, id=f"{place}/{example.id}")
            except InputError as error:
                bad[place] = str(error)
        if bad:
            self._refuse(bad)

    def digest(self) -> str:
        parts = (f"{place} {member.digest()}\n" for place, member in self._good_members.items())
        return sha256("".join(parts).encode()).hexdigest()

    @property
    def _good_members(self) -> dict[str, Corpus]:
        return {p: m for p, m in self.members.items() if p not in self.skipped_files}

    def _find_bad(self) -> dict[str, str]:
        """Read every file once, keeping nothing but what is wrong with it."""
        bad = {}
        for place, member in self.members.items():
            try:
                for _ in member:
                    pass
            except InputError as error:
                bad[place] = str(error)
        if len(bad) == len(self.members):
            self._refuse(bad)
        return bad

    def _refuse(self, bad: dict[str, str]) -> None:
        if len(self.members) == 1:
            raise InputError(next(iter(bad.values())))
        listed = "".join(f"  {reason}\n" for reason in bad.values())
        raise InputError(
            f"{len(bad)} of the {len(self.members)} files in {self.path} cannot be read:\n{listed}"
            "Expected files without errors; mend them, or pass --skip-bad to do without them."
        )
