"""The untrained model: embeddings kept, training gone."""

import pytest
import torch

from headscope.models.anatomy import weights_digest
from headscope.models.load import load_model, make_untrained
from headscope.models.loaded import wrap_model
from tests.models.tiny import FAMILIES, build_model, build_tokenizer


def test_embeddings_are_kept_and_every_other_matrix_is_new() -> None:
    trained = load_model("demo")
    untrained = load_model("random-init:demo")
    assert untrained.name == "random-init:demo"
    before, after = trained.model.state_dict(), untrained.model.state_dict()
    for name, weight in before.items():
        is_same = torch.equal(weight, after[name])
        if "pooler" not in name:  # this checkpoint has none
            assert is_same == name.startswith("embeddings."), name


def test_the_seed_decides_the_weights() -> None:
    trained = load_model("demo")
    one, same, other = (make_untrained(trained, seed) for seed in (0, 0, 1))
    assert weights_digest(one.model) == weights_digest(same.model)
    assert weights_digest(one.model) != weights_digest(other.model)


def test_drawing_weights_leaves_the_global_generator_alone() -> None:
    trained = load_model("demo")
    before = torch.random.get_rng_state()
    make_untrained(trained, 3)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("family", ["gpt2", "llama", "roberta", "deberta-v2", "t5"])
def test_any_family_can_be_drawn_anew(family: str) -> None:
    trained = wrap_model(build_model(family), build_tokenizer(FAMILIES[family].tokenizer))
    untrained = make_untrained(trained)
    table = trained.model.get_input_embeddings().weight
    assert torch.equal(table, untrained.model.get_input_embeddings().weight)
    assert weights_digest(trained.model) != weights_digest(untrained.model)
    assert (untrained.n_layers, untrained.n_heads) == (3, 5)
