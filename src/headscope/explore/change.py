"""What changes when heads are switched off: predictions, and every token's hidden state."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.engine.head_views import refuse_absent_heads
from headscope.engine.open_models import Models
from headscope.errors import StudyError, first_part, suggest
from headscope.explore.maps import Check
from headscope.models.ablation import MODES, mean_outputs, switched_off
from headscope.models.anatomy import eval_mode
from headscope.models.encode import equal_length_batches
from headscope.models.language import HiddenStateOutcome, build_task
from headscope.models.loaded import LoadedModel

__all__ = ["MEAN_EXAMPLES", "find_means", "measure_change"]

TOP = 8  # predictions that are shown
MEAN_EXAMPLES, MEAN_TOKENS = 64, 128  # what the mean output of a head is taken over
Switch = Callable[[LoadedModel, Batch], AbstractContextManager[None]]


def measure_change(
    models: Models,
    encoding: Encoding,
    heads: Collection[tuple[int, int]],
    mode: str,
    place: int | None,
    means: Float[Tensor, "layer head part"] | None,
    check: Check = lambda: None,
) -> dict[str, Any]:
    """The model as it is, and with these heads off.

    `hidden` is 1 - cosine of each token's final hidden state with and without the heads; its mean
    is what the ablation of heads measures. A language model also predicts: a masked one the token
    at `place`, which is hidden from it, a causal one the token after `place`.
    """
    source = _refuse_unknown(models, heads, mode)
    base = source.batch([encoding])
    numbers = source.layer_numbers
    places = [(numbers.index(layer), head) for layer, head in heads]

    def off(model: LoadedModel, batch: Batch) -> AbstractContextManager[None]:
        return switched_off(model, batch, places, mode, means, check)

    before, after = (_hidden_states(source, base, switch) for switch in (_as_it_is, off))
    hidden = (1 - nn.functional.cosine_similarity(before, after, dim=-1))[0].clamp_min(0)
    answer = {"hidden": hidden.tolist(), "mean": float(hidden.mean()), "mode": mode}
    if models.with_head is None:
        return {**answer, "why": first_part(models.why_no_head)}
    return {**answer, **_predictions(models.with_head, encoding, place, off)}


def find_means(
    source: LoadedModel, examples: Iterable[Example]
) -> Float[Tensor, "layer head part"]:
    """The mean output of every head over some examples."""
    encodings = source.encode(list(islice(examples, MEAN_EXAMPLES)), MEAN_TOKENS)
    batches = equal_length_batches([e for e in encodings if len(e)], 2048)
    return mean_outputs(source, (source.batch(batch) for batch in batches))


def _refuse_unknown(models: Models, heads: Collection[tuple[int, int]], mode: str) -> LoadedModel:
    if mode not in MODES:
        raise StudyError(
            f"No way to switch off heads named {mode!r}.{suggest(mode, MODES)} "
            f"Expected {', '.join(MODES)}; choose one."
        )
    if not isinstance(models.source, LoadedModel):
        raise StudyError(
            f"These heads of {models.source.name} cannot be switched off. Expected a transformers "
            "model, or the encoder of an encoder-decoder; choose one."
        )
    refuse_absent_heads(models.source, heads)
    return models.source


def _as_it_is(model: LoadedModel, batch: Batch) -> AbstractContextManager[None]:
    return eval_mode(model.model)


def _hidden_states(
    source: LoadedModel, batch: Batch, switch: Switch
) -> Float[Tensor, "example token hidden"]:
    outcome = HiddenStateOutcome(source)
    with torch.inference_mode(), switch(source, batch):
        return outcome.evaluate(outcome.prepare(batch))


def _predictions(
    model: LoadedModel, encoding: Encoding, place: int | None, off: Switch
) -> dict[str, Any]:
    """The likeliest tokens with and without the heads, and the token that is there."""
    objective = build_task(model).objective
    tokenizer = model.encoder.tokenizer
    ids = encoding.inputs["input_ids"]
    masks = [i for i, token in enumerate(ids.tolist()) if token == tokenizer.mask_token_id]
    if place is None and objective == "masked":
        place = masks[0] if masks else None
    elif place is None:
        place = len(ids) - 1
    if place is None:
        return {"objective": objective, "place": None}
    if not 0 <= place < len(ids):
        raise StudyError(f"There is no token {place + 1}. Expected 1 to {len(ids)}; choose one.")
    batch = model.batch([encoding])
    inputs = {name: values.clone() for name, values in batch.inputs.items()}
    if objective == "masked":
        inputs["input_ids"][0, place] = tokenizer.mask_token_id
    before, after = (_token_shares(model, batch, inputs, place, s) for s in (_as_it_is, off))
    order = torch.argsort(before, descending=True)[:TOP].tolist()
    order += [i for i in torch.argsort(after, descending=True)[:TOP].tolist() if i not in order]
    true = place if objective == "masked" else place + 1
    is_known = true < len(ids) and ids[true] != tokenizer.mask_token_id
    if is_known and ids[true] not in order:
        order.append(int(ids[true]))
    return {
        "objective": objective,
        "place": place,
        "true": order.index(ids[true]) if is_known else None,
        "predictions": [
            [tokenizer.decode([i]) or str(i), float(before[i]), float(after[i])] for i in order
        ],
    }


def _token_shares(
    model: LoadedModel, batch: Batch, inputs: dict[str, Tensor], place: int, switch: Switch
) -> Float[Tensor, " token"]:
    extra = {"use_cache": False} if "use_cache" in model.encoder.input_names else {}
    with torch.inference_mode(), switch(model, batch):
        output = model.model(**inputs, **extra)
    logits = output.logits if "logits" in output else output.prediction_logits
    shares: Tensor = logits[0, place].float().softmax(-1).cpu()
    return shares
