"""The whole of `headscope distance`: the heads of two models, or of more, matched on one text."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from logging import getLogger
from pathlib import Path
from typing import Any

from headscope.analyses.head_matches.measure import HeadMatches
from headscope.corpora.opening import CorporaLike
from headscope.data.head_view import ShownExample
from headscope.engine.analyze import analyze
from headscope.engine.examples import write_examples
from headscope.engine.match_examples import show_matches
from headscope.engine.resolve import split_options
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.models.word_pair import WordPair, pair_models
from headscope.options import ModelOptions, build_options, collect_options, refuse_unknown
from headscope.runs.run import Run

__all__ = ["match_all", "match_models"]

log = getLogger("headscope")

ModelLike = str | Path | LoadedModel


def match_models(
    first: ModelLike,
    second: ModelLike,
    *,
    text: CorporaLike | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    revision_a: str | None = None,
    revision_b: str | None = None,
    **options: Any,
) -> Run:
    """Which head of the first model attends like which of the second, matched one to one.

    Models with different tokenizers are compared by words. `options` are those of
    `headscope.analyze`; a `revision` is that of both models, `revision_a` and `revision_b` are
    those of one.
    """
    run, loading, _, own = split_options(options)
    refuse_unknown(own, collect_options(HeadMatches))
    analysis: HeadMatches = build_options(HeadMatches, own)
    models = [
        model
        if isinstance(model, LoadedModel)
        else load_model(
            model, seed=run.seed, **{**vars(loading), "revision": revision or loading.revision}
        )
        for model, revision in ((first, revision_a), (second, revision_b))
    ]
    pair = pair_models(*models)
    if isinstance(pair, WordPair):
        log.info("The models have different tokens, so attention between words is compared.")
    analysis = replace(analysis, n_layers=pair.first.n_layers)
    of_model = collect_options(ModelOptions)
    rest = {n: v for n, v in options.items() if n not in own and n not in of_model}
    done = analyze(
        pair, text=text, only=[analysis], out=out, resume=resume, progress=progress, **rest
    )
    shown: list[ShownExample] = show_matches(pair, done.tables, text)
    if done.folder is not None:
        write_examples(done.folder, shown)
    return Run(done.tables, done.manifest, done.folder, shown)


def match_all(
    models: Sequence[str], names: Sequence[str], out: str | Path, **options: Any
) -> dict[tuple[str, str], Run]:
    """The matches of every two of several models, each in its folder `out/A--B`."""
    return {
        (names[i], names[j]): match_models(
            models[i], models[j], out=Path(out) / f"{names[i]}--{names[j]}", **options
        )
        for i, j in combinations(range(len(models)), 2)
    }
