"""Sentences of a treebank that cannot be read: all are told at once, or left out and counted."""

from pathlib import Path

import pytest

from headscope.contracts import Annotation
from headscope.corpora.opening import open_corpus
from headscope.errors import InputError

GOOD = "1\tBees\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tfly\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
NO_ROOT = GOOD.replace("0\troot", "1\troot")
SHORT = "1\tBees\t_\n\n"


def write(folder: Path, *sentences: str) -> Path:
    path = folder / "a.conllu"
    path.write_text("".join(sentences))
    return path


def test_all_bad_sentences_are_told_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, NO_ROOT, GOOD, SHORT)
    with pytest.raises(InputError) as error:
        list(open_corpus(path, "treebank"))
    message = str(error.value)
    assert "2 sentences" in message
    assert f"{path}:4:" in message
    assert f"{path}:10:" in message
    assert "skip_bad" in message


def test_of_many_bad_sentences_the_first_twenty_are_told(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, *[SHORT] * 30)
    with pytest.raises(InputError) as error:
        list(open_corpus(path, "treebank"))
    assert str(error.value).count(f"{path}:") == 20
    assert "10 more" in str(error.value)


def test_bad_sentences_are_left_out_and_counted_on_request(tmp_path: Path) -> None:
    corpus = open_corpus(write(tmp_path, SHORT, GOOD, NO_ROOT, GOOD), "treebank", skip_bad=True)
    assert Annotation.DEPENDENCIES in corpus.provides
    assert [example.words for example in corpus] == [("Bees", "fly")] * 2
    [reason] = corpus.skipped_files.values()
    assert "2 sentences" in reason
    assert "a.conllu:1:" in reason


def test_a_file_of_bad_sentences_alone_is_refused_in_any_case(tmp_path: Path) -> None:
    for n_bad, said in ((1, "1 sentence "), (2, "2 sentences ")):
        path = write(tmp_path, *[SHORT] * n_bad)
        with pytest.raises(InputError, match="nothing is left") as error:
            assert open_corpus(path, "treebank", skip_bad=True).provides
        assert said in str(error.value)
        assert "skip_bad" not in str(error.value)
        assert f"{path}:1:" in str(error.value)


def test_in_a_folder_only_the_bad_sentences_of_a_file_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, GOOD, SHORT)
    (tmp_path / "b.conllu").write_text(GOOD)
    corpus = open_corpus(tmp_path, "treebank", skip_bad=True)
    assert len(list(corpus)) == 2
    [reason] = corpus.skipped_files.values()
    assert "1 sentence" in reason


def test_a_single_bad_sentence_is_told_as_it_is(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, NO_ROOT)
    with pytest.raises(InputError) as error:
        list(open_corpus(path, "treebank"))
    assert str(error.value).startswith(f"{path}:4:")
