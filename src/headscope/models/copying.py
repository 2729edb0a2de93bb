"""What heads write about a token that they attend to, read off with the model's own unembedding."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformers import PreTrainedModel

from headscope.contracts import Watch
from headscope.data.attention import LayerCopying
from headscope.data.encoding import Batch
from headscope.errors import ModelError
from headscope.models import anatomy, tap
from headscope.models.language import Task
from headscope.models.loaded import LoadedModel, ModelView

__all__ = ["SAMPLE", "CopyingSource", "explain_no_copying"]

SAMPLE = 1000  # other words of the vocabulary that a token is compared with


@dataclass(frozen=True)
class CopyingSource(ModelView):
    """A language model that shows how each head's output for a token ranks that token's logit.

    A head's output for a token is the token's value vector through the head's part of the output
    projection; its logits are those after the final norm's gain, without its size, which is the
    same for all words.
    """

    emits: ClassVar[Watch] = Watch.COPYING
    task: Task
    seed: int = 0

    @property
    def model(self) -> LoadedModel:
        return self.task.source

    @cached_property
    def projections(self) -> anatomy.Projections:
        """The output projection of each module that attends."""
        return anatomy.find_projections(self.model.model, self.model.batch_of_probe().inputs)

    @cached_property
    def unembedding(self) -> Float[Tensor, "word hidden"]:
        """The vector of each word, with the gain of the final norm."""
        model = self.model.model
        output = model.get_output_embeddings()
        if not isinstance(output, nn.Linear):
            raise ModelError(f"the unembedding of {self.name} is not a linear layer")
        gain = _find_gain(model, output, self.model.batch_of_probe())
        return output.weight.detach().float() * gain

    @cached_property
    def sample(self) -> Int[Tensor, " word"]:
        """Some words of the vocabulary."""
        random = torch.Generator().manual_seed(self.seed)
        plain = torch.from_numpy(self.model.encoder.plain_ids)
        return plain[torch.randperm(len(plain), generator=random)[:SAMPLE]].to(self.model.device)

    def attend(self, batch: Batch, observe: Callable[[LayerCopying], None]) -> None:
        """Run the model and show every layer."""
        ids = batch.inputs["input_ids"]
        words = self.unembedding[self.sample]  # [word, hidden]
        rows = self.unembedding[ids]  # [example, token, hidden]
        is_other = (self.sample != ids[..., None])[:, None]  # [example, 1, token, word]
        layers = iter(range(self.n_layers))

        def show(output: tap.TapOutput) -> None:
            assert output.module is not None  # of the tap
            assert output.values is not None
            n_heads = output.weights.shape[1]
            values = output.values.float().repeat_interleave(n_heads // output.values.shape[1], 1)
            projection = self.projections[output.module].float()
            heads = projection.reshape(len(projection), n_heads, -1)  # [hidden, head, part]
            others = values @ torch.einsum("wo,ohd->hdw", words, heads)  # [e, head, token, word]
            of_own = torch.einsum("eto,ohd->ehtd", rows, heads)
            itself = (values * of_own).sum(-1, keepdim=True)  # [example, head, token, 1]
            above = ((others > itself) & is_other).sum(-1).float()
            below = ((others < itself) & is_other).sum(-1).float()
            observe(LayerCopying(next(layers), above, below, len(self.sample), batch))

        anatomy.run(tap.observe_tap, self.model.model, batch.inputs, show)


def explain_no_copying(source: CopyingSource) -> str:
    """Why what the heads write cannot be read off; "" where it can."""
    try:
        n_hidden = source.unembedding.shape[1]
        if any(len(projection) != n_hidden for projection in source.projections.values()):
            return f"the words of {source.name} have vectors of another size than its layers"
    except ModelError as error:
        why = str(error).partition(": ")[2].partition(". ")[0] or str(error)
        return f"what the heads of {source.name} write cannot be told apart: {why}"
    return ""


def _find_gain(model: PreTrainedModel, output: nn.Linear, batch: Batch) -> Float[Tensor, " hidden"]:
    """The factors of the norm before the unembedding: found by trying it; 1 where there is none."""
    n_hidden, entering = output.in_features, list[Tensor]()
    given: list[tuple[nn.Module, Tensor]] = []

    def keep(module: nn.Module, inputs: Any, result: Any) -> None:
        if isinstance(result, Tensor) and result.shape[-1] == n_hidden:
            given.append((module, result))

    norms = [module for module in model.modules() if _has_only_vectors(module)]
    hooks = [norm.register_forward_hook(keep) for norm in norms]
    hooks.append(output.register_forward_pre_hook(lambda m, inputs: entering.append(inputs[0])))
    try:
        with anatomy.eval_mode(model), tap.using_attention(model, "eager"), torch.inference_mode():
            model(**batch.inputs)
    finally:
        for hook in hooks:
            hook.remove()
    last = [norm for norm, result in given if entering and torch.equal(result, entering[-1])]
    signs = torch.ones(1, n_hidden, device=output.weight.device, dtype=output.weight.dtype)
    signs[:, 1::2] = -1  # of mean 0 and size 1: a norm only multiplies them
    if not last:
        return torch.ones_like(signs[0]).float()
    with torch.inference_mode():
        difference: Tensor = last[-1](signs) - last[-1](-signs)
    return (difference * signs / 2)[0].float()


def _has_only_vectors(module: nn.Module) -> bool:
    shapes = [weight.ndim for weight in module.parameters(recurse=False)]
    return bool(shapes) and set(shapes) == {1}
