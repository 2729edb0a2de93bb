"""A callback of transformers' Trainer: the same measurement again and again while a model learns.

    trainer = Trainer(model, args, ..., processing_class=tokenizer)
    hs.HeadscopeCallback(text="dev.txt", every=500, out="runs").attach(trainer)

Afterwards `runs/step-0`, `runs/step-500`, ... are runs as `headscope analyze` writes them, and what
the Trainer reports to (TensorBoard, Weights & Biases, trackio, MLflow) has their numbers.
"""

from logging import getLogger
from pathlib import Path
from typing import Any, Self

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from headscope.arguments import checked
from headscope.contracts import CorpusRole
from headscope.corpora.opening import CorporaLike, as_corpora
from headscope.engine.analyze import analyze
from headscope.errors import HeadscopeError, OutputError, StudyError
from headscope.exports.trackers import list_numbers, log_figures
from headscope.options import require
from headscope.runs.run import Run

__all__ = ["HeadscopeCallback"]

log = getLogger("headscope")


class HeadscopeCallback(TrainerCallback):
    """Measures the model before training, every `every` steps, and at the end.

    Each measurement is a run in `out/step-N`. `options` are those of `headscope.analyze`, such as
    `only`, `limit` and `max_tokens`. It does not change training: the weights are the same with and
    without the callback. Numbers are logged by the Trainer that it is attached to.
    """

    @checked
    def __init__(
        self,
        text: CorporaLike | None = None,
        every: int = 500,
        out: str | Path = "runs",
        *,
        treebank: CorporaLike | None = None,
        coref: CorporaLike | None = None,
        tokenizer: Any = None,
        **options: Any,
    ) -> None:
        require(every > 0, "every", every, "at least 1")
        given = {CorpusRole.TEXT: text, CorpusRole.TREEBANK: treebank, CorpusRole.COREF: coref}
        self.corpora: dict[str, Any] = {  # what cannot be read is told before any training
            str(role): as_corpora(items, role) for role, items in given.items() if items is not None
        }
        if not self.corpora:
            raise StudyError(
                "Nothing was given to measure the model on. Expected text=..., treebank=... or "
                "coref=...; give at least one."
            )
        self.every, self.out, self.tokenizer = every, Path(out), tokenizer
        self.options = {"progress": False, **options}
        self.folders: dict[int, Path] = {}  # of the runs, by step
        self.trainer: Trainer | None = None
        self.notable: set[str] = set()  # the names of what is logged of heads

    def attach(self, trainer: Trainer) -> Self:
        """Add the callback to a Trainer, and log by it: a callback alone does not know it."""
        trainer.add_callback(self)
        self.trainer = trainer
        return self

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        first = state.global_step  # training that goes on from a checkpoint has measured it
        steps = ((path.name.removeprefix("step-"), path) for path in self.out.glob("step-*"))
        taken = {int(number): path for number, path in steps if number.isdecimal()}
        late = [path for step, path in sorted(taken.items()) if step > first or step == 0 == first]
        if state.is_world_process_zero and late:
            raise OutputError(
                f"{late[0]} exists already. Expected no measurement after step {first}, where "
                f"training starts; choose another folder with out=..., or remove it."
            )
        self.folders = taken
        self._measure(state, given)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        # Trackers may be closed when training ends, so the last step is measured here.
        if state.global_step % self.every == 0 or state.global_step >= state.max_steps:
            self._try(state, given)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        self._try(state, given)

    def _try(self, state: TrainerState, given: dict[str, Any]) -> None:
        """Measure; what goes wrong by now, such as a full disk, is told, and training goes on."""
        try:
            self._measure(state, given)
        except HeadscopeError as error:
            log.warning("Step %d was not measured: %s", state.global_step, error)

    def _measure(self, state: TrainerState, given: dict[str, Any]) -> None:
        step = state.global_step
        if not state.is_world_process_zero or step in self.folders:
            return
        model = getattr(given["model"], "module", given["model"])  # without DataParallel around it
        tokenizer = self.tokenizer or given.get("processing_class")
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices):  # training draws the numbers it would have drawn
            folder = self.out / f"step-{step}"
            run = analyze(model, tokenizer=tokenizer, out=folder, **self.corpora, **self.options)
            self.folders[step] = folder
            self._log(run, step)

    def _log(self, run: Run, step: int) -> None:
        """The numbers by the Trainer's log call; figures where a tracker takes images."""
        if self.trainer is not None:
            self.trainer.log(list_numbers(run, self.notable))
            log_figures(run, self.trainer.callback_handler.callbacks, step)
