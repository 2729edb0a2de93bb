"""What can be looked at: a typed text, or an example of a corpus with its tree and mentions."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from headscope.contracts import AttentionSource, CorpusRole
from headscope.corpora.opening import as_corpora, open_corpus
from headscope.data.encoding import Encoding, TokenKind
from headscope.data.example import Example
from headscope.data.running_text import split_words
from headscope.data.tree import ROOT
from headscope.errors import HeadscopeError, StudyError
from headscope.view.svg import show_unit

__all__ = [
    "Shelf", "ShelfCorpus", "describe_tokens", "encode_text", "excerpt", "open_shelf", "read_texts",
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
class ShelfCorpus:
    """Examples of one corpus, read for one role."""

    title: str
    role: CorpusRole
    path: str  # or its registered name
    examples: Mapping[str, Example]  # by id


@dataclass(frozen=True)
class Shelf:
    """The examples that the page offers."""

    corpora: tuple[ShelfCorpus, ...] = ()

    def find(self, id: str) -> Example:
        """The example of this id, or an error."""
        for corpus in self.corpora:
            if id in corpus.examples:
                return corpus.examples[id]
        raise StudyError(f"No example {id!r} is listed. Expected one of the list; choose another.")

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


def open_shelf(passes: Iterable[Mapping[str, Any]], also: Collection[str] = ()) -> Shelf:
    """The first examples of the corpora that a run read, and those with ids in `also`, as far as
    they can be read again; without a run, the embedded corpus.

    Sentences and documents with annotation come first.
    """
    wanted = {(str(p.get("path")), CorpusRole(p["role"]), str(p["corpus"])) for p in passes}
    if not wanted:
        wanted = {(STARTER, role, STARTER) for role in (CorpusRole.TREEBANK, CorpusRole.COREF)}
    order = list(TITLES)
    corpora = []
    for path, role, name in sorted(wanted, key=lambda one: (order.index(one[1]), one[2])):
        try:
            by_id = _list_examples(open_corpus(path, role), also)
        except HeadscopeError:  # gone or changed since: the page does without
            continue
        corpora.append(ShelfCorpus(f"{name}, {TITLES[role]}", role, path, by_id))
    return Shelf(tuple(corpora))


def _list_examples(corpus: Iterable[Example], also: Collection[str]) -> dict[str, Example]:
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
    path = Path(text)
    is_file = len(text) < 1000 and "\n" not in text and path.is_file()
    if not is_file:
        return [refuse_empty(text)]
    corpus = as_corpora(path, CorpusRole.TEXT)[0] if path.suffix != ".txt" else None
    if corpus is None:
        lines = [line.strip() for line in path.read_text().splitlines()]
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
