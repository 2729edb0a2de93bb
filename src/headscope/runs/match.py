"""The whole of `headscope distance`: the heads of two models matched on the same text."""

from pathlib import Path
from typing import Any

from headscope.analyses.distance import ROWS
from headscope.analyses.head_matches import HeadMatches
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.models.pair import ModelPair
from headscope.runs.analyze import analyze
from headscope.runs.given import CorpusLike
from headscope.runs.results import Run

__all__ = ["match_models"]


def match_models(
    first: str | Path | LoadedModel,
    second: str | Path | LoadedModel,
    *,
    text: CorpusLike | None = None,
    rows: int = ROWS,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    **options: Any,
) -> Run:
    """Which head of the first model attends like which of the second, matched one to one.

    The models must share a vocabulary. `options` are those of `headscope.analyze`.
    """
    loading: dict[str, Any] = {
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
    }
    seed = options.get("seed", 0)
    models = [
        model if isinstance(model, LoadedModel) else load_model(model, seed=seed, **loading)
        for model in (first, second)
    ]
    pair = ModelPair(*models)
    analysis: Any = HeadMatches(pair.first.n_layers, rows)
    return analyze(pair, text=text, only=[analysis], **options)
