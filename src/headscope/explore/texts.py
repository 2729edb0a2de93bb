"""What can be looked at: a typed text, or an example of a corpus with its tree and mentions."""

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import headscope.corpora
from headscope.contracts import AttentionSource, CorpusRole
from headscope.corpora.collection import BaseCorpus
from headscope.corpora.lines import read_lines
from headscope.corpora.opening import as_corpora, open_corpus
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import ROOT, Example
from headscope.data.words import split_words
from headscope.errors import HeadscopeError, StudyError, shorten
from headscope.view.svg import show_unit

__all__ = [
    "ExampleList",
    "ListedCorpus",
    "describe_tokens",
    "encode_text",
    "excerpt",
    "list_examples",
    "list_foreign",
    "open_measured",
    "read_texts",
    "refuse_empty",
]  # fmt: skip

MOST_CHARACTERS = 60_000  # of a text; more than any 4,096 tokens
MOST_TOKENS = 4096
NO_LIMIT = 10**9  # tokens: to say how long a text really is
LISTED = 300  # examples of a corpus that can be chosen
READ = 20_000  # examples among which others are looked for
EXCERPT = 110  # characters of an example in the list
STARTER = "starter"
TITLES = {
    CorpusRole.TREEBANK: "sentences",
    CorpusRole.COREF: "documents",
    CorpusRole.TEXT: "texts",
}


@dataclass(frozen=True)
class ListedCorpus:
    """Examples of one corpus, read for one role."""

    title: str
    role: CorpusRole
    path: str  # or its registered name
    examples: Mapping[str, Example]  # by id


@dataclass(frozen=True)
class ExampleList:
    """The examples that the page offers."""

    corpora: tuple[ListedCorpus, ...] = ()

    def find(self, id: str) -> Example:
        """The example of this id, or an error."""
        for corpus in self.corpora:
            if id in corpus.examples:
                return corpus.examples[id]
        raise StudyError(
            f"No example {shorten(id)!r} is listed. Expected one of the list; choose another, or "
            "pass --read-corpus if it is in a corpus of the run."
        )

    def list(self) -> list[dict[str, Any]]:
        """What the page lists: each corpus with the ids and beginnings of its examples."""
        return [
            {
                "corpus": corpus.title,
                "treebank": corpus.path if corpus.role is CorpusRole.TREEBANK else "",
                "examples": [[e.id, excerpt(e)] for e in corpus.examples.values()],
            }
            for corpus in self.corpora
        ]


def list_examples(
    passes: Iterable[Mapping[str, Any]],
    also: Collection[str] = (),
    granted: Collection[str] = (),
) -> ExampleList:
    """The first examples of the corpora that a run read, and those with ids in `also`, as far as
    they can be read again and their paths are `granted`; without a run, the embedded corpus.

    Sentences and documents with annotation come first.
    """
    wanted = {(p["role"], p["corpus"], p.get("path")): p for p in passes}
    if not wanted:
        roles = (CorpusRole.TREEBANK, CorpusRole.COREF)
        return ExampleList(
            tuple(_list_corpus(STARTER, r, STARTER, open_corpus(STARTER, r), also) for r in roles)
        )
    order = list(TITLES)
    corpora = []
    for pass_ in sorted(wanted.values(), key=lambda p: (order.index(p["role"]), p["corpus"])):
        try:
            corpus = open_measured(pass_, granted)
            role = CorpusRole(pass_["role"])
            corpora.append(_list_corpus(pass_["corpus"], role, pass_["path"], corpus, also))
        except HeadscopeError:  # gone, changed since or not granted: the page does without
            continue
    return ExampleList(tuple(corpora))


def open_measured(pass_: Mapping[str, Any], granted: Collection[str]) -> BaseCorpus:
    """The corpus of a pass, if it may be read and is what was measured; else an error.

    A manifest may come from somebody else and name any file or address.
    """
    path = str(pass_.get("path") or "")
    if os.path.isfile(path) and (path in granted or _is_embedded(path)):
        corpus = open_corpus(os.path.abspath(path), pass_["role"])  # never an address
        if corpus.digest() == pass_["digest"]:
            return corpus
    raise StudyError(
        f"The corpus {shorten(path)!r} of the run is not read. Expected the file that was measured "
        "and the permission to read it; pass --read-corpus."
    )


def list_foreign(passes: Iterable[Mapping[str, Any]]) -> list[str]:
    """The corpora of a run that are there as they were measured, and do not belong to headscope."""
    found: dict[str, None] = {}
    for pass_ in passes:
        path = str(pass_.get("path") or "")
        if path not in found and os.path.isfile(path) and not _is_embedded(path):
            with suppress(HeadscopeError):
                open_measured(pass_, [path])
                found[path] = None
    return list(found)


def _is_embedded(path: str) -> bool:
    return Path(path).resolve().is_relative_to(Path(headscope.corpora.__file__).resolve().parent)


def _list_corpus(
    name: str, role: CorpusRole, path: str, corpus: Iterable[Example], also: Collection[str]
) -> ListedCorpus:
    return ListedCorpus(f"{name}, {TITLES[role]}", role, path, _choose_examples(corpus, also))


def _choose_examples(corpus: Iterable[Example], also: Collection[str]) -> dict[str, Example]:
    listed: dict[str, Example] = {}
    missing = set(also)
    for number, example in enumerate(islice(corpus, READ)):
        if number >= LISTED and not missing:
            break
        if number < LISTED or example.id in missing:
            listed[example.id] = example
            missing.discard(example.id)
    return listed


def read_texts(text: str) -> list[str]:
    """The texts of `--text`: each line of a file, or the text itself."""
    if not os.path.isfile(text):  # no error for a text that is too long for a name
        return [refuse_empty(text)]
    path = Path(text)
    corpus = as_corpora(path, CorpusRole.TEXT)[0] if path.suffix != ".txt" else None
    if corpus is None:
        lines = [line.strip() for _, line in read_lines(path)]
        return [refuse_empty(line) for line in lines if line] or [refuse_empty("")]
    return [
        " ".join(filter(None, (e.text, e.text_pair))) or " ".join(e.words or ()) for e in corpus
    ]


def refuse_empty(text: str) -> str:
    """The text, or an error for one with nothing in it, or with far too much."""
    if not text.strip():
        raise StudyError("The text is empty. Expected a sentence or two; write them.")
    if len(text) > MOST_CHARACTERS:
        raise StudyError(
            f"The text has {len(text):,} characters. Expected at most {MOST_CHARACTERS:,}; "
            "shorten it."
        )
    return text


def encode_text(source: AttentionSource, example: Example) -> tuple[Encoding, int]:
    """The example in at most as many tokens as the model takes, and how many there really are.

    A typed text is encoded as running text. Where its words, taken one by one, give the same
    tokens, it also has words.
    """
    most = min(source.max_tokens, MOST_TOKENS)
    (whole,) = source.encode([example], NO_LIMIT)
    (encoding,) = source.encode([example], most)
    if example.text is not None and example.text_pair is None:
        (by_words,) = source.encode([split_words(example)], most)
        if _ids(by_words) == _ids(encoding):
            encoding = by_words
    if not len(encoding):
        raise StudyError(
            f"The tokenizer of {source.name} returns no tokens for this text. Expected text that "
            f"it knows; write words."
        )
    return encoding, len(whole)


def describe_tokens(encoding: Encoding, n_whole: int) -> dict[str, Any]:
    """What the page is told of the tokens: their text, their words, and gold pairs of words."""
    words = encoding.example.words or ()
    return {
        "tokens": [show_unit(surface) for surface in encoding.surfaces],
        "special": [int(kind != TokenKind.TEXT) for kind in encoding.kinds],
        "wordOf": encoding.word_ids.tolist(),
        "words": [show_unit(word) for word in words],
        "cutFrom": n_whole if n_whole > len(encoding) else 0,
        "arcs": list(_arcs(encoding.example)),
        "chains": list(_chains(encoding.example)),
    }


def _arcs(example: Example) -> Iterator[tuple[int, int, str]]:
    """The tree: dependent, head, relation."""
    if example.tree is not None:
        for word, (head, relation) in enumerate(
            zip(example.tree.heads, example.tree.relations, strict=True)
        ):
            if head != ROOT:
                yield word, head, relation


def _chains(example: Example) -> Iterator[tuple[int, int, str]]:
    """Coreference: a mention's head word, that of the mention before it in its chain, the chain."""
    last: dict[str, int] = {}
    for mention in sorted(example.mentions or (), key=lambda mention: (mention.start, mention.end)):
        if mention.cluster in last:
            yield mention.head, last[mention.cluster], mention.cluster
        last[mention.cluster] = mention.head


def _ids(encoding: Encoding) -> list[int]:
    ids: list[int] = encoding.inputs["input_ids"].tolist()
    return ids


def excerpt(example: Example) -> str:
    text = example.text if example.text is not None else " ".join(example.words or ())
    return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"
