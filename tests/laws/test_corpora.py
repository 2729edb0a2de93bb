"""What holds of every corpus format."""

from pathlib import Path

from headscope.contracts import Corpus
from headscope.corpora.memory import MemoryCorpus
from headscope.corpora.opening import open_corpus
from tests.shared import shared

ROW = "{}\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n"


def made_corpora(folder: Path) -> list[Corpus]:
    (folder / "a.txt").write_text("one\ntwo\n\nthree\n")
    (folder / "b.jsonl").write_text('{"id": "x", "text": "a"}\n{"id": "y", "words": ["b"]}\n')
    (folder / "c.conllu").write_text(ROW.format(1, "Hi") + "\n" + ROW.format(1, "there"))
    files = [open_corpus(folder / name, "text") for name in ("a.txt", "b.jsonl", "c.conllu")]
    return [
        *files,
        open_corpus(folder / "c.conllu", "treebank"),
        open_corpus(folder, "text"),
        open_corpus("starter", "text"),
        open_corpus("starter", "treebank"),
        open_corpus("starter", "coref"),
        MemoryCorpus(["a", "b"]),
    ]


def shared_corpora() -> list[Corpus]:
    return [
        open_corpus(shared("data/text/enwiki.txt"), "text"),
        open_corpus(shared("data/treebanks/en_ewt-ud-dev.conllu"), "treebank"),
        open_corpus(shared("data/treebanks/en_gum5-sd-ccby.conllx"), "treebank"),
        open_corpus(shared("data/coref/ontogum"), "treebank"),
        open_corpus(shared("data/coref/ontogum"), "coref"),
        open_corpus(shared("data/coref/gap-validation.tsv"), "coref"),
    ]


def check(corpus: Corpus) -> None:
    first, second = list(corpus), list(corpus)
    assert first == second, f"{corpus.name} reads differently the second time"
    assert len({example.id for example in first}) == len(first), f"{corpus.name} repeats ids"
    assert len(corpus.digest()) == 64
    assert "text" in corpus.provides
    if "words" in corpus.provides:
        assert all(example.words for example in first)


def test_corpora_read_the_same_twice_with_unique_ids(tmp_path: Path) -> None:
    for corpus in made_corpora(tmp_path):
        check(corpus)


def test_real_corpora_read_the_same_twice_with_unique_ids() -> None:
    for corpus in shared_corpora():
        check(corpus)
