"""Gradients of long inputs are summed in slices, to the same numbers."""

import pytest
import torch

from headscope.data.attention import LayerGradient
from headscope.data.example import Example
from headscope.models import gradients
from headscope.models.gradients import GradientSource
from headscope.models.language import build_task
from headscope.models.loaded import wrap_model
from tests.models.tiny import SENTENCES, build_tokenizer


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_sums_in_slices_are_those_of_the_whole(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoModelForCausalLM

    from tests.models.every_family import build_config

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(build_config(family)).eval()
    source = GradientSource(build_task(wrap_model(model, build_tokenizer("roberta"), family), 0))
    batch = source.batch(source.encode([Example("text", text=SENTENCES[0])], 13))
    whole: list[LayerGradient] = []
    source.attend(batch, whole.append)
    monkeypatch.setattr(gradients, "WHOLE_NUMBERS", 1)
    monkeypatch.setattr(gradients, "SLICE_ROWS", 4)
    sliced: list[LayerGradient] = []
    source.attend(batch, sliced.append)
    for one, other in zip(sliced, whole, strict=True):
        assert one.sizes.device.type == "meta"
        torch.testing.assert_close(one.column_sums(), other.column_sums(), atol=1e-6, rtol=1e-5)
        assert one.is_finite().all()
