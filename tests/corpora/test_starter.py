"""Structure of the embedded starter corpus, read with a small parser of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CORPUS = Path(__file__).parents[2] / "src/headscope/corpora/starter/starter.conllu"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


KINDS = words("encyclopedia news narrative dialogue")
ENTITY_TYPES = words("person place organization object abstract event time animal plant substance")
UPOS = words("ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X")
RELATIONS = words(
    """
    acl acl:relcl advcl advmod amod appos aux aux:pass case cc cc:preconj ccomp compound
    compound:prt conj cop csubj det det:predet discourse dislocated expl fixed flat iobj mark
    nmod nmod:poss nmod:unmarked nsubj nsubj:pass nummod obj obl obl:agent obl:unmarked orphan
    parataxis punct root vocative xcomp
    """
)
UPOS_OF_RELATION = {
    "aux": {"AUX"},
    "aux:pass": {"AUX"},
    "cop": {"AUX"},
    "punct": {"PUNCT"},
    "nummod": {"NUM"},
    "cc": {"CCONJ"},
    "det": {"DET"},
    "case": {"ADP", "PART", "VERB"},
    "mark": {"SCONJ", "PART", "ADP"},
}
FUNCTION_RELATIONS = {"aux", "aux:pass", "case", "cc", "cop", "det", "mark", "punct"}
BRACKET = re.compile(
    r"\((?P<single>e\d+)-(?P<stype>[a-z]+)\)|\((?P<open>e\d+)-(?P<otype>[a-z]+)|(?P<close>e\d+)\)"
)


@dataclass(frozen=True)
class Token:
    id: int
    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str
    head: int
    deprel: str
    deps: str
    misc: str

    @property
    def space_after(self) -> bool:
        return "SpaceAfter=No" not in self.misc.split("|")

    @property
    def entity(self) -> str:
        values = [m for m in self.misc.split("|") if m.startswith("Entity=")]
        return values[0].removeprefix("Entity=") if values else ""


@dataclass
class Sentence:
    comments: list[str]
    tokens: list[Token]

    def comment(self, key: str) -> str | None:
        prefix = f"# {key} = "
        values = [c.removeprefix(prefix) for c in self.comments if c.startswith(prefix)]
        return values[0] if values else None

    @property
    def id(self) -> str:
        return self.comment("sent_id") or ""


@dataclass
class Document:
    id: str
    sentences: list[Sentence] = field(default_factory=list)


@dataclass(frozen=True)
class Mention:
    entity: str
    type: str
    sentence: int
    start: int
    end: int


def parse_token(line: str) -> Token:
    c = line.split("\t")
    assert len(c) == 10, f"not ten columns: {line!r}"
    return Token(int(c[0]), c[1], c[2], c[3], c[4], c[5], int(c[6]), c[7], c[8], c[9])


def read_sentences(text: str) -> Iterator[Sentence]:
    for block in text.rstrip("\n").split("\n\n"):
        lines = block.split("\n")
        comments = [line for line in lines if line.startswith("#")]
        yield Sentence(comments, [parse_token(line) for line in lines[len(comments) :]])


def read_documents(path: Path) -> list[Document]:
    documents: list[Document] = []
    for sentence in read_sentences(path.read_text(encoding="utf-8")):
        name = sentence.comment("newdoc id")
        if name is not None:
            documents.append(Document(name))
        documents[-1].sentences.append(sentence)
    return documents


def read_mentions(document: Document) -> list[Mention]:
    """All mentions of a document; raises on brackets that a stack cannot read."""
    mentions: list[Mention] = []
    for number, sentence in enumerate(document.sentences):
        stack: list[tuple[str, str, int]] = []
        for token in sentence.tokens:
            position = 0
            while position < len(token.entity):
                match = BRACKET.match(token.entity, position)
                assert match, f"{sentence.id}: unreadable {token.entity!r}"
                position = match.end()
                if single := match["single"]:
                    mentions.append(Mention(single, match["stype"], number, token.id, token.id))
                elif opened := match["open"]:
                    stack.append((opened, match["otype"], token.id))
                else:
                    assert stack, f"{sentence.id}: {match['close']} closed but never opened"
                    entity, etype, start = stack.pop()
                    assert entity == match["close"], f"{sentence.id}: {entity} crosses another"
                    mentions.append(Mention(entity, etype, number, start, token.id))
        assert not stack, f"{sentence.id}: brackets left open {stack}"
    return mentions


def reaches_root(token: Token, tokens: list[Token]) -> bool:
    seen: set[int] = set()
    current = token
    while current.head != 0:
        if current.id in seen or not 1 <= current.head <= len(tokens):
            return False
        seen.add(current.id)
        current = tokens[current.head - 1]
    return True


def is_projective(token: Token, tokens: list[Token]) -> bool:
    low, high = sorted((token.id, token.head))
    for between in tokens[low : high - 1]:
        current = between
        while current.head not in (0, token.head):
            current = tokens[current.head - 1]
        if current.head != token.head:
            return False
    return True


def detokenised(sentence: Sentence) -> str:
    return "".join(t.form + (" " if t.space_after else "") for t in sentence.tokens).rstrip()


DOCUMENTS = read_documents(CORPUS)
SENTENCES = [sentence for document in DOCUMENTS for sentence in document.sentences]

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: d.id)


def test_corpus_is_large_enough() -> None:
    word_count = sum(token.upos != "PUNCT" for s in SENTENCES for token in s.tokens)
    assert len(DOCUMENTS) >= 12
    assert len(SENTENCES) >= 150
    assert word_count >= 2000


def test_corpus_covers_the_four_kinds_of_text() -> None:
    assert {document.id.split("_")[1] for document in DOCUMENTS} == KINDS


def test_document_and_sentence_ids_are_unique() -> None:
    assert max(Counter(d.id for d in DOCUMENTS).values()) == 1
    assert max(Counter(s.id for s in SENTENCES).values()) == 1


def test_corpus_has_many_mentions_of_every_form() -> None:
    heads: Counter[str] = Counter()
    for document in DOCUMENTS:
        for mention in read_mentions(document):
            tokens = document.sentences[mention.sentence].tokens
            span = range(mention.start, mention.end + 1)
            heads[next(tokens[i - 1].upos for i in span if tokens[i - 1].head not in span)] += 1
    assert sum(heads.values()) >= 350
    assert min(heads["PRON"], heads["NOUN"], heads["PROPN"]) >= 30


@each_document
def test_document_has_sensible_size_and_comments(document: Document) -> None:
    assert 8 <= len(document.sentences) <= 16
    first = document.sentences[0]
    assert first.comment("global.Entity") == "eid-etype"
    assert "# newpar" in first.comments
    paragraphs = sum("# newpar" in s.comments for s in document.sentences)
    assert 2 <= paragraphs <= 4
    expected = [f"{document.id}-{i}" for i in range(1, len(document.sentences) + 1)]
    assert [s.id for s in document.sentences] == expected


@each_document
def test_entity_brackets_are_balanced_and_nested(document: Document) -> None:
    assert read_mentions(document)


@each_document
def test_every_cluster_has_two_mentions_and_one_known_type(document: Document) -> None:
    types: dict[str, set[str]] = {}
    sizes: Counter[str] = Counter()
    for mention in read_mentions(document):
        types.setdefault(mention.entity, set()).add(mention.type)
        sizes[mention.entity] += 1
    assert min(sizes.values()) >= 2
    assert all(len(found) == 1 and found <= ENTITY_TYPES for found in types.values())


@each_document
def test_no_two_mentions_share_a_span_and_none_ends_in_punctuation(document: Document) -> None:
    mentions = read_mentions(document)
    spans = Counter((m.sentence, m.start, m.end) for m in mentions)
    assert max(spans.values()) == 1
    for mention in mentions:
        tokens = document.sentences[mention.sentence].tokens
        assert tokens[mention.start - 1].upos != "PUNCT"
        assert tokens[mention.end - 1].upos != "PUNCT"


@each_document
def test_every_mention_is_one_connected_piece_of_its_tree(document: Document) -> None:
    for mention in read_mentions(document):
        span = range(mention.start, mention.end + 1)
        tokens = document.sentences[mention.sentence].tokens
        assert sum(tokens[i - 1].head not in span for i in span) == 1


@each_document
def test_text_equals_detokenised_forms(document: Document) -> None:
    for sentence in document.sentences:
        assert sentence.comment("text") == detokenised(sentence)


@each_document
def test_token_ids_count_from_one(document: Document) -> None:
    for sentence in document.sentences:
        assert [t.id for t in sentence.tokens] == list(range(1, len(sentence.tokens) + 1))


@each_document
def test_tree_has_one_root_and_no_cycle(document: Document) -> None:
    for sentence in document.sentences:
        roots = [t for t in sentence.tokens if t.head == 0]
        assert len(roots) == 1
        assert [t for t in sentence.tokens if t.deprel == "root"] == roots
        assert all(reaches_root(t, sentence.tokens) for t in sentence.tokens)


@each_document
def test_tree_is_projective(document: Document) -> None:
    for sentence in document.sentences:
        dependents = (t for t in sentence.tokens if t.head != 0)
        assert all(is_projective(t, sentence.tokens) for t in dependents)


@each_document
def test_tags_and_relations_are_known_and_agree(document: Document) -> None:
    for sentence in document.sentences:
        for token in sentence.tokens:
            assert token.upos in UPOS
            assert token.deprel in RELATIONS
            assert token.upos in UPOS_OF_RELATION.get(token.deprel, UPOS)
            assert (token.upos == "PUNCT") == (token.deprel == "punct")
            assert "" not in (token.lemma, token.xpos)
            assert token.deps == "_"


@each_document
def test_function_words_have_no_dependents(document: Document) -> None:
    for sentence in document.sentences:
        for token in sentence.tokens:
            if token.head and token.deprel != "fixed":
                assert sentence.tokens[token.head - 1].deprel not in FUNCTION_RELATIONS


@each_document
def test_predicate_has_at_most_one_subject_and_one_object(document: Document) -> None:
    for sentence in document.sentences:
        subjects = [t.head for t in sentence.tokens if t.deprel in {"nsubj", "nsubj:pass", "csubj"}]
        objects = [t.head for t in sentence.tokens if t.deprel == "obj"]
        assert len(subjects) == len(set(subjects))
        assert len(objects) == len(set(objects))


@each_document
def test_features_and_misc_are_sorted_by_key(document: Document) -> None:
    for sentence in document.sentences:
        for column in (c for t in sentence.tokens for c in (t.feats, t.misc) if c != "_"):
            keys = [pair.split("=", 1)[0] for pair in column.split("|")]
            assert keys == sorted(keys, key=str.lower)
            assert len(keys) == len(set(keys))
