"""Made treebanks with stored attention, some with the tree planted in it."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from headscope.corpora.collection import MemoryCorpus
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import ROOT, Example
from headscope.engine.sample import draw_sample
from headscope.engine.word_maps import StoredMaps
from headscope.options import RunOptions
from headscope.probes.store import encode_weights, write_store
from headscope.probes.treebank import ProbeTreebank, Sentence
from headscope.probes.vectors import WordVectors
from tests.making import VOCABULARY, MadeSource, make_example, random_maps

DIMENSION = 8  # as many as a made sentence has words
SYNTAX = (1, 3)  # layer, head: looks at the syntactic head, from the root at [CLS]
MADE = MadeSource()


def plant_tree(encoding: Encoding) -> torch.Tensor:
    """Random maps in which one head looks from every word at its head, with noise."""
    maps = random_maps(encoding)
    tree = encoding.example.tree
    assert tree is not None
    wanted = torch.zeros(len(encoding), len(encoding), dtype=maps.dtype)
    for query, word in enumerate(encoding.word_ids):
        head = tree.heads[word] if word >= 0 else ROOT
        is_key = encoding.kinds == TokenKind.CLS if head == ROOT else encoding.word_ids == head
        wanted[query, torch.from_numpy(is_key)] = 1 / is_key.sum()
    maps[SYNTAX] = 0.5 * maps[SYNTAX] + 0.5 * wanted
    return maps


PLANTED_TREE = MadeSource(plant_tree, name="planted")


def make_examples(n_sentences: int, first: int = 0) -> list[Example]:
    return [make_example(seed) for seed in range(first, first + n_sentences)]


def store(
    folder: Path, examples: Sequence[Example], source: MadeSource = MADE, **options: int
) -> ProbeTreebank:
    """These sentences with their attention, written to a folder or found there."""
    sample = draw_sample(MemoryCorpus(examples), None, 0)
    return StoredMaps(source, folder, RunOptions(**options)).treebank(sample)


def made_vectors(dimension: int = 4, seed: int = 0) -> WordVectors:
    """Random vectors for all words but the last two, which stay unknown."""
    rng = np.random.default_rng(seed)
    known = VOCABULARY[:-2]
    table = rng.standard_normal((len(known) + 1, dimension)).astype(np.float32)
    table[0] = 0
    return WordVectors(table, {word: row for row, word in enumerate(known, start=1)})


def plant_vectors(sentence: Sentence, layer: int) -> torch.Tensor:
    """Layer 1 has the tree: one part for each arc on the way to the root. Layer 0 is noise."""
    rng = np.random.default_rng(sentence.key % 2**32)
    vectors = rng.normal(0, 0.05, (len(sentence), DIMENSION))
    for word in range(len(sentence)):
        place = word
        while layer == 1 and sentence.heads[place] != ROOT:
            vectors[word, place] += 1
            place = int(sentence.heads[place])
    return torch.from_numpy(vectors).half()


def store_vectors(folder: Path, examples: Sequence[Example]) -> ProbeTreebank:
    """These sentences with planted attention and planted vectors in two layers."""
    treebank = store(folder / "maps", examples, PLANTED_TREE)
    index = replace(treebank.maps.index, hidden_layers=(0, 1), dimension=DIMENSION)
    blocks = (
        [
            encode_weights(treebank.maps.sentence(i)),
            *(plant_vectors(sentence, layer) for layer in (0, 1)),
        ]
        for i, sentence in enumerate(treebank.sentences)
    )
    return replace(treebank, maps=write_store(folder / "both", index, blocks))
