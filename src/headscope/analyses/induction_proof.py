"""Do induction heads carry in-context copying? The loss without the best, and without others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import xarray as xr
from jaxtyping import Bool
from numpy.typing import NDArray

from headscope.analyses.head_sets import BEST, NONE, RANDOM, choose_sets, name_sets, set_names
from headscope.analyses.induction import COPIES, NATS, SOURCE, Induction, mean_of_copies
from headscope.contracts import Analysis, Annotation, Corpus, Watch
from headscope.corpora.repeats import N_SEQUENCES, N_TOKENS, Repeats
from headscope.data.attention import HeadSetLosses
from headscope.data.table import Tables, rows_where
from headscope.lazy import Tensor
from headscope.options import option, require
from headscope.stats.estimates import EstimateColumn, Estimates, Number, add_difference
from headscope.stats.sums import REPLICATE, Sums
from headscope.view.answer import Answer, AnswerMaker, Topic, join_words, write_percent
from headscope.view.judge import Claim, Outcome, all_of, judge
from headscope.view.numbers import SHARE, WHOLE_PERCENT, row_estimate
from headscope.view.presentation import LANGUAGE_MODELS, Presentation
from headscope.view.specs import PrintedTable
from headscope.view.table import Column, TextTable, build_table

if TYPE_CHECKING:
    from headscope.contracts import TablesOf

__all__ = ["InductionProof"]


@dataclass(frozen=True)
class InductionProof(Analysis):
    """The in-context gain without the best induction heads, and without as many random others.

    The gain is the loss of the first copy of random tokens minus that of the second (`induction`).
    All heads of a set are switched off at once: their outputs are set to zero. The best are chosen
    by prefix matching on the same sequences, not by their effect. Random sets have as many other
    heads of the same layers. `lost` is the share of the gain that is lost.
    """

    repeat_tokens: int = option(N_TOKENS, "Random tokens in a copy of the corpus 'repeats'.")
    repeat_sequences: int = option(N_SEQUENCES, "Sequences in the corpus 'repeats'.")
    proof_heads: int | None = option(
        None, "Best heads that a proof switches off at once.", shown_default="3 % of all"
    )
    proof_draws: int = option(5, "Sets of random heads that a proof switches off.")
    seed: int = 0

    name = "induction-proof"
    needs = frozenset({Annotation.REPEATS})
    watches = Watch.HEAD_SETS
    sums = {"loss": "heads copy", "member": "heads layer head", "sequences": ""}
    tables = {
        "induction-proof": (
            *("heads", "gain", "low", "high", "lost", "lost_low", "lost_high"),
            *("first", "second", "chosen"),
        )
    }
    not_mergeable = "the heads that it switches off are chosen over the whole corpus"

    def __post_init__(self) -> None:
        require(self.proof_heads is None or self.proof_heads > 0, "proof_heads", self.proof_heads,
                "at least 1")  # fmt: skip
        require(self.proof_draws > 0, "proof_draws", self.proof_draws, "at least 1")

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The sets of heads."""
        return {"heads": set_names(self.proof_draws), "copy": list(COPIES)}

    def make_corpus(self, text: Corpus | None) -> Repeats:
        """As for `induction`."""
        return self._induction.make_corpus(text)

    @property
    def _induction(self) -> Induction:
        return Induction(self.repeat_tokens, self.repeat_sequences, self.seed)

    def choose_head_sets(self, tables_of: TablesOf) -> Bool[NDArray[np.bool_], "set layer head"]:
        """The heads with most prefix matching, and random others."""
        table = rows_where(tables_of(self._induction)["induction"], pattern="induction")
        return choose_sets(table, "weight", self.proof_heads, self.proof_draws, self.seed)

    def measure(self, seen: HeadSetLosses) -> Mapping[str, Tensor]:
        """The mean loss of each copy without each set."""
        loss, has_copies = mean_of_copies(seen.losses, seen.batch)
        members = seen.sets.to(loss.dtype).expand(len(loss), *seen.sets.shape)
        return {"loss": loss, "member": members, "sequences": has_copies}

    def summarize(self, sums: Sums) -> Mapping[str, Estimates]:
        """The gain by set, the mean of random sets, and which share of it is lost."""
        loss = sums.mean("loss", "sequences")  # [replicate, heads, copy]
        random = loss.isel(heads=slice(2, None)).mean("heads", skipna=False)
        loss = xr.concat([loss, random.expand_dims(heads=[RANDOM])], "heads")
        gain = loss.sel(copy="first", drop=True) - loss.sel(copy="second", drop=True)
        whole = gain.sel(heads=NONE, drop=True)
        lost = 1 - gain / whole.where(whole > 0)
        gain, lost, loss = (add_difference(x, "heads", BEST, RANDOM) for x in (gain, lost, loss))
        first, second = (loss.isel({REPLICATE: 0}).sel(copy=copy, drop=True) for copy in COPIES)
        chosen = name_sets(sums, set_names(self.proof_draws))
        columns: dict[str, EstimateColumn] = {"gain": Number(gain), "lost": Number(lost)}
        columns |= {"first": first, "second": second}
        columns["chosen"] = chosen.reindex(heads=gain.heads, fill_value="")
        return {self.name: Estimates(columns)}


MORE = f"{BEST} - {RANDOM}"
HALF, NAMED = 0.5, 3
MADE_BY = "--text repeats --also induction-proof"
COLUMNS = (
    Column("without the heads", lambda row: row["heads"]),
    Column("gain, nats", lambda row: NATS.row(row, "gain")),
    Column("lost", lambda row: SHARE.row(row, "lost")),
    Column("loss of the second copy", lambda row: NATS.number(row["second"])),
)


def read_proof(table: pd.DataFrame, min_count: int) -> list[TextTable]:
    """The gain without the best heads and without random others."""
    rows = table[table["heads"].isin([NONE, BEST, RANDOM])]
    return [build_table(rows.to_dict("records"), COLUMNS)]


def _strongest_first(names: list[str], tables: Tables) -> tuple[str, ...]:
    """The heads by the weight they were chosen by, where the run has it; else as they are."""
    if "induction" not in tables:
        return tuple(names)
    rows = rows_where(tables["induction"], pattern="induction").sort_values(
        "weight", ascending=False, kind="stable"
    )
    ranked = [f"{layer}-{head}" for layer, head in zip(rows["layer"], rows["head"], strict=True)]
    return tuple(sorted(names, key=lambda name: ranked.index(name) if name in ranked else inf))


def answer_proof(tables: Tables) -> list[Answer]:
    """Which share of the gain is lost without the best heads, and without others."""
    rows = {row["heads"]: row for _, row in tables["induction-proof"].iterrows()}
    best, random, more = rows[BEST], rows[RANDOM], rows[MORE]
    if not more["lost_low"] > 0:
        return []
    names = _strongest_first(best["chosen"].split(), tables)
    text = (
        f"Without its {len(names)} best induction heads ({join_words(names[:NAMED])}"
        f"{' ...' * (len(names) > NAMED)}) the model loses {WHOLE_PERCENT.row(best, 'lost')} of "
        f"what repetition gains; without as many random heads of the same layers "
        f"{write_percent(random['lost'])}."
    )
    detail = f"Lost: {SHARE.row(best, 'lost')}; random heads: {SHARE.row(random, 'lost')}."
    return [
        Answer(
            *(text, 0.97, detail, names, "induction", Topic.FINDS),
            *(row_estimate(best, "lost"), float(random["lost"])),
        )
    ]


def check_proof(tables: Tables) -> Outcome:
    """Over half of the gain is lost without the best heads, and more than without others."""
    rows = {row["heads"]: row for _, row in tables["induction-proof"].iterrows()}
    best, more = row_estimate(rows[BEST], "lost"), row_estimate(rows[MORE], "lost")
    shows = (
        f"Without the {len(rows[BEST]['chosen'].split())} best induction heads "
        f"{SHARE.estimate(best)} of the gain is lost; without as many random heads of the same "
        f"layers {SHARE.row(rows[RANDOM], 'lost')}."
    )
    return Outcome(all_of([judge(best, HALF, "").verdict, judge(more, 0, "").verdict]), shows)


PRESENTATION = Presentation(
    LANGUAGE_MODELS, made_by=MADE_BY, paper=SOURCE, figure="induction", show=[
    Claim(
        "induction-heads-carry-the-gain", check_proof, needs=("induction-proof",),
        unless="It needs a language model that reads from left to right.",
        says="Without induction heads in-context copying is lost (here: switching off the best "
        "3 % of all heads loses over half of the gain on repeated random tokens, and more than "
        "random heads of the same layers).",
        paper="in small attention-only models in-context learning all but vanishes when induction "
        "heads are removed",
    ),
    AnswerMaker(("induction-proof",), answer_proof),
    PrintedTable("induction-proof", read_proof),
])  # fmt: skip
