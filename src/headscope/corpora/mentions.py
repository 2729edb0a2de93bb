"""Documents with mentions: the brackets that mark them, their heads, kinds and agreement.

`(1` opens a mention of cluster 1, `1)` closes it, `(1)` is one word. Number, gender and person come
from features where a corpus has them, else from the words. The lexicons are English and small, to
be read at a glance; Universal Dependencies features serve any language.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

from headscope.data.example import ROOT, Example, Mention
from headscope.errors import InputError, shorten

__all__ = [
    "Brackets", "DocumentSentence", "HeadFinder", "Span", "Word", "build_document",
    "describe_mentions", "find_head_in_tree", "guess_head", "require_mentions",
]  # fmt: skip

BRACKET = re.compile(r"\((?P<single>[^()]+)\)|\((?P<open>[^()]+)|(?P<close>[^()]+)\)")
HeadFinder = Callable[[int, int], int]  # start and end of a span -> its head word

POST_MODIFYING_WORDS = """
    of in on at for from with by to about against between into through over under after before
    who whom whose which that where when
"""
POST_MODIFIERS = frozenset([*POST_MODIFYING_WORDS.split(), ",", "(", "-", "--", ":"])
POSSESSIVE_MARKS = ("'s", "’s", "'", "’")
PRONOUN_TAGS = frozenset({"PRON", "PRP", "PRP$", "WP", "WP$"})
PROPER_TAGS = frozenset({"PROPN", "NNP", "NNPS"})


class Span(NamedTuple):
    """Words `start` to `end` (not included) of a document, in a cluster."""

    start: int
    end: int
    cluster: str


@dataclass(frozen=True)
class Word:
    """A word of a document with what its corpus says of it."""

    form: str
    tag: str | None = None  # UPOS or Penn
    fine_tag: str | None = None  # XPOS
    features: Mapping[str, str] = field(default_factory=dict)


def describe_mentions(
    words: Sequence[Word], spans: Sequence[Span], find_head: HeadFinder
) -> tuple[Mention, ...]:
    """The mentions of a document; a cluster that is mentioned once is marked."""
    sizes = Counter(span.cluster for span in spans)
    mentions = []
    for start, end, cluster in spans:
        head = find_head(start, end)
        word, inside = words[head], words[start:end]
        kind = find_kind(inside, head - start, is_first=start == 0)
        forms = [word.form for word in inside]
        agreement = find_agreement(forms, head - start, word.features, word.fine_tag or word.tag)
        is_single = sizes[cluster] == 1
        mentions.append(Mention(start, end, cluster, head, kind, *agreement, is_single))
    return tuple(mentions)


def find_kind(words: Sequence[Word], head: int, is_first: bool = False) -> str:
    """Pronoun, proper (a name), or nominal (everything else), by tag, else by a closed list.

    >>> find_kind([Word("the"), Word("Nile")], 1)
    'proper'
    """
    word = words[head]
    is_lone_pronoun = len(words) == 1 and word.form.lower() in PRONOUNS
    if word.tag is None:
        is_name = word.form[:1].isupper() and not (is_first and head == 0)
        return "pronoun" if is_lone_pronoun else "proper" if is_name else "nominal"
    is_own = word.features.get("PronType") == "Prs"  # possessives are determiners in some languages
    if word.tag in PROPER_TAGS and not is_own:
        return "proper"
    return "pronoun" if word.tag in PRONOUN_TAGS or is_own or is_lone_pronoun else "nominal"


def find_head_in_tree(parents: Sequence[int], start: int, end: int) -> int:
    """The word whose parent lies outside the span; of several the one highest in the tree.

    >>> find_head_in_tree([1, 4, 3, 1, ROOT], 0, 4)  # "the keeper of lighthouses", then a verb
    1
    """

    def depth(word: int) -> int:
        return 0 if parents[word] == ROOT else 1 + depth(parents[word])

    tops = [word for word in range(start, end) if not start <= parents[word] < end]
    return min(tops, key=lambda word: (depth(word), word))


def guess_head(words: Sequence[str], start: int, end: int) -> int:
    """Without a tree: the last word before what modifies it from behind, else the last word.

    >>> guess_head("the keeper of the lighthouse".split(), 0, 5)
    1
    """
    modifiers = (i for i in range(start + 1, end) if words[i].lower() in POST_MODIFIERS)
    head = next(modifiers, end) - 1
    while head > start and words[head] in (*POSSESSIVE_MARKS, ".", '"', "''", "”", ")"):
        head -= 1
    return head


class Agreement(NamedTuple):
    """What a mention and its antecedent should share; None where unknown."""

    number: str | None = None
    gender: str | None = None
    person: str | None = None


PRONOUNS: Mapping[str, Agreement] = {
    word: Agreement(*agreement)
    for words, *agreement in (
        ("i me my mine myself", "singular", None, "1"),
        ("we us our ours ourselves", "plural", None, "1"),
        ("you your yours yourself yourselves", None, None, "2"),
        ("he him his himself", "singular", "masculine", "3"),
        ("she her hers herself", "singular", "feminine", "3"),
        ("it its itself this that", "singular", "neuter", "3"),
        ("they them their theirs themselves these those", "plural", None, "3"),
        ("one oneself who whom whose which", None, None, "3"),
    )
    for word in str(words).split()
}

MASCULINE_WORDS = """
    man men boy boys father fathers son sons brother brothers husband husbands uncle uncles nephew
    grandfather grandson king kings prince princes duke lord gentleman gentlemen guy guys actor monk
    priest mr mr. sir dad daddy widower waiter policeman fisherman chairman spokesman adam alan
    albert alexander andrew anthony arthur ben benjamin bill bob brian charles chris christopher
    daniel david dennis donald edward eric frank fred gary george gordon harold harry henry hugh ian
    jack james jason jeff jim joe john jonathan joseph kevin larry mark martin matthew michael mike
    nick patrick paul peter philip ralph richard rick robert roger ronald sam scott simon stephen
    steve steven stuart ted thomas tim timothy tom tony victor walter william
"""
FEMININE_WORDS = """
    woman women girl girls mother mothers daughter daughters sister sisters wife wives aunt aunts
    niece grandmother granddaughter queen queens princess princesses duchess lady ladies actress nun
    mrs mrs. ms ms. miss madam mom mum widow waitress policewoman chairwoman spokeswoman alice
    amanda amy andrea angela ann anna anne barbara betty carol caroline catherine christine claire
    deborah diana donna dorothy elizabeth ellen emily emma eva frances grace hannah helen irene jane
    janet jennifer jessica joan joanna judith julia julie karen kate katherine kathleen laura linda
    lisa lucy margaret maria marie martha mary michelle nancy nicole olivia pamela patricia rachel
    rebecca rose ruth sandra sara sarah sharon sophie stephanie susan teresa theresa victoria
    virginia
"""
MASCULINE, FEMININE = frozenset(MASCULINE_WORDS.split()), frozenset(FEMININE_WORDS.split())
GENDERED = MASCULINE | FEMININE
FEATURES = {"Sing": "singular", "Plur": "plural", "Masc": "masculine", "Fem": "feminine"}
FEATURES |= {"Neut": "neuter", "1": "1", "2": "2", "3": "3"}
PENN_NUMBER = {"NN": "singular", "NNP": "singular", "NNS": "plural", "NNPS": "plural"}


def find_agreement(
    words: Sequence[str], head: int, features: Mapping[str, str], tag: str | None
) -> Agreement:
    """What is known of a mention from its words, of which `head` stands for it.

    >>> find_agreement(["her", "old", "father"], 2, {}, "NN")
    Agreement(number='singular', gender='masculine', person='3')
    """
    pronoun = PRONOUNS.get(words[head].lower()) if len(words) == 1 else None
    by_word = pronoun or Agreement(person="3")
    is_joined = len(words) > 1 and "and" in [word.lower() for word in words]
    marked = FEATURES.get(features.get("Number", "")) or PENN_NUMBER.get(tag or "")
    named = [words[head].lower(), words[0].lower()]  # else by the title or first name before it
    genders = ("masculine" if w in MASCULINE else "feminine" for w in named if w in GENDERED)
    return Agreement(
        number="plural" if is_joined else marked or by_word.number,
        gender=FEATURES.get(features.get("Gender", "")) or by_word.gender or next(genders, None),
        person=FEATURES.get(features.get("Person", "")) or by_word.person,
    )


@dataclass
class Brackets:
    """The brackets of a document, read word by word."""

    path: Path
    id_field: int = 0  # which field of "e1-person-..." names the cluster
    spans: set[Span] = field(default_factory=set)
    _open: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # (word, line)

    def read(self, word: int, line: int, text: str) -> None:
        """Take in the brackets that stand at a word."""
        if "[" in text:
            raise InputError(
                f"{self.path}:{line}: {shorten(text)!r} is part of a mention in several parts. "
                "Expected mentions without gaps; keep its main part, or leave the mention out."
            )
        position = 0
        while match := BRACKET.match(text, position):  # a search would try every position
            position = match.end()
            if match["close"]:
                self._close(self._name(match["close"]), word, line)
            else:
                cluster = self._name(match["single"] or match["open"])
                self._open.setdefault(cluster, []).append((word, line))
                if match["single"]:
                    self._close(cluster, word, line)
        if position != len(text):
            raise InputError(
                f"{self.path}:{line}: {shorten(text)!r} is not a mention. Expected brackets such "
                "as (1, 1) or (1), with or without fields after the number; fix the row."
            )

    def finish(self) -> list[Span]:
        """All mentions in order, outer ones first; an error if one is still open."""
        for cluster, opened in self._open.items():
            if opened:
                raise InputError(
                    f"{self.path}:{opened[-1][1]}: the mention of {shorten(cluster)!r} that "
                    "begins here never ends. Expected a closing bracket in the same document; "
                    "add it, or remove the opening one."
                )
        return sorted(self.spans, key=lambda span: (span.start, -span.end, span.cluster))

    def _close(self, cluster: str, word: int, line: int) -> None:
        if not self._open.get(cluster):
            raise InputError(
                f"{self.path}:{line}: a mention of {shorten(cluster)!r} ends here that did not "
                "begin. Expected an opening bracket before it in the same document; add it, or "
                "remove the closing one."
            )
        start, _ = self._open[cluster].pop()
        span = Span(start, word + 1, cluster)
        if span in self.spans:
            raise InputError(
                f"{self.path}:{line}: the same mention of {shorten(cluster)!r} is marked twice. "
                "Expected each span once in a cluster; remove one of its brackets."
            )
        self.spans.add(span)

    def _name(self, text: str) -> str:
        fields = text.split("-")
        return fields[self.id_field] if self.id_field < len(fields) else fields[0]


@dataclass(frozen=True)
class DocumentSentence:
    """The words of a sentence, whether each has a space before it, and heads if there is a tree.

    `surfaces` are the words as they stand in the text, where they differ.
    """

    words: Sequence[Word]
    spaces: Sequence[bool]
    heads: Sequence[int] | None = None
    surfaces: Sequence[str] | None = None


def build_document(
    id: str,
    sentences: Sequence[DocumentSentence],
    spans: Sequence[Span],
    find_head: HeadFinder | None = None,
) -> Example:
    """One example of all sentences; heads of mentions by `find_head`, the trees, or the words."""
    words = list(chain.from_iterable(sentence.words for sentence in sentences))
    forms = tuple(word.form for word in words)
    starts = list(accumulate((len(sentence.words) for sentence in sentences[:-1]), initial=0))
    if find_head is None and all(sentence.heads is not None for sentence in sentences):
        parents = [
            head if head == ROOT else start + head
            for start, sentence in zip(starts, sentences, strict=True)
            for head in sentence.heads or ()
        ]
        find_head = partial(find_head_in_tree, parents)
    spaces = [
        space or (i == 0 and start > 0)  # sentences stand apart
        for start, sentence in zip(starts, sentences, strict=True)
        for i, space in enumerate(sentence.spaces)
    ]
    surfaces = [
        surface
        for sentence in sentences
        for surface in sentence.surfaces or (word.form for word in sentence.words)
    ]
    return Example(
        id,
        words=forms,
        spaces=tuple(spaces),
        surfaces=tuple(surfaces) if any(s.surfaces for s in sentences) else None,
        mentions=describe_mentions(words, spans, find_head or partial(guess_head, forms)),
        sentences=tuple(starts),
        document=id,
    )


def require_mentions(documents: Iterable[Example], path: Path, expected: str) -> Iterator[Example]:
    """The documents of a file; an error after the last if none has a mention."""
    has_mentions = False
    for document in documents:
        has_mentions = has_mentions or bool(document.mentions)
        yield document
    if not has_mentions:
        raise InputError(
            f"{path}: no mention in the whole file. Expected {expected}; pass a file with "
            "coreference."
        )
