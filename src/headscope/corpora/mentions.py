"""From spans to mentions: the head word, the kind, and what must agree."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headscope.corpora.agreement import PRONOUNS, find_agreement
from headscope.corpora.brackets import Span
from headscope.data.mention import Mention
from headscope.data.tree import ROOT

__all__ = ["HeadFinder", "Word", "describe_mentions", "find_head_in_tree", "guess_head"]

HeadFinder = Callable[[int, int], int]  # start and end of a span -> its head word

POST_MODIFYING_WORDS = """
    of in on at for from with by to about against between into through over under after before
    who whom whose which that where when
"""
POST_MODIFIERS = frozenset([*POST_MODIFYING_WORDS.split(), ",", "(", "-", "--", ":"])
POSSESSIVE_MARKS = ("'s", "’s", "'", "’")
PRONOUN_TAGS = frozenset({"PRON", "PRP", "PRP$", "WP", "WP$"})
PROPER_TAGS = frozenset({"PROPN", "NNP", "NNPS"})


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
    return tuple(_describe(words, span, find_head, sizes[span.cluster] == 1) for span in spans)


def _describe(
    words: Sequence[Word], span: Span, find_head: HeadFinder, is_singleton: bool
) -> Mention:
    start, end, cluster = span
    head = find_head(start, end)
    inside = words[start:end]
    forms = [word.form for word in inside]
    word = words[head]
    agreement = find_agreement(forms, head - start, word.features, word.fine_tag or word.tag)
    return Mention(
        start,
        end,
        cluster,
        head,
        find_kind(inside, head - start, is_first=start == 0),
        *agreement,
        is_singleton=is_singleton,
    )


def find_kind(words: Sequence[Word], head: int, is_first: bool = False) -> str:
    """Pronoun, proper (a name), or nominal (everything else), by tag, else by a closed list.

    >>> find_kind([Word("the"), Word("Nile")], 1)
    'proper'
    """
    word = words[head]
    if word.tag is None:
        return _guess_kind(words, head, is_first)
    is_own = word.features.get("PronType") == "Prs"  # possessives are determiners in some languages
    is_alone = len(words) == 1 and word.form.lower() in PRONOUNS
    if word.tag in PRONOUN_TAGS or is_own or (is_alone and word.tag not in PROPER_TAGS):
        return "pronoun"
    return "proper" if word.tag in PROPER_TAGS else "nominal"


def _guess_kind(words: Sequence[Word], head: int, is_first: bool) -> str:
    form = words[head].form
    if len(words) == 1 and form.lower() in PRONOUNS:
        return "pronoun"
    is_name = form[:1].isupper() and not (is_first and head == 0)
    return "proper" if is_name else "nominal"


def find_head_in_tree(parents: Sequence[int], start: int, end: int) -> int:
    """The word whose parent lies outside the span; of several the one highest in the tree.

    >>> find_head_in_tree([1, 4, 3, 1, ROOT], 0, 4)  # "the keeper of lighthouses", then a verb
    1
    """
    tops = [word for word in range(start, end) if not start <= parents[word] < end]
    return min(tops, key=lambda word: (_depth(parents, word), word))


def _depth(parents: Sequence[int], word: int) -> int:
    depth = 0
    while parents[word] != ROOT:
        word, depth = parents[word], depth + 1
    return depth


def guess_head(words: Sequence[str], start: int, end: int) -> int:
    """Without a tree: the last word before what modifies it from behind, else the last word.

    >>> guess_head("the keeper of the lighthouse".split(), 0, 5)
    1
    """
    place = end
    for word in range(start + 1, end):
        if words[word].lower() in POST_MODIFIERS:
            place = word
            break
    while place - 1 > start and words[place - 1] in (*POSSESSIVE_MARKS, ".", '"', "''", "”", ")"):
        place -= 1
    return place - 1
