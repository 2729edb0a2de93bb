"""The numbers and figures of a run for the trackers that a Trainer reports to."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from io import BytesIO
from logging import getLogger
from typing import Any

import pandas as pd

from headscope.data.table import KIND
from headscope.exports.formats import draw_figures
from headscope.runs.run import Run
from headscope.view.behaviour import behaviour_table
from headscope.view.table import rows_of

__all__ = ["list_numbers", "log_figures"]

log = getLogger("headscope")

MOST_HEADS = 3  # that become notable for a behaviour at once


def list_numbers(run: Run, notable: set[str]) -> dict[str, float]:
    """The mean share of every behaviour in each layer, and the share of notable heads.

    A head that is notable once, as one of the three that show a behaviour most, is logged from then
    on: `notable` has their names.
    """
    table = behaviour_table(run.tables).dropna(subset="share")
    if KIND in table:
        table = table.assign(behaviour=table[KIND] + " " + table["behaviour"])
    means = table.groupby(["behaviour", "layer"], sort=False)["share"].mean().reset_index()
    numbers = {f"headscope/{row.behaviour}/layer-{row.layer}": row.share for row in rows_of(means)}
    names = "headscope/" + table["behaviour"] + "/head-" + _join(table["layer"], table["head"])
    rank = table.groupby("behaviour").cumcount()  # 0: the highest share
    notable |= set(names[(rank == 0) | (table["holds"].astype(bool) & (rank < MOST_HEADS))])
    heads = dict(zip(names, table["share"], strict=True))
    return {k: float(v) for k, v in {**numbers, **heads}.items() if k in numbers or k in notable}


def _join(layer: "pd.Series[Any]", head: "pd.Series[Any]") -> "pd.Series[str]":
    return layer.astype(int).astype(str) + "-" + head.astype(int).astype(str)


def log_figures(run: Run, callbacks: Iterable[Any], step: int) -> None:
    """Figures of a run, wherever one of a Trainer's callbacks is a tracker that takes images.

    What a tracker refuses is a warning: training goes on.
    """
    named = [(type(callback).__name__, callback) for callback in callbacks]
    shows = [(SHOWS[name], callback) for name, callback in named if name in SHOWS]
    if not shows:
        return
    try:
        from PIL import Image  # trackers that take images bring it

        for name, content in draw_figures(run).items():
            image = Image.open(BytesIO(content)).convert("RGB")
            for show, callback in shows:
                show(callback, f"headscope/{name}", image, step)
    except Exception as error:  # each of them has its own
        log.warning("Figures were not logged at step %d: %s", step, error)


def _show_in_tensorboard(callback: Any, name: str, image: Any, step: int) -> None:
    import numpy as np

    if callback.tb_writer is not None:
        callback.tb_writer.add_image(name, np.asarray(image), step, dataformats="HWC")


def _show_in(library: str) -> Callable[[Any, str, Any, int], None]:
    """For trackers with the functions of Weights & Biases."""

    def show(_: Any, name: str, image: Any, step: int) -> None:
        tracker = import_module(library)
        tracker.log({name: tracker.Image(image), "train/global_step": step})

    return show


def _show_in_mlflow(_: Any, name: str, image: Any, step: int) -> None:
    import_module("mlflow").log_image(image, key=name.replace("/", "-"), step=step)


SHOWS: Mapping[str, Callable[[Any, str, Any, int], None]] = {  # by transformers' callbacks
    "TensorBoardCallback": _show_in_tensorboard,
    "WandbCallback": _show_in("wandb"),
    "TrackioCallback": _show_in("trackio"),
    "MLflowCallback": _show_in_mlflow,
}
