"""The whole of `headscope distance`: the heads of two models matched on the same text."""

from pathlib import Path
from typing import Any

from headscope.analyses.head_matches.measure import HeadMatches
from headscope.corpora.opening import CorporaLike
from headscope.engine.analyze import analyze
from headscope.engine.resolve import split_options
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.models.pair import ModelPair
from headscope.options import ModelOptions, collect_options
from headscope.runs.run import Run

__all__ = ["match_models"]


def match_models(
    first: str | Path | LoadedModel,
    second: str | Path | LoadedModel,
    *,
    text: CorporaLike | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = True,
    **options: Any,
) -> Run:
    """Which head of the first model attends like which of the second, matched one to one.

    The models must share a vocabulary. `options` are those of `headscope.analyze`; a `revision` is
    that of both models.
    """
    run, loading, _, own = split_options(options)
    models = [
        model
        if isinstance(model, LoadedModel)
        else load_model(model, seed=run.seed, **vars(loading))
        for model in (first, second)
    ]
    pair = ModelPair(*models)
    analysis = HeadMatches(n_layers=pair.first.n_layers, **own)
    of_model = collect_options(ModelOptions)
    rest = {n: v for n, v in options.items() if n not in own and n not in of_model}
    return analyze(
        pair, text=text, only=[analysis], out=out, resume=resume, progress=progress, **rest
    )
