"""The structural probe (Hewitt and Manning 2019): trees as distances in a space of vectors.

A linear map B takes the vectors h of words to where the squared distance |B(h_i - h_j)|^2 is to be
the number of arcs between two words, and another map C to where the squared length |C h_i|^2 is to
be the depth of a word. The losses are theirs: the mean absolute error over the pairs (words) of a
sentence, then over sentences.

Both together also give directed arcs: the head j of i is one arc away and one arc less deep, so it
scores -|d_ij - 1| - |depth_i - depth_j - 1|. ROOT stands one arc above depth 0: -2 |depth_i|.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headscope.errors import StudyError
from headscope.kernels.tree_loss import tree_losses
from headscope.probes.batches import NeuralScorer, SeedSums, SentenceBatch, mask_scores
from headscope.probes.treebank import ProbeTreebank

__all__ = ["StructuralProbe", "measure_scale", "refuse_rank"]

N_SCALED = 500  # sentences whose vectors say how large they are
FIRST_DISTANCE = 4.0  # between two words, on average, before training


class StructuralProbe(NeuralScorer):
    """Both maps of each seed, over the vectors of one layer.

    Vectors are divided by `scale`, the size of each of their parts: of another size, Adam's steps
    would be too small or too large. The maps could do the same, so it changes the path alone.
    """

    uses_maps = False
    needs_sharpness = True
    rate = 8e-4  # its first weights are small: steps of the other probes' size would overshoot
    scale: Tensor

    def __init__(
        self,
        layer: int,
        scale: Float[Tensor, " dimension"],
        rank: int,
        seeds: Sequence[int] = (0,),
    ) -> None:
        super().__init__(seeds)
        self.hidden_layer = layer
        self.register_buffer("scale", scale, persistent=False)
        size = (FIRST_DISTANCE / (2 * rank * len(scale))) ** 0.5
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        drawn = [
            size * torch.randn(2, len(scale), rank, generator=generator) for generator in generators
        ]
        maps = torch.stack(drawn)  # [seed, distance or depth, dimension, rank]
        self.distance = nn.Parameter(maps[:, 0].clone())
        self.depth = nn.Parameter(maps[:, 1].clone())

    def measure(
        self, batch: SentenceBatch
    ) -> tuple[Float[Tensor, "seed sentence word other"], Float[Tensor, "seed sentence word"]]:
        """The distances between words and their depths, as the probe sees them."""
        placed, raised = self._place(batch)
        squares = placed.square().sum(-1)
        products = placed @ placed.transpose(2, 3)
        distances = squares[..., :, None] + squares[..., None, :] - 2 * products
        return distances, raised.square().sum(-1)

    def _place(self, batch: SentenceBatch) -> list[Float[Tensor, "seed sentence word rank"]]:
        """Where the two maps take the vectors."""
        assert batch.hidden is not None
        shape = batch.hidden.shape[:2]
        vectors = (batch.hidden / self.scale).flatten(0, 1)
        maps = self.of_seeds(self.distance), self.of_seeds(self.depth)
        return [(vectors @ by_seed).reshape(len(by_seed), *shape, -1) for by_seed in maps]

    def forward(self, batch: SentenceBatch) -> Float[Tensor, "seed sentence word candidate"]:
        """The scores of every candidate, ROOT last."""
        distances, depths = self.measure(batch)
        above = depths[..., :, None] - depths[..., None, :]  # by how much the other is less deep
        words = -(distances - 1).abs() - (above - 1).abs()
        return mask_scores(torch.cat([words, -2 * depths.abs()[..., None]], dim=-1), batch)

    def losses(self, batch: SentenceBatch) -> SeedSums:
        """Both losses of Hewitt and Manning, by sentence; those with words without a head are left
        out."""
        distances = torch.zeros(*batch.heads.shape, batch.n_words)
        depths = torch.zeros(batch.heads.shape)
        for i, sentence in enumerate(batch.sentences):
            n = len(sentence)
            distances[i, :n, :n] = torch.from_numpy(sentence.distances)
            depths[i, :n] = torch.from_numpy(sentence.depths)
        is_whole = torch.tensor([sentence.is_whole for sentence in batch.sentences])
        given = (*self._place(batch), distances, depths, batch.sizes * is_whole)
        return _TreeLosses.apply(*given), is_whole.long()  # type: ignore[no-untyped-call]

    def grades(self, batch: SentenceBatch) -> SeedSums:
        losses, counts = self.losses(batch)
        return -losses, counts


class _TreeLosses(torch.autograd.Function):
    """The compiled losses as a function that torch can differentiate by where words are."""

    @staticmethod
    def forward(context: Any, *given: Tensor) -> Tensor:
        placed = [part.detach().contiguous() for part in given[:2]]
        slopes = [torch.zeros_like(part) for part in placed]
        losses = placed[0].new_zeros(placed[0].shape[:2])
        tree_losses(*(part.numpy() for part in (*placed, *given[2:], losses, *slopes)))
        context.save_for_backward(*slopes)
        return losses

    @staticmethod
    def backward(context: Any, by_losses: Tensor) -> Any:
        slopes = (part * by_losses[..., None, None] for part in context.saved_tensors)
        return (*slopes, None, None, None)


def measure_scale(
    treebank: ProbeTreebank, layer: int, seed: int = 0
) -> Float[Tensor, " dimension"]:
    """The root mean square of each part of the vectors of some sentences; 1 where it is 0."""
    sample = treebank.choose(N_SCALED, seed)
    squares = torch.zeros(treebank.maps.index.dimension, dtype=torch.float64)
    for index in sample.stored_at:
        squares += treebank.maps.hidden(int(index), layer).double().square().sum(0)
    size = (squares / max(int(sample.sizes.sum()), 1)).sqrt().float()
    return torch.where(size > 0, size, 1.0)


def refuse_rank(rank: int, dimension: int) -> None:
    """An error for a rank that vectors of this size cannot have."""
    if not 1 <= rank <= dimension:
        raise StudyError(
            f"--rank {rank} cannot be used: the hidden states have {dimension} dimensions. "
            f"Expected a rank from 1 to {dimension}; change it."
        )
