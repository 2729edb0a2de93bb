"""Hidden states: those that transformers gives, pooled by word in the store, checked before."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from headscope.corpora.collection import MemoryCorpus
from headscope.data.example import Example, Tree
from headscope.engine.sample import draw_sample
from headscope.engine.word_maps import StoredMaps
from headscope.errors import ModelError, StudyError
from headscope.models.hidden import open_hidden_states
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.options import RunOptions
from tests.models.tiny import build_model, build_tokenizer

FAMILIES = {"bert": "wordpiece", "llama": "llama"}
SENTENCE = Example(
    "s", words=("The", "lighthouse", "keeper", "sailed"), tree=Tree((1, 2, 3, -1), ("x",) * 4)
)


def source_of(family: str) -> LoadedModel:
    return wrap_model(build_model(family), build_tokenizer(FAMILIES[family]))


@pytest.mark.parametrize("family", list(FAMILIES))
def test_stored_vectors_are_means_over_the_pieces_of_a_word(family: str, tmp_path: Path) -> None:
    source = source_of(family)
    hidden = open_hidden_states(source, "0,2")
    maps = (
        StoredMaps(source, tmp_path, RunOptions(), "mean", hidden)
        .treebank(draw_sample(MemoryCorpus([SENTENCE]), None, 0))
        .maps
    )
    (encoding,) = source.encode([SENTENCE], 40)
    with torch.inference_mode():
        inputs = source.batch([encoding]).inputs
        states = source.model.eval()(**inputs, output_hidden_states=True).hidden_states
    for layer in (0, 2):
        for word in range(4):
            pieces = [i for i, own in enumerate(encoding.word_ids) if own == word]
            expected = states[layer][0, pieces].mean(0)
            found = maps.hidden(0, layer)[word].float()
            torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-3)
    without = StoredMaps(source, tmp_path / "other", RunOptions())
    plain = without.treebank(draw_sample(MemoryCorpus([SENTENCE]), None, 0)).maps
    assert torch.equal(plain.cells(0, 1), maps.cells(0, 1))  # watching changes nothing


def test_layers_are_checked_before_any_work() -> None:
    source = source_of("bert")
    assert open_hidden_states(source, "all").layers == (0, 1, 2, 3)
    for wanted in ("4", "a", "-1", ""):
        with pytest.raises(StudyError, match=r"from 0 \(the embeddings\) to 3"):
            open_hidden_states(source, wanted)


@pytest.mark.parametrize("number", [float("nan"), 1e6])
def test_states_that_half_precision_cannot_hold_are_refused(number: float) -> None:
    source = source_of("bert")

    def spoil(module: nn.Module, args: object, output: object) -> object:
        output.hidden_states[2][0, 3] = number  # type: ignore[attr-defined]
        return output

    source.model.register_forward_hook(spoil)
    with pytest.raises(ModelError, match="NaN, or numbers over 65,504"):
        open_hidden_states(source, "all")
    assert open_hidden_states(source, "0,1").dimension == source.model.config.hidden_size


def test_layers_of_different_sizes_are_refused() -> None:
    source = source_of("bert")

    def narrow(module: nn.Module, args: object, output: object) -> object:
        states = output.hidden_states  # type: ignore[attr-defined]
        return replace(output, hidden_states=(*states[:-1], states[-1][..., :3]))  # type: ignore[type-var]

    source.model.register_forward_hook(narrow)
    with pytest.raises(ModelError, match="which do not fit a store"):
        open_hidden_states(source, "all")
