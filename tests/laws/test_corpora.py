"""What holds of every corpus format, and that each law can be broken."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from headscope.contracts import Annotation, Corpus, CorpusRole
from headscope.corpora.collection import MemoryCorpus
from headscope.corpora.opening import as_corpora, open_corpus, texts
from headscope.data.example import Example, Tree
from headscope.registry import CORPORA
from headscope.testing import check_corpus
from tests.shared import shared

TEXT, TREEBANK, COREF = CorpusRole.TEXT, CorpusRole.TREEBANK, CorpusRole.COREF
ROW = "{}\t{}\t_\t_\t_\t_\t0\troot\t_\t_\n"
SAMPLES = {
    "a.txt": "one\ntwo\n\nthree\n",
    "b.jsonl": '{"id": "x", "text": "a"}\n{"id": "y", "words": ["b"]}\n',
    "c.conllu": ROW.format(1, "Hi") + "\n" + ROW.format(1, "there"),
}
COREF_SAMPLES = {
    "d.conllu": ROW.format(1, "It").replace("_\n", "Entity=(e1)\n"),
    "e.conll": "#begin document (a); part 0\na 0 0 It PRP - (1)\n#end document\n",
    "f.tsv": "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\n"
    "r1\tAnn met Bea. She left.\tShe\t13\tAnn\t0\tTRUE\tBea\t8\tFALSE\n",
}


def made_corpora(folder: Path) -> list[Corpus]:
    plain, coref = folder / "plain", folder / "coref"
    for target, samples in ((plain, SAMPLES), (coref, COREF_SAMPLES)):
        target.mkdir()
        for name, content in samples.items():
            (target / name).write_text(content)
    return [
        *(open_corpus(plain / name, TEXT) for name in SAMPLES),
        open_corpus(plain / "c.conllu", TREEBANK),
        *(open_corpus(coref / name, COREF) for name in COREF_SAMPLES),
        open_corpus(plain, TEXT),
        open_corpus(coref, COREF),
        *as_corpora([plain / name for name in SAMPLES], TEXT),
        open_corpus(f"hf:{plain}/b.jsonl:::text", TEXT),
        open_corpus("starter", TEXT),
        open_corpus("starter", TREEBANK),
        open_corpus("starter", COREF),
        open_corpus("repeats", TEXT),
        MemoryCorpus(["a", "b"]),
        texts(["a", "b"]),
        MemoryCorpus(list(open_corpus("starter", TREEBANK)), role=TREEBANK),
        MemoryCorpus(list(open_corpus("starter", COREF)), role=COREF),
    ]


def shared_corpora() -> list[Corpus]:
    return [
        open_corpus(shared("data/text/enwiki.txt"), TEXT),
        open_corpus(shared("data/treebanks/en_ewt-ud-dev.conllu"), TREEBANK),
        open_corpus(shared("data/treebanks/en_gum5-sd-ccby.conllx"), TREEBANK),
        open_corpus(shared("data/coref/ontogum"), TREEBANK),
        open_corpus(shared("data/coref/ontogum"), COREF),
        open_corpus(shared("data/coref/gap-validation.tsv"), COREF),
    ]


def check(corpus: Corpus) -> None:
    check_corpus(corpus)
    assert len(corpus.digest()) == 64
    assert {Annotation.TEXT, Annotation.REPEATS} & corpus.provides


def test_corpora_keep_the_laws(tmp_path: Path) -> None:
    corpora = made_corpora(tmp_path)
    for corpus in corpora:
        check(corpus)
    kinds = {kind for _, kind in CORPORA.load_all() if isinstance(kind, type)}
    assert kinds <= {type(corpus) for corpus in corpora}, "a registered format has no sample here"


def test_real_corpora_keep_the_laws() -> None:
    for corpus in shared_corpora():
        check(corpus)


GOOD = (
    Example("x", words=("a",), tree=Tree((-1,), ("root",)), mentions=()),
    Example("y", words=("b",), tree=Tree((-1,), ("root",)), mentions=()),
)


@dataclass
class Toy:
    """A corpus that keeps the laws, unless it is told otherwise."""

    examples: object = GOOD
    name: object = "toy"
    provides: object = frozenset({Annotation.WORDS, Annotation.DEPENDENCIES})
    digests: Iterator[object] = field(default_factory=lambda: iter(lambda: "same", None))

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)  # type: ignore[call-overload, no-any-return]

    def digest(self) -> object:
        return next(self.digests)


class Turning(Toy):
    """One that goes the other way the second time."""

    def __iter__(self) -> Iterator[Example]:
        self.examples = tuple(reversed(self.examples))  # type: ignore[call-overload]
        return iter(self.examples)


class Changing(Toy):
    """One whose examples are other ones each time, with the same ids."""

    counter = count()

    def __iter__(self) -> Iterator[Example]:
        yield Example("x", words=(str(next(self.counter)),))


def numbers() -> Iterator[str]:
    return map(str, count())


@pytest.mark.parametrize(
    ("build", "law"),
    [
        (lambda: Toy(name=""), "`name` is a non-empty string"),
        (lambda: Toy(name=None), "`name` is a non-empty string"),
        (lambda: Toy(provides={Annotation.WORDS}), "`provides` is a frozenset"),
        (lambda: Toy(["a text"]), "it yields Examples; item 1 is a str"),
        (lambda: Toy([Example("", text="a")]), "ids are non-empty strings"),
        (lambda: Toy([Example(3, text="a")]), "ids are non-empty strings"),  # type: ignore[arg-type]
        (lambda: Toy([GOOD[0], GOOD[0]]), "ids are unique"),
        (lambda: Toy([Example("x", text="a")]), "every example has what it provides; 'x'"),
        (lambda: Toy([GOOD[0], Example("z", words=("a",))]), "'z': no dependency trees"),
        (
            lambda: Toy([Example("z", words=("a",))], provides=frozenset({Annotation.COREFERENCE})),
            "'z': no coreference chains",
        ),
        (
            lambda: Toy(GOOD, provides=frozenset({Annotation.PRONOUN_CHOICES})),
            "'x': no pronoun choices",
        ),
        (lambda: Toy(iter(GOOD)), "iterated again, it yields the same ids in the same order"),
        (Turning, "iterated again, it yields the same ids in the same order"),
        (lambda: Changing(provides=frozenset()), "iterated again, it yields the same examples"),
        (lambda: Toy(digests=iter([3, 3])), r"`digest\(\)` is a non-empty string"),
        (lambda: Toy(digests=numbers()), r"`digest\(\)` is the same each time"),
    ],
)
def test_each_law_of_a_corpus_can_be_broken(build: Callable[[], Corpus], law: str) -> None:
    check_corpus(Toy())  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=f"(Toy|Turning|Changing): .*{law}"):
        check_corpus(build())


@dataclass
class ToyReader(Toy):
    """A format that keeps the laws."""

    examples: object = GOOD[0]
    roles: object = frozenset({CorpusRole.TEXT})
    suffixes: object = (".toy",)

    @property
    def path(self) -> object:
        return self.examples

    def __iter__(self) -> Iterator[Example]:
        return iter([self.examples])  # type: ignore[list-item]


class Unsteady(ToyReader):
    """One with another digest each time a file is opened."""

    def digest(self) -> str:
        return str(id(self))


class Forgetful(ToyReader):
    """One that does not keep its path."""

    path = None  # type: ignore[assignment]


class Renaming(ToyReader):
    """One with other ids each time a file is opened."""

    def __iter__(self) -> Iterator[Example]:
        return iter([Example(str(id(self)), words=("a",), tree=GOOD[0].tree)])


@pytest.mark.parametrize(
    ("build", "law"),
    [
        (lambda: ToyReader(roles=frozenset()), "`roles` is a non-empty set of CorpusRole"),
        (lambda: ToyReader(roles=frozenset({"text"})), "`roles` is a non-empty set of CorpusRole"),
        (lambda: ToyReader(roles=CorpusRole.TEXT), "`roles` is a non-empty set of CorpusRole"),
        (lambda: ToyReader(suffixes=".toy"), "`suffixes` is a non-empty tuple of strings"),
        (lambda: ToyReader(suffixes=(1,)), "`suffixes` is a non-empty tuple of strings"),
        (lambda: ToyReader(suffixes=()), "`suffixes` is a non-empty tuple of strings"),
        (Unsteady, "the same file has the same digest"),
        (Forgetful, "keeps the file it reads as `path`"),
        (Renaming, "the same file gives the same examples"),
    ],
)
def test_each_law_of_a_format_can_be_broken(build: Callable[[], Corpus], law: str) -> None:
    check_corpus(ToyReader())  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match=f"(ToyReader|Unsteady|Forgetful|Renaming): .*{law}"):
        check_corpus(build())
