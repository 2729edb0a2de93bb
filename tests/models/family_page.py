"""docs/results/families.md, written by `python -m tests.models.family_page` (`make families`)."""

import gc
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import __version__ as transformers_version
from transformers.utils import logging

from tests.models.every_family import text_families
from tests.models.family_checks import NO_HEAD, Answer, examine

__all__ = ["PAGE", "row_of"]

PAGE = Path(__file__).parents[2] / "docs" / "results" / "families.md"
PAGE_TEXT = """\
# Model families

What headscope can do with each family of text models of transformers {version}. `make families`
writes this page: it builds a tiny random model of every family, runs it, and checks what is
measured against the model itself.

Of {n} families, {tap} are seen by the tap, {fallback} by fallback, {refused} are refused and
{not_tried} were not tried.

- **seen**: *tap*, through transformers' AttentionInterface, one layer at a time; *fallback*, as
  `output_attentions`, all layers of a batch at once (see [models](../models.md)); *refused*, with
  the reason. Weights equal the model's own `output_attentions` bit for bit, where it gives them
  (to 1e-6 where a sink scales what heads give outside of them: Granite), whatever the batch.
- **layers**: those that have attention, where not all have. Tables use these numbers. A *learned
  sink* takes attention that goes to no token (see [tables.md](../tables.md)).
- **norm**: `--weights norm`. What all tokens add is what the output projection gives.
- **gradient**: gradients equal autograd's with all maps kept. *{no_head}*: the family has no
  language-modelling head, or is an encoder-decoder, of which the encoder is measured.
- **ablation**: taking a head away changes what it changes in a full run of the model.

A family stands here by its `model_type` in config.json. Sizes are tiny and weights random, so this
page says what can be measured. A reason may be that of the tiny model.

| family | seen | layers | norm | gradient | ablation | why not |
|---|---|---|---|---|---|---|
{rows}

Not tried: {n_mixed} families that also read images or sound ({mixed}). Where the text part of one
is a family of its own (`gemma3_text`), it stands above.
"""


def reasons_of(answer: Answer) -> str:
    """Why something cannot be done; what has no head to take a loss from needs no reason."""
    parts: dict[str, list[str]] = {}
    for what in ("norm", "gradient", "ablation"):
        reason = getattr(answer, what)
        if reason not in ("", "yes", NO_HEAD):
            parts.setdefault(reason, []).append(what)
    return "; ".join([answer.why] * bool(answer.why) + [f"{r}" for r in parts])


def row_of(answer: Answer) -> str:
    """The row of the page."""
    words = {"": "", "yes": "yes", NO_HEAD: NO_HEAD}
    can = [words.get(r, "no") for r in (answer.norm, answer.gradient, answer.ablation)]
    cells = (answer.family, answer.seen, answer.layers, *can, reasons_of(answer))
    return f"| {' | '.join(cells)} |"


def write_page(answers: Sequence[Answer], mixed: Sequence[str]) -> str:
    """The page, from what was found."""
    counts = {
        seen: sum(answer.seen == seen for answer in answers)
        for seen in ("tap", "fallback", "refused", "not tried")
    }
    return PAGE_TEXT.format(
        version=transformers_version,
        n=len(answers),
        **{seen.replace(" ", "_"): count for seen, count in counts.items()},
        rows="\n".join(map(row_of, answers)),
        n_mixed=len(mixed),
        mixed=", ".join(mixed),
        no_head=NO_HEAD,
    )


def main() -> int:
    """Write the page; an error where something is measured wrong."""
    logging.set_verbosity_error()
    torch.set_num_threads(1)  # of models this small, threads only wait for each other
    warnings.simplefilter("ignore")
    families, mixed = text_families()
    answers = []
    for family in families:
        answers.append(examine(family))
        print(row_of(answers[-1]), flush=True)
        gc.collect()
    PAGE.write_text(write_page(answers, mixed))
    return any(answer.is_wrong for answer in answers)


if __name__ == "__main__":
    sys.exit(main())
