"""From what a user names to a page: models, run and texts, then a server or a file."""

from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headscope.arguments import checked
from headscope.data.attention import parse_head_name
from headscope.engine.head_views import refuse_absent_heads
from headscope.engine.open_models import Models, open_models
from headscope.errors import OutputError, StudyError
from headscope.explore.kinds import list_kinds
from headscope.explore.notebook import can_show, show_cell
from headscope.explore.page import live_cell, render_page
from headscope.explore.session import Session
from headscope.explore.texts import ExampleList, list_examples, list_foreign, read_texts
from headscope.files import write_atomically
from headscope.options import (
    ModelOptions,
    RunOptions,
    build_options,
    collect_options,
    refuse_unknown,
)
from headscope.runs.run import Run, load_run

if TYPE_CHECKING:
    from headscope.explore.cell import Cell
    from headscope.explore.server import LiveServer

__all__ = ["Explorer", "open_explorer", "open_session", "save_page", "serve"]

FIRST_TEXT = "The keeper lit her lamp before the ships came home."


@checked
def open_session(
    model: Any,
    *,
    run: str | Path | Run | None = None,
    text: str | None = None,
    sentence: str | None = None,
    head: str | None = None,
    beside: Any = None,
    tokenizer: Any = None,
    may_read: Callable[[Sequence[str]], bool] = lambda paths: False,
    **options: Any,
) -> Session:
    """The model, or two side by side, loaded once, with what the page shows first.

    `may_read` is asked once whether these corpora, which a run's folder names, may be read.
    """
    refuse_unknown(options, collect_options(ModelOptions))
    if text is not None and sentence is not None:
        raise StudyError("Both a text and --sentence were given. Expected one; leave one out.")
    texts = read_texts(text) if text is not None else []
    loaded = load_run(run, skip_missing=True) if isinstance(run, (str, Path)) else run
    granted = _grant(loaded, may_read)
    listed = _list_examples_of(loaded, sentence, granted)
    if sentence is not None:
        listed.find(sentence)  # an error if it is not there
    chosen: ModelOptions = build_options(ModelOptions, options)
    models = [
        open_models(one, tokenizer, chosen, RunOptions(), needs_head=True)
        for one in (model, *([] if beside is None else [beside]))
    ]
    _refuse_other_model(loaded, models[0])
    models += list_kinds(models[0])
    start = _start(texts, sentence, head, models[0].source, beside is not None)
    return Session(models, listed, loaded, start, texts, granted)


class Explorer:
    """The explorer of a model: live in a cell of a notebook, or saved as one page."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __repr__(self) -> str:
        names = " and ".join(models.name for models in self.session.models)
        return f"<Explorer of {names}: a notebook shows it; .save('page.html') writes one page>"

    def save(self, path: str | Path) -> Path:
        """Write the page with the texts it was opened with; it needs neither server nor model."""
        return save_page(self.session, Path(path))

    def _ipython_display_(self) -> None:
        if not can_show():
            raise NotImplementedError  # IPython goes on to the picture
        show_cell(repr(self), self._repr_html_(), lambda: self._cell)

    def _repr_html_(self) -> str:
        return self.session.draw().svg

    @cached_property
    def _cell(self) -> "Cell":
        from headscope.explore.cell import Cell  # an extra: anywidget

        return Cell(live_cell(self.session), self.session)


@checked
def open_explorer(
    model: Any = "demo",
    text: str | None = None,
    *,
    run: str | Path | Run | None = None,
    sentence: str | None = None,
    head: str | tuple[int, int] | None = None,
    beside: Any = None,
    tokenizer: Any = None,
    read_corpus: bool = False,
    **options: Any,
) -> Explorer:
    """All heads of a model on any text, live in a cell of a notebook.

    `model` may be a run: then it is the model that the run measured, with the run's measures. The
    other arguments are those of `headscope explore`.

    >>> import headscope
    >>> headscope.open_explorer("demo", "The cat sat on the mat.", head="1-3")
    <Explorer of demo: a notebook shows it; .save('page.html') writes one page>
    """
    if isinstance(model, Run):
        run, measured = model, model.manifest["model"]
        model = measured["name"]
        options = {"revision": measured.get("revision"), "dtype": measured["dtype"], **options}
    session = open_session(
        model,
        run=run,
        text=text,
        sentence=sentence,
        head="-".join(map(str, head)) if isinstance(head, tuple) else head,
        beside=beside,
        tokenizer=tokenizer,
        may_read=lambda paths: read_corpus,
        **options,
    )
    return Explorer(session)


@checked
def save_page(session: Session, path: Path) -> Path:
    """Write the page with the texts it was opened with."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise OutputError(
            f"{path} cannot be written. Expected a file that ends in .html; rename it."
        )
    start = dict(session.start)
    sides = range(len(session.models))
    if "id" in start:
        panes = [{"id": start["id"], "model": side} for side in sides]
    else:
        texts = session.texts or [start["text"]]
        panes = [{"text": text, "model": side} for text in texts for side in sides]
    panes = [pane for pane in panes if session.can_read(pane)]
    write_atomically(path, render_page(session, panes, start).encode())
    return path


@checked
def serve(session: Session, port: int = 0) -> "LiveServer":
    """A server that is bound to its port, and not yet running."""
    try:
        from headscope.explore.server import LiveServer  # an extra: starlette and uvicorn
    except ImportError as error:
        raise StudyError(
            f"The live page needs packages that are not installed ({error.name}). Expected the "
            "extra 'explore': pip install 'headscope[explore]'; or write a file with --out."
        ) from error
    return LiveServer(session, port)


def _grant(run: Run | None, may_read: Callable[[Sequence[str]], bool]) -> Collection[str]:
    """The paths of a run's corpora that may be read: all of a run that was made just now."""
    passes = (run.manifest.get("passes") or {}).values() if run else ()
    paths = list_foreign(passes)
    is_own = run is not None and not run.is_loaded
    return paths if paths and (is_own or may_read(paths)) else ()


def _list_examples_of(
    run: Run | None, sentence: str | None, granted: Collection[str]
) -> ExampleList:
    """The corpora of a run with the examples it shows, and the one that was asked for."""
    passes = (run.manifest.get("passes") or {}).values() if run else ()
    shown = {shown.view.example for shown in run.examples} if run else set()
    also = shown | {sentence} if sentence is not None else shown
    return list_examples(passes, also, granted)


def _start(
    texts: list[str], sentence: str | None, head: str | None, source: Any, is_pair: bool
) -> dict[str, str]:
    """What the page shows first, as its address would say it."""
    start = (
        {"id": sentence} if sentence is not None else {"text": texts[0] if texts else FIRST_TEXT}
    )
    if is_pair:
        start |= {
            "pair": "true",
            "model2": "1",
            **{f"{key}2": value for key, value in start.items()},
        }
    if head is not None:
        place = parse_head_name(head)
        if place is None:
            raise StudyError(
                f"Head {head!r} cannot be read. Expected layer-head; write it as 8-10."
            )
        refuse_absent_heads(source, [place])
        start["heads"] = head.strip()
    return start


def _refuse_other_model(run: Run | None, models: Models) -> None:
    """An error for a run whose heads or weights are not those of the model."""
    if run is None:
        return
    source = models.source
    model = run.manifest["model"]
    numbers = [number + 1 for number in source.layer_numbers]
    own = model.get("layer_numbers", numbers)
    if (own, model.get("layers"), model.get("heads")) != (numbers, source.n_layers, source.n_heads):
        raise StudyError(
            f"The run is of {model['name']}, {model.get('layers')} layers of {model.get('heads')} "
            f"heads; {source.name} has {source.n_layers} of {source.n_heads}. Expected a run of "
            "the same model; choose another --run."
        )
    measured = [source, *([models.whole] if models.whole else [])]  # an encoder alone or whole
    if model["digest"] not in (one.describe().get("digest") for one in measured):
        raise StudyError(
            f"The run is of {model['name']} with other weights than {source.name}. Expected a run "
            "of the same weights; choose another --run, or load the model as the run did (--dtype, "
            "--revision)."
        )
