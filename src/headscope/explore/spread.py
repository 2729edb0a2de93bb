"""A head over the corpus: not its showpieces alone, but examples from every tenth of its range.

Some examples of each corpus of the run are scored anew, one by one, by the rankings of the run's
analyses: the same examples for all heads.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from headscope.contracts import Analysis, AttentionSource, CorpusRole
from headscope.data.example import Example, stable_hash
from headscope.engine.measure import measure_examples
from headscope.engine.resolve import restore_analysis
from headscope.explore.maps import Check
from headscope.explore.texts import Shelf, ShelfCorpus, excerpt
from headscope.options import RunOptions
from headscope.runs.run import Run
from headscope.stats.ranking import ENDS, Ranking

__all__ = ["Scored", "find_spreads", "score_corpora"]

SCORED = 60  # examples of a corpus, the same for all heads
SHOWN = 3  # examples of a tenth
TENTHS = 10
FEWEST = 3  # examples with a score, for a role to be shown
USUAL_TOKENS = 128  # of a run without --max-tokens


@dataclass(frozen=True)
class Scored:
    """An example, and its score for every head by every ranking of an analysis."""

    corpus: str
    example: Example
    analysis: str
    ranking: Ranking  # of this example alone


def score_corpora(
    source: AttentionSource, shelf: Shelf, run: Run, check: Check = lambda: None
) -> list[Scored]:
    """Some examples of each corpus, scored by all analyses of the run that rank examples."""
    scored: list[Scored] = []
    most = run.manifest["options"].get("max_tokens") or USUAL_TOKENS
    options = RunOptions()
    for corpus in shelf.corpora:
        analyses = _rankers(run, corpus)
        by_hash = sorted(corpus.examples.values(), key=lambda example: stable_hash(example.id))
        for example in by_hash[:SCORED] if analyses else []:
            check()
            limit = min(most if corpus.role is CorpusRole.TEXT else 512, source.max_tokens)
            result = measure_examples([example], source, analyses, options, corpus.role, limit)
            for name, ranking in result.rankings.items():
                scored.append(Scored(corpus.title, example, name, ranking))
    return scored


def find_spreads(scored: Sequence[Scored], place: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """For each ranking, the scores of one head in tenths of its range, with examples of each."""
    groups: dict[tuple[str, str, str], list[Scored]] = {}
    for one in scored:
        for criterion in one.ranking.ids:
            groups.setdefault((one.corpus, one.analysis, criterion), []).append(one)
    for (corpus, analysis, criterion), members in groups.items():
        found = _best_axis(members, criterion, place)
        if len(found) >= FEWEST and len(set(found.values())) > 1:
            by_id = {one.example.id: one.example for one in members}
            name = f"{analysis.replace('-', ' ')}: {criterion.replace('-', ' ')}"
            yield {"role": name, "corpus": corpus, **_tenths(found, by_id)}


def _rankers(run: Run, corpus: ShelfCorpus) -> list[Analysis]:
    """The analyses that the run did over this corpus and that rank examples."""
    names = [
        name
        for one in run.manifest.get("passes", {}).values()
        if str(one["path"]) == corpus.path and one["role"] == corpus.role
        for name in one["analyses"]
    ]
    described = run.manifest.get("analyses", {})
    restored = [restore_analysis(n, described.get(n, {})) for n in dict.fromkeys(names)]
    return [analysis for analysis in restored if hasattr(analysis, "rank")]


def _best_axis(
    members: Sequence[Scored], criterion: str, place: tuple[int, int]
) -> dict[str, float]:
    """Scores by example; of a ranking's further axes (a direction) the one this head does best."""
    n_more = members[0].ranking.ids[criterion].shape[4:]
    best: dict[str, float] = {}
    highest = -np.inf
    for more in product(*map(range, n_more)):
        own = {
            one.example.id: found[0][1]
            for one in members
            if (found := one.ranking.find(criterion, ENDS[0], (*place, *more)))
        }
        mean = float(np.mean(list(own.values()))) if own else -np.inf
        if mean > highest:
            best, highest = own, mean
    return best


def _tenths(scores: Mapping[str, float], by_id: Mapping[str, Example]) -> dict[str, Any]:
    least, most = min(scores.values()), max(scores.values())
    bounds = np.linspace(least, most, TENTHS + 1)
    which = {id: min(int(TENTHS * (s - least) / (most - least)), 9) for id, s in scores.items()}
    tenths = []
    for number in range(TENTHS):
        own = sorted((id for id in scores if which[id] == number), key=stable_hash)
        shown = [[id, round(scores[id], 4), excerpt(by_id[id])] for id in own[:SHOWN]]
        low, high = (float(bounds[number]), float(bounds[number + 1]))
        tenths.append({"low": low, "high": high, "count": len(own), "examples": shown})
    mean = float(np.mean(list(scores.values())))
    return {"count": len(scores), "mean": mean, "tenths": tenths}
