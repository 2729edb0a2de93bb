"""The null model: embeddings kept, training gone."""

import pytest
import torch

from headscope.models.load import load_model
from headscope.models.loaded import weights_digest, wrap_model
from headscope.models.null import randomize
from tests.models.tiny import FAMILIES, build_model, build_tokenizer


def test_embeddings_are_kept_and_every_other_matrix_is_new() -> None:
    trained = load_model("demo")
    null = load_model("random-init:demo")
    assert null.name == "random-init:demo"
    before, after = trained.model.state_dict(), null.model.state_dict()
    for name, weight in before.items():
        is_same = torch.equal(weight, after[name])
        if "pooler" not in name:  # this checkpoint has none
            assert is_same == name.startswith("embeddings."), name


def test_the_seed_decides_the_weights() -> None:
    trained = load_model("demo")
    one, same, other = (randomize(trained, seed) for seed in (0, 0, 1))
    assert weights_digest(one.model) == weights_digest(same.model)
    assert weights_digest(one.model) != weights_digest(other.model)


def test_drawing_weights_leaves_the_global_generator_alone() -> None:
    trained = load_model("demo")
    before = torch.random.get_rng_state()
    randomize(trained, 3)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("family", ["gpt2", "llama", "roberta", "deberta-v2", "t5"])
def test_any_family_can_be_drawn_anew(family: str) -> None:
    trained = wrap_model(build_model(family), build_tokenizer(FAMILIES[family].tokenizer))
    null = randomize(trained)
    table = trained.model.get_input_embeddings().weight
    assert torch.equal(table, null.model.get_input_embeddings().weight)
    assert weights_digest(trained.model) != weights_digest(null.model)
    assert (null.n_layers, null.n_heads) == (3, 5)
