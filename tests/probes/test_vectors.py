"""Word vectors: what is read, what is refused, and how words are looked up."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.corpora.lines import read_lines
from headscope.errors import InputError
from headscope.probes.vectors import UNKNOWN, WordEmbedding, WordVectors, read_vectors

GLOVE = "the 0.5 -1 2\nboat .25 1e-2 3\n0000 1 1 1\n. . . 7 8 9\n"


def read(path: Path, text: str, words: list[str]) -> WordVectors:
    path.write_text(text)
    return read_vectors(path, read_lines(path), words)


@pytest.mark.parametrize("header", ["", "4 3\n"])
def test_glove_and_word2vec_text_are_read(tmp_path: Path, header: str) -> None:
    vectors = read(tmp_path / "v.txt", header + GLOVE, ["the", "boat", "sea", ". . ."])
    assert vectors.dimension == 3
    np.testing.assert_allclose(vectors.table[vectors.row_of("boat")], [0.25, 0.01, 3])
    np.testing.assert_allclose(vectors.table[vectors.row_of(". . .")], [7, 8, 9])
    assert vectors.row_of("sea") == UNKNOWN


def test_gzipped_vectors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "v.txt.gz"
    path.write_bytes(gzip.compress(GLOVE.encode()))
    assert read_vectors(path, read_lines(path), ["the"]).row_of("the") != UNKNOWN


def test_case_and_digits_are_folded_and_coverage_is_counted(tmp_path: Path) -> None:
    words = ["The", "BOAT", "1984", "sea"]
    vectors = read(tmp_path / "v.txt", GLOVE, words)
    assert vectors.row_of("The") == vectors.row_of("the") != UNKNOWN
    np.testing.assert_allclose(vectors.table[vectors.row_of("1984")], [1, 1, 1])
    assert vectors.coverage(words) == 0.75


def test_only_wanted_words_are_kept(tmp_path: Path) -> None:
    assert len(read(tmp_path / "v.txt", GLOVE, ["boat"]).table) == 2  # with the unknown one


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("the 1 2 3\nboat 1 2\n", r"v.txt:2: the vector of 'boat' has 2 numbers. Expected 3"),
        ("the 1 2 3\nboat 1 2 3 4\n", r"v.txt:2: the vector of 'boat' has 4 numbers. Expected 3"),
        ("the 1 2 3\nboat\n", r"v.txt:2: 'boat' is not a word vector"),
        ("the 1 2x 3\n", r"v.txt:1: the vector of 'the' holds something that is not a number"),
        ("the 1 1e99 3\n", r"v.txt:1: the vector of 'the' is not finite"),
        ("sea 1 2 3\n", r"v.txt has no vector for any word"),
        ("", r"v.txt has no vector for any word"),
    ],
)
def test_bad_lines_are_refused_with_path_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read(tmp_path / "v.txt", text, ["the", "boat"])
    assert "Expected" in str(error.value)


def test_unknown_words_share_one_vector_that_learns(tmp_path: Path) -> None:
    vectors = read(tmp_path / "v.txt", GLOVE, ["the", "boat"])
    embedding = WordEmbedding(vectors, seeds=(0, 1))
    rows = torch.tensor([[vectors.row_of("boat"), UNKNOWN, UNKNOWN]])
    types, places = embedding.find_types(rows)
    found = embedding.project(types, torch.eye(3)[None], slice(0, 1))[:, places]
    assert torch.equal(found[0, 0, 1], found[0, 0, 2])
    assert torch.equal(found[0, 0, 0], torch.tensor([0.25, 0.01, 3.0]))
    found.sum().backward()
    assert embedding.unknown.grad is not None
    assert (embedding.unknown.grad[0] == 2).all()
    assert (embedding.unknown.grad[1] == 0).all()  # of another seed
    assert "table" not in dict(embedding.named_parameters())  # frozen
