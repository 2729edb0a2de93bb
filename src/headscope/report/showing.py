"""`headscope show`: one text, and what a head, a layer or all heads of a model do with it."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any
from unicodedata import category

from headscope.contracts import AttentionSource
from headscope.data.attention import head_name, parse_head_name
from headscope.data.example import Example
from headscope.data.sight import Sight
from headscope.errors import StudyError
from headscope.registry import suggest
from headscope.report.drawing import Drawing, draw_sight, draw_sights, find_words
from headscope.runs.given import CorpusLike, as_corpus, as_source
from headscope.runs.look import all_heads, look

__all__ = ["show"]

LAYER_COLUMNS = 4  # of heads with their tokens side by side


def show(
    model: Any = "demo",
    text: str | None = None,
    *,
    head: str | None = None,
    layer: int | None = None,
    words: bool = False,
    treebank: CorpusLike | None = None,
    sentence: str | None = None,
    relation: str | None = None,
    direction: str = "dependent-to-head",
    hide_special: bool = False,
    red: Collection[str] = (),
    tokenizer: Any = None,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
) -> Drawing:
    """Draw what a model attends to in a text: one `head` ("8-10"), a `layer` (8), or all heads.

    `words` draws words instead of tokens. A `sentence` of a `treebank`, by its id, has its
    dependency arcs in red; `relation` keeps to those of one kind. `red` words have all attention
    they give and get in red.

    >>> import headscope
    >>> drawing = headscope.show("demo", "The cat sat on the mat.", head="1-3")
    >>> drawing.svg[:4], drawing.title
    ('<svg', 'demo, head 1-3')
    """
    heads = _read_asked(head, layer)
    example = _find_example(text, treebank, sentence, words)
    if relation is not None and treebank is None:
        raise StudyError(
            f"Relation {relation!r} was asked for, but a plain text has none. Expected a sentence "
            "with a tree; pass --treebank FILE --sentence ID, or leave --relation out."
        )
    loading = {"revision": revision, "device": device, "dtype": dtype}
    source = as_source(model, tokenizer, {**loading, "trust_remote_code": trust_remote_code})
    if layer is not None and not 1 <= layer <= source.n_layers:
        raise StudyError(
            f"{source.name} has no layer {layer}. Expected 1 to {source.n_layers}; choose one."
        )
    heads = heads or all_heads(source, None if layer is None else layer - 1)
    sights = look(source, example, heads, words, relation=relation, direction=direction)
    _refuse_absent_words(sights[0], red)
    return _draw(source, sights, hide_special, red, layer)


def _draw(
    source: AttentionSource,
    sights: list[Sight],
    hide_special: bool,
    red: Collection[str],
    layer: int | None,
) -> Drawing:
    name = Path(source.name).name
    if len(sights) == 1:
        (sight,) = sights
        title = f"{name}, head {head_name(sight.layer, sight.head)}"
        return draw_sight(sight, hide_special, red, title)
    if layer is not None:
        return draw_sights(sights, LAYER_COLUMNS, hide_special, red, f"{name}, layer {layer}")
    title = f"{name}, all heads"
    return draw_sights(sights, source.n_heads, hide_special, red, title, bare=True)


def _read_asked(head: str | None, layer: int | None) -> list[tuple[int, int]]:
    """The head asked for by name; none where a layer or all heads are."""
    if head is None:
        return []
    if layer is not None:
        raise StudyError(
            f"Both head {head} and layer {layer} were asked for. Expected one of them, or neither "
            "for all heads; leave one out."
        )
    found = parse_head_name(head)
    if found is None:
        raise StudyError(
            f"Head {head!r} cannot be read. Expected layer-head, both counted from 1; write it as "
            "8-10."
        )
    return [found]


def _find_example(
    text: str | None, treebank: CorpusLike | None, sentence: str | None, words: bool
) -> Example:
    if text is not None and treebank is not None:
        raise StudyError(
            "Both a text and a treebank were given. Expected one of them; leave the other out."
        )
    if treebank is not None:
        return _find_sentence(as_corpus(treebank, "treebank"), sentence)
    if sentence is not None:
        raise StudyError(
            f"Sentence {sentence!r} was asked for, but no treebank was given. Expected --treebank "
            "FILE beside --sentence; add it."
        )
    if text is None or not text.strip():
        raise StudyError(
            "The text is empty. Expected a sentence or two; write them after the model's name, or "
            "take one from a treebank: --treebank FILE --sentence ID."
        )
    if not words:
        return Example("the text", text=text)
    split = list(_split_words(text))
    found, spaces = tuple(word for word, _ in split), tuple(space for _, space in split)
    return Example("the text", words=found, spaces=spaces)


def _find_sentence(corpus: Any, sentence: str | None) -> Example:
    if sentence is None:
        first = ", ".join(example.id for example in islice(corpus, 3))
        raise StudyError(
            f"No sentence of {corpus.name} was named. Expected --sentence ID beside --treebank; "
            f"its first ids are {first}."
        )
    ids: list[str] = []
    for example in corpus:
        if example.id == sentence:
            found: Example = example
            return found
        ids.append(example.id)
    near = get_close_matches(sentence, ids, n=3, cutoff=0) or ids[:3]
    raise StudyError(
        f"{corpus.name} has no sentence {sentence!r}. Expected one of its {len(ids)} ids; near it "
        f"are {', '.join(near)}."
    )


def _split_words(text: str) -> Iterator[tuple[str, bool]]:
    """Words, and the punctuation around them, each with whether a space stands before it.

    >>> [word for word, _ in _split_words("(Don't go!)")]
    ['(', "Don't", 'go', '!', ')']
    """
    for number, chunk in enumerate(text.split()):
        start, end = 0, len(chunk)
        while start < end and category(chunk[start]).startswith("P"):
            start += 1
        while end > start and category(chunk[end - 1]).startswith("P"):
            end -= 1
        parts = [*chunk[:start], chunk[start:end], *chunk[end:]]
        for place, part in enumerate(part for part in parts if part):
            yield part, number > 0 and place == 0


def _refuse_absent_words(sight: Sight, red: Collection[str]) -> None:
    for word in red:
        if not find_words(sight.units, [word]):
            known = dict.fromkeys(sight.units)
            raise StudyError(
                f"The text has no word {word!r} to draw in red.{suggest(word, known)} Expected "
                f"one of: {', '.join(known)}; name one of them."
            )
