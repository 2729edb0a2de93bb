"""Whatever a public function is given, it works or raises one of headscope's own errors."""

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import headscope as hs
from headscope.engine.resolve import analysis_kinds
from headscope.options import (
    ClusterOptions,
    ModelOptions,
    ProbeOptions,
    RunOptions,
    ShowOptions,
    collect_options,
)
from tests.engine.made import EXAMPLES, run
from tests.planted import PLANTED

PLAIN = (
    *(None, True, 0, 3, -1, 10**30, 10**5000, 3.5, 1j, math.nan, math.inf, b"x", object(), len),
    *("", "x", "a b\n", "\ud800", "a\0b", "1-1", "x" * 5000, Path(), Path("no/such"), Path("a\0b")),
    *((), (1, 1), (1, "a"), {3: 4}, {"a": object()}, {"a": math.nan}, set(), frozenset({3.5})),
    *(object, range(3), np.array(3.5), np.array([1.0, 2.0]), pd.Series(["a"])),
)
MADE: tuple[Callable[[], Any], ...] = (  # anew for each call, as it may be changed or used up
    *(list, dict, pd.DataFrame, lambda: [None], lambda: [3.5], lambda: [[]], lambda: [object()]),
    *(lambda: [""], lambda: ["x", b"x"], lambda: iter("ab"), lambda: iter([3])),
    *(lambda: pd.DataFrame({"text": [1]}), lambda: pd.DataFrame({"text": []})),
    lambda: pd.DataFrame({"a": [1], "b": [2]}),
)
NUMBERS = count()
Call = tuple[Callable[..., Any], dict[str, Any]]


def new() -> Path:
    """A folder that is not there."""
    return Path(f"new-{next(NUMBERS)}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two small runs with a map of heads."""
    place = tmp_path_factory.mktemp("runs")
    folders = [place / "step-1", place / "step-2"]
    for seed, folder in enumerate(folders):
        run(text=EXAMPLES[:4], only="position,distance", out=folder, seed=seed, examples=False)
    return folders


ANALYZE: Call = (
    hs.analyze,
    {"model": PLANTED, "tokenizer": None, "text": EXAMPLES[:2], "treebank": None, "coref": None}
    | {"out": None, "only": "position", "also": (), "resume": False, "progress": False}
    | {"examples": False},
)
PROBE: Call = (
    partial(hs.probe, curve=False, parts=False, epochs=1),  # quick where it works
    {"model": PLANTED, "train": EXAMPLES, "test": EXAMPLES, "vectors": None, "out": None}
    | {"store": None, "only": "no-such", "resume": False, "tokenizer": None, "progress": False}
    | {"allow_overlap": True},
)
SHOW: Call = (hs.show, {"model": PLANTED, "text": "the boat", "tokenizer": None})


def calls_of_functions(runs: list[Path]) -> dict[str, Call]:
    """The public functions with right arguments; where one is `new`, with what it gives."""
    model = {name: one.default for name, one in collect_options(ModelOptions).items()}
    return {
        "write_atlas": (hs.write_atlas, {"folder": runs[0].parent, "out": new}),
        "compare": (hs.compare, {"runs": runs, "out": None}),
        "compare_series": (hs.compare_series, {"runs": runs, "steps": [1, 2], "out": None}),
        "open_corpus": (hs.open_corpus, {"name": "starter", "role": "text", "skip_bad": False}),
        "texts": (lambda items: list(hs.texts(items)), {"items": ["A text."]}),
        "empty_tables": (hs.empty_tables, {"columns": {"a": ["b"]}}),
        "head_axes": (hs.head_axes, {"n_layers": 1, "n_heads": 1}),
        "tidy_table": (hs.tidy_table, {"axes": {"layer": [1]}, "values": {"nats": 1.0}}),
        "analyze": ANALYZE,
        "HeadscopeCallback": (
            hs.HeadscopeCallback,
            {"text": ["A text."], "every": 1, "out": new, "treebank": None, "coref": None}
            | {"tokenizer": None},
        ),
        "redraw_map": (
            hs.redraw_map,
            {"folder": runs[0], "thresholds": {}, "n_clusters": 2, "seed": 1},
        ),
        "match_models": (
            hs.match_models,
            {"first": Path(), "second": Path(), "text": ["A text."], "out": None}
            | {"resume": False, "progress": False, "revision_a": None, "revision_b": None},
        ),
        "merge_runs": (hs.merge_runs, {"folders": runs[:1], "out": new}),
        "probe": PROBE,
        "show": SHOW,
        "open_explorer": (
            hs.open_explorer,
            {"model": PLANTED, "text": "the boat", "run": None, "sentence": None, "head": None}
            | {"beside": None, "tokenizer": None, "read_corpus": False},
        ),
        "load_model": (hs.load_model, {"name": Path(), **model, "seed": 0, "with_head": False}),
        "option": (
            hs.option,
            {"default": 1, "help": "Help.", "flag": None, "parse": None, "repeat": False}
            | {"shown_default": None, "changes_numbers": True},
        ),
        "load_run": (hs.load_run, {"folder": runs[0], "skip_missing": False}),
        "open": (hs.open, {"source": runs[0], "revision": None}),
        "export": (
            hs.export,
            {"run": runs[0], "out": new, "format": "headvis", "measure": None, "first": None}
            | {"recent": None},
        ),
        "push": (
            hs.push,
            {"run": runs[0], "name": "me/heads", "private": False, "examples": False}
            | {"update": False, "dry_run": True, "out": new},
        ),
    }


def calls_of_methods(runs: list[Path]) -> dict[str, Call]:
    """The methods of what public functions give."""
    done, compared, series = hs.load_run(runs[0]), hs.compare(runs), hs.compare_series(runs)
    style = {"width": None, "height": None, "font": None, "palette": None, "background": None}
    return {
        "card": (done.card, {"head": "1-1"}),
        "figure": (done.figure, {"name": "position", **style}),
        "report": (done.report, {"path": None}),
        "compared.report": (compared.report, {"path": "page.html"}),
        "compared.write": (compared.write, {"folder": new}),
        "series.write": (series.write, {"folder": new}),
        "drawing.save": (done.figure("position").save, {"path": "drawing.svg"}),
    }


def calls_of_options() -> dict[str, tuple[Call, Iterable[str]]]:
    """The functions that take options, and the options."""
    shared = (ModelOptions, ClusterOptions)
    found = {
        "analyze": (ANALYZE, [*collect_options(RunOptions, *shared)]),
        "probe": (PROBE, [*collect_options(ProbeOptions, *shared)]),
        "show": (SHOW, [*collect_options(ShowOptions, ModelOptions)]),
    }
    for name, kind in analysis_kinds().items():
        good = {**ANALYZE[1], "only": name, "treebank": EXAMPLES[:2]}
        found[name] = ((hs.analyze, good), [*collect_options(kind)])
    return found


def raw_error(call: Callable[..., Any], given: Mapping[str, Any]) -> str:
    """What else than headscope's own error comes of a call; "" if nothing does."""
    try:
        call(**{name: value() if value is new else value for name, value in given.items()})
    except hs.HeadscopeError as error:
        said = str(error)
        is_line = len(said) < 2500 and said == said.encode(errors="replace").decode()
        return "" if is_line else f"a message that cannot be printed: {said[:100]!a}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return ""


def find_raw_errors(call: Call, names: Iterable[str]) -> list[str]:
    """What goes wrong with wrong values, one parameter at a time with the others right."""
    function, good = call
    makers = [*(lambda value=value: value for value in PLAIN), *MADE]
    tries = [(name, make()) for name in names for make in makers]
    tries = [
        (n, v) for n, v in tries if n != "ray" or not isinstance(v, str)
    ]  # looks for a cluster
    failures = [(name, value, raw_error(function, good | {name: value})) for name, value in tries]
    return [f"{name}={type(value).__name__} {said}" for name, value, said in failures if said]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a path such as "x" is a good one
    monkeypatch.setattr("headscope.exports.hub.draw_figures", lambda run: {})  # takes a second


@pytest.mark.parametrize("name", calls_of_functions([Path(), Path()]))
def test_no_argument_of_a_function_raises_another_error(name: str, runs: list[Path]) -> None:
    call = calls_of_functions(runs)[name]
    assert find_raw_errors(call, call[1]) == []


def test_no_argument_of_a_method_raises_another_error(runs: list[Path]) -> None:
    for call in calls_of_methods(runs).values():
        assert find_raw_errors(call, call[1]) == []


@pytest.mark.parametrize("name", calls_of_options())
def test_no_option_raises_another_error(name: str) -> None:
    assert find_raw_errors(*calls_of_options()[name]) == []


def test_every_public_function_is_tried() -> None:
    functions = {n for n in hs.__all__ if callable(f := getattr(hs, n)) and not isinstance(f, type)}
    assert functions <= calls_of_functions([Path(), Path()]).keys()


def test_an_error_names_the_argument_what_was_given_and_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(hs.HeadscopeError, match=r"^folder cannot be 3\.5\. Expected a path; "):
        hs.load_run(3.5)  # type: ignore[arg-type]
    with pytest.raises(
        hs.HeadscopeError, match=r"^steps cannot be \['x'\]\. Expected a list of whole"
    ):
        hs.compare_series(["a", "b"], steps=["x"])  # type: ignore[list-item]
    with pytest.raises(hs.HeadscopeError, match=r"^limit cannot be '3'\. Expected a whole number"):
        hs.analyze(PLANTED, text=EXAMPLES, limit="3")


def test_what_is_refused_at_the_door_loads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: object, **options: object) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("headscope.models.load.AutoModel.from_pretrained", fail)
    for wrong in ({"out": 3.5}, {"resume": "x"}, {"limit": "x"}, {"text": pd.DataFrame()}):
        with pytest.raises(hs.HeadscopeError):
            hs.analyze("demo", **{"text": ["A text."], **wrong})  # type: ignore[arg-type]
    with pytest.raises(hs.HeadscopeError):
        hs.load_model("demo", seed="x")  # type: ignore[arg-type]


def test_what_could_be_given_before_can_still_be_given(runs: list[Path]) -> None:
    assert len(hs.compare(path for path in runs).runs) == 2
    assert len(hs.compare_series(runs, steps=np.array([2, 1])).runs) == 2  # type: ignore[arg-type]
    assert len(list(hs.texts(pd.Series(["A text.", "Another."])))) == 2
    assert hs.load_run(runs[0]).card([1, 1]) == hs.load_run(runs[0]).card("1-1")  # type: ignore[arg-type]
    assert hs.analyze(PLANTED, text=EXAMPLES[:2], limit=np.int64(2), examples=False, progress=False)
