"""What holds of every source, and that each law can be broken."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from headscope.contracts import Watch
from headscope.data.attention import LayerAttention
from headscope.data.encoding import Batch, Encoding
from headscope.data.example import Example
from headscope.models.ablation import AblationSource, mean_outputs
from headscope.models.gradients import GradientSource
from headscope.models.language import HiddenStateOutcome, LossOutcome, build_task
from headscope.models.load import load_model
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.pair import ModelPair
from headscope.testing import MadeSource, check_source, make_example, random_maps
from tests.models.test_gradients import language_model
from tests.models.tiny import FAMILIES, build_model, build_tokenizer

PRECISIONS = [torch.float32, torch.float16, torch.bfloat16]
LAYERS = [Watch.ATTENTION, Watch.GRADIENT, Watch.CHANGE]


def tiny(name: str, precision: torch.dtype = torch.float32) -> LoadedModel:
    model = build_model(name).to(precision)
    return wrap_model(model, build_tokenizer(FAMILIES[name].tokenizer), name)


@pytest.mark.parametrize("emits", LAYERS)
@pytest.mark.parametrize("precision", [*PRECISIONS, torch.float64], ids=str)
def test_made_sources_keep_the_contract(emits: Watch, precision: torch.dtype) -> None:
    check_source(MadeSource(emits=emits, precision=precision))


def test_the_embedded_model_keeps_the_contract() -> None:
    check_source(load_model("demo"))
    check_source(replace(load_model("demo"), weights="norm"))


@pytest.mark.parametrize("precision", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "modernbert", "mpnet"])
def test_models_keep_the_contract_in_every_precision(name: str, precision: torch.dtype) -> None:
    check_source(tiny(name, precision))


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_sources_of_gradients_keep_the_contract(name: str) -> None:
    check_source(GradientSource(build_task(language_model(name))))


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_sources_of_changes_keep_the_contract(name: str) -> None:
    model, bare = language_model(name), tiny(name)
    batches = [bare.batch([e]) for e in bare.encode([make_example(1), make_example(2)], 40)]
    means = mean_outputs(bare, batches)
    check_source(AblationSource(LossOutcome(build_task(model)), means))
    check_source(AblationSource(HiddenStateOutcome(bare), means, heads=[(0, 1), (2, 4)]))


def test_a_pair_of_models_keeps_the_contract() -> None:
    check_source(ModelPair(tiny("bert"), tiny("bert")))


# What breaks one law each.

Shown = Callable[[Any], None]


@dataclass(frozen=True)
class Spoilt(MadeSource):
    """A sound source whose layers the others spoil."""

    def attend(self, batch: Batch, observe: Shown) -> None:
        super().attend(batch, lambda attention: observe(self.spoil(attention)))

    def spoil(self, attention: LayerAttention) -> Any:
        return attention


def test_a_sound_toy_keeps_the_contract() -> None:
    check_source(Spoilt())


class Unnamed(MadeSource):
    name = ""


class Undigested(MadeSource):
    def describe(self) -> dict[str, Any]:
        return {"name": "made"}


class Endless(MadeSource):
    max_tokens = 0


class Dropping(MadeSource):
    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        return super().encode(examples, max_tokens)[1:]


class Copying(MadeSource):
    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        return super().encode([replace(example) for example in examples], max_tokens)


class Overcounting(MadeSource):
    def encode(self, examples: Sequence[Example], max_tokens: int) -> list[Encoding]:
        encodings = super().encode(examples, max_tokens)
        moved = [np.where(e.word_ids >= 0, e.word_ids + 3, -1) for e in encodings]
        return [replace(e, word_ids=ids) for e, ids in zip(encodings, moved, strict=True)]


class Restless(MadeSource):
    calls: ClassVar[Counter[str]] = Counter()

    def attend(self, batch: Batch, observe: Shown) -> None:
        self.calls["attend"] += 1
        seed = self.calls["attend"]
        MadeSource(lambda encoding: random_maps(encoding, seed)).attend(batch, observe)


class Backwards(MadeSource):
    def attend(self, batch: Batch, observe: Shown) -> None:
        shown: list[Any] = []
        super().attend(batch, shown.append)
        for attention in reversed(shown):
            observe(attention)


class Forwards(MadeSource):
    """A source of gradients that shows the first layer first."""

    emits = Watch.GRADIENT

    def attend(self, batch: Batch, observe: Shown) -> None:
        shown: list[Any] = []
        super().attend(batch, shown.append)
        for gradient in sorted(shown, key=lambda one: one.layer):
            observe(gradient)


class Halting(MadeSource):
    def attend(self, batch: Batch, observe: Shown) -> None:
        super().attend(batch, lambda layer: observe(layer) if layer.layer else None)


class Half(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        return replace(attention, weights=attention.weights.half())


class HeadFirst(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        return replace(attention, weights=attention.weights.transpose(0, 1))


class Numberless(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        return replace(attention, weights=attention.weights.log() * torch.inf)


class Scores(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        return replace(attention, weights=2 * attention.weights)


class Clipped(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        return replace(attention, weights=attention.weights[:, :, 1:])


class Shortsighted(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        return replace(attention, visible=attention.visible[1:])


class Crowded(Spoilt):
    def spoil(self, attention: LayerAttention) -> Any:
        turned = attention.weights.flip(-1)
        is_alone = len(attention.batch.encodings) == 1
        return replace(attention, weights=attention.weights if is_alone else turned)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Unnamed, "`name` is a non-empty string"),
        (Undigested, r"`describe\(\)` has a digest"),
        (Endless, "`max_tokens` is positive"),
        (Dropping, "`encode` gives one encoding per example"),
        (Copying, "an encoding keeps its example"),
        (Overcounting, "`word_ids` are places of the example's words, or -1"),
        (Restless, "the same batch shows the same numbers"),
        (Backwards, "each layer is shown once, in the order of its Watch"),
        (Forwards, "each layer is shown once, in the order of its Watch"),
        (Halting, "each layer is shown once, in the order of its Watch"),
        (Half, "numbers are float32 or float64, never torch.float16"),
        (HeadFirst, "numbers are by example and head first"),
        (Numberless, "numbers are finite"),
        (Scores, "rows of attention sum to 1; one misses by 1"),
        (Clipped, "attention has a weight for each pair of tokens"),
        (Shortsighted, "`visible` has one number per query"),
        (Crowded, "what an example shows does not depend on its batch"),
    ],
)
def test_a_broken_source_is_named_with_the_law_it_breaks(kind: Any, law: str) -> None:
    own = {field: vars(kind)[field] for field in MadeSource.__match_args__ if field in vars(kind)}
    with pytest.raises(AssertionError, match=rf"^{kind.__name__}: {law}"):
        check_source(kind(**own))
