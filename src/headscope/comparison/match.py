"""The whole of `headscope distance`: the heads of two models, or of more, matched on one text."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, combinations, islice
from logging import getLogger
from pathlib import Path
from typing import Any

import pandas as pd

from headscope.analyses.head_matches import HeadMatches
from headscope.arguments import checked
from headscope.contracts import CorpusRole
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.data.attention import head_name
from headscope.data.example import Example
from headscope.data.head_view import ShownExample, write_examples
from headscope.data.table import Tables
from headscope.data.words import split_words
from headscope.engine.analyze import analyze
from headscope.engine.head_views import view_heads
from headscope.engine.resolve import split_options
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel
from headscope.models.pair import ModelPair, WordPair, pair_models
from headscope.options import ModelOptions, build_options, collect_options, refuse_unknown
from headscope.runs.run import Run
from headscope.view.table import rows_of

__all__ = ["match_all", "match_models"]

log = getLogger("headscope")

# The closest matches are shown, on one of the first examples that is more than a heading.
SHOWN_MATCHES, READ = 8, 100
LEAST_LETTERS = 40
DRAWN_TOKENS = 24

ModelLike = str | Path | LoadedModel


@checked
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
    run, loading, _, of_analyses = split_options(options)
    refuse_unknown(of_analyses, collect_options(HeadMatches))
    analysis: HeadMatches = build_options(HeadMatches, of_analyses)
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
    analysis = replace(analysis, n_layers=pair.first.n_layers, seed=run.seed)
    of_model = collect_options(ModelOptions)
    rest = {n: v for n, v in options.items() if n not in of_analyses and n not in of_model}
    matched = analyze(
        pair, text=text, only=[analysis], out=out, resume=resume, progress=progress, **rest
    )
    shown = _show_matches(pair, matched.tables, text)
    if matched.folder is not None:
        write_examples(matched.folder, shown)
    return Run(matched.tables, matched.manifest, matched.folder, shown)


def match_all(
    models: Sequence[str], names: Sequence[str], out: str | Path, **options: Any
) -> dict[tuple[str, str], Run]:
    """The matches of every two of several models, each in its folder `out/A--B`."""
    pairs = combinations(zip(names, models, strict=True), 2)
    return {
        (a, b): match_models(first, second, out=Path(out) / f"{a}--{b}", **options)
        for (a, first), (b, second) in pairs
    }


def _show_matches(pair: ModelPair, tables: Tables, text: CorporaLike | None) -> list[ShownExample]:
    """The closest matches, both heads of each on one short example of the text."""
    matches = next(iter(tables.values()), pd.DataFrame())
    corpora = [] if text is None else as_corpora(text, CorpusRole.TEXT)
    examples = list(islice(chain.from_iterable(corpora), READ))
    long_enough = [example for example in examples if _length(example) >= LEAST_LETTERS]
    example = min(long_enough or examples, key=_length, default=None)
    if example is None or not len(matches):
        return []
    is_words = isinstance(pair, WordPair)
    example = split_words(example) if is_words else example
    shown: list[ShownExample] = []
    for row in rows_of(matches.sort_values("divergence", kind="stable").head(SHOWN_MATCHES)):
        first = int(row.layer_a) - 1, int(row.head_a) - 1
        second = int(row.layer_b) - 1, int(row.head_b) - 1
        title = f"matched: {head_name(*first)} and {head_name(*second)}"
        for model, head in ((pair.first, first), (pair.second, second)):
            (view,) = view_heads(model, example, [head], is_words, arcs=(), max_tokens=DRAWN_TOKENS)
            says = f"{row.divergence:.3f} nats apart"
            name = Path(model.name).name
            shown.append(ShownExample(title, name, float(row.divergence), says, view))
    return shown


def _length(example: Example) -> int:
    return len(example.text or " ".join(example.words or ()))
