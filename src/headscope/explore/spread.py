"""A head over the run's corpora: not its showpieces alone, but examples from its whole range.

The run kept one of every part of the range of each head, and how many there are, while it
streamed. Which examples these are is found when a head is opened: the corpus is read again.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from headscope.contracts import AttentionKind, AttentionSource, CorpusRole
from headscope.data.example import Example
from headscope.engine.checkpoint import read_checkpoint
from headscope.engine.examples import read_again
from headscope.engine.plan import TEXT_TOKENS
from headscope.engine.sample import Sample, draw_sample
from headscope.errors import HeadscopeError, StudyError, suggest
from headscope.explore.maps import Check
from headscope.explore.texts import excerpt, open_measured
from headscope.runs.folder import RunFolder
from headscope.runs.run import Run
from headscope.runs.tables import tally_name
from headscope.stats.ranking import Ranking

__all__ = ["Spreads"]

NOT_KEPT = (
    "This run has no examples from the whole range of its heads: it was made by an older version "
    "of headscope, without --out, or its folder `tallies` is gone. To get them, run `headscope "
    "analyze` again with --out."
)


@dataclass(frozen=True)
class Role:
    """What a head was ranked by: a criterion of an analysis over one pass of the run."""

    key: str  # of the pass
    ranking: Ranking
    criterion: str


@dataclass
class Spreads:
    """The heads of a run over its corpora."""

    run: Run
    source: AttentionSource
    granted: Collection[str] = ()  # the paths of corpora that may be read
    found: dict[str, Example] = field(default_factory=dict)  # by id: all that was shown so far
    _roles: dict[str, Role] | None = None
    _samples: dict[str, Sample] = field(default_factory=dict)
    _known: dict[str, dict[int, Example]] = field(default_factory=dict)  # by pass, then hash

    def show(self, head: tuple[int, int], role: str, check: Check = lambda: None) -> dict[str, Any]:
        """One head by a role ("" is the one it scores best by): an example of each part of its
        range, with its score and how many there are."""
        place = (self.source.layer_numbers.index(head[0]), head[1])
        parts = {name: _best_axis(role, place) for name, role in self._find_roles().items()}
        parts = {name: axis for name, axis in parts.items() if axis}
        if not parts:
            raise StudyError(NOT_KEPT)
        if role and role not in parts:
            raise StudyError(
                f"No role {role!r}.{suggest(role, parts)} Expected one of the list; choose one."
            )
        role = role or max(parts, key=lambda name: _mean(parts[name]))
        key, axis = self._find_roles()[role].key, parts[role]
        known = self._read(key, {hash for hash, *_ in axis}, check)
        rows = [_row(known.get(hash), score, count) for hash, score, count in reversed(axis)]
        self.found |= {e.id: e for hash, *_ in axis if (e := known.get(hash))}
        corpus = str(self.run.manifest["passes"][key]["corpus"])
        return {"roles": list(parts), "role": role, "corpus": corpus, "rows": rows}

    def _find_roles(self) -> dict[str, Role]:
        """What heads were ranked by, by its name; read once."""
        if self._roles is None:
            listed = list(self._list_roles())
            names = [name for name, _ in listed]
            self._roles = {
                f"{name} ({role.key})" if names.count(name) > 1 else name: role
                for name, role in listed
            }
        return self._roles

    def _list_roles(self) -> Iterator[tuple[str, Role]]:
        for key, pass_ in self.run.manifest.get("passes", {}).items():
            path = RunFolder(self.run.folder).tally_path(key) if self.run.folder else None
            if pass_.get("repeats") is not None or path is None or not path.exists():
                continue
            rankings = read_checkpoint(path).result.rankings
            for analysis in pass_["analyses"]:
                of_encoder = tally_name(AttentionKind.ENCODER, analysis)
                ranking = rankings.get(analysis) or rankings.get(of_encoder) or Ranking()
                for criterion in ranking.part_ids:
                    name = f"{analysis}: {criterion}".replace("-", " ")
                    yield name, Role(key, ranking, criterion)

    def _read(self, key: str, hashes: Collection[int], check: Check) -> dict[int, Example]:
        """The examples of a pass by the hashes of their ids, as far as they can be read again."""
        known = self._known.setdefault(key, {})
        pass_, options = self.run.manifest["passes"][key], self.run.manifest["options"]
        role = CorpusRole(pass_["role"])
        usual = TEXT_TOKENS if role is CorpusRole.TEXT else pass_.get("window")
        most = options.get("max_tokens") or usual or self.source.max_tokens
        missing = set(hashes) - known.keys()
        try:
            if missing and key not in self._samples:
                self._samples[key] = draw_sample(open_measured(pass_, self.granted), None, 0)
            is_cut = pass_.get("cut") == "truncate"
            for example in (
                read_again(self._samples[key], role, is_cut, self.source, most, missing)
                if missing
                else ()
            ):
                check()
                known[example.key] = example
                missing.discard(example.key)
                if not missing:
                    break
        except HeadscopeError:  # gone or changed since: scores and counts are shown alone
            pass
        return known


def _best_axis(role: Role, place: tuple[int, int]) -> list[tuple[int, float, int]]:
    """The parts of a head's range; of further axes (a direction) the one that it does best."""
    n_more = role.ranking.part_ids[role.criterion].shape[3:]
    axes = [
        role.ranking.find_parts(role.criterion, (*place, *more))
        for more in product(*map(range, n_more))
    ]
    return max((parts for parts in axes if parts), key=_mean, default=[])


def _mean(parts: list[tuple[int, float, int]]) -> float:
    """About the mean of all scores: an example stands for its part of the range."""
    return sum(score * count for _, score, count in parts) / sum(count for *_, count in parts)


def _row(example: Example | None, score: float, count: int) -> dict[str, Any]:
    text = excerpt(example) if example else ""
    return {"id": example.id if example else "", "text": text, "score": score, "count": count}
