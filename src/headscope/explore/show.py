"""`headscope show`: one text, and what a head, a layer or all heads of a model do with it."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from headscope.arguments import checked
from headscope.contracts import AttentionKind, AttentionSource, CorpusRole
from headscope.corpora.opening import as_corpora
from headscope.data.attention import head_name, parse_head_name
from headscope.data.example import Example
from headscope.data.head_view import HeadView
from headscope.data.words import split_words
from headscope.engine.head_views import DIRECTIONS, all_heads, name_layers, view_heads
from headscope.engine.open_models import Models, open_source
from headscope.errors import StudyError, shorten, suggest
from headscope.explore.notebook import InteractiveDrawing, can_show
from headscope.explore.page import render_page
from headscope.explore.session import Session
from headscope.explore.texts import ExampleList, ListedCorpus
from headscope.models.loaded import LoadedModel
from headscope.models.seq2seq import OneKind, Seq2SeqModel
from headscope.options import (
    ModelOptions,
    ShowOptions,
    build_options,
    collect_options,
    refuse_unknown,
    require,
)
from headscope.view.drawing import draw_head, draw_heads, find_words, without_special
from headscope.view.drawing_matrix import draw_matrices, draw_matrix
from headscope.view.drawing_page import LONG_TEXT, STRONGEST, draw_page
from headscope.view.paper import PaperStyle, read_size, style_drawing
from headscope.view.svg import Drawing

__all__ = ["show"]

LAYER_COLUMNS = 4  # of heads with their tokens side by side
OF_DRAWINGS = (  # options that the explorer does not have
    *("target", "red", "strongest", "span", "pieces"),
    *("size", "font", "palette", "background"),
)


@checked
def show(
    model: Any = "demo", text: str | None = None, *, tokenizer: Any = None, **options: Any
) -> Drawing:
    """Draw what a model attends to in a text: a `head` ("8-10" or (8, 10)) or several ("5-5,3-3" or
    ["5-5", "3-3"]), a `layer`, or all.

    `words` draws words instead of tokens. A `sentence` of a `treebank`, by its id, has its
    dependency arcs in red; `relation` keeps to those of one kind. `red` words have all attention
    they give and get in red. With a `target` an encoder-decoder is drawn whole: its `attention`
    of one kind, "cross", "decoder" or "encoder". `options` are those of
    `headscope.options.ShowOptions` and `ModelOptions`; `headscope show --help` lists them.

    >>> import headscope
    >>> drawing = headscope.show("demo", "The cat sat on the mat.", head="1-3")
    >>> drawing.svg[:4], drawing.title
    ('<svg', 'demo, head 1-3')
    """
    refuse_unknown(options, collect_options(ShowOptions, ModelOptions))
    chosen: ShowOptions = build_options(ShowOptions, options)
    is_kind = chosen.attention in (None, *AttentionKind)
    require(is_kind, "attention", chosen.attention, f"one of {', '.join(AttentionKind)}")
    size = read_size(chosen.size) if chosen.size else (None, None)
    style = PaperStyle(*size, chosen.font, chosen.palette, chosen.background)
    heads = _read_heads(chosen.head, chosen.layer)
    example = _find_example(text, chosen)
    if chosen.relation is not None and chosen.treebank is None:
        raise StudyError(
            f"Relation {chosen.relation!r} was asked for, but a plain text has none. Expected a "
            "sentence with a tree; pass --treebank FILE --sentence ID, or leave --relation out."
        )
    source = open_source(model, tokenizer, build_options(ModelOptions, options))
    if chosen.target is not None:
        source = _take_kind(source, AttentionKind(chosen.attention or AttentionKind.CROSS))
    layer = chosen.layer
    numbers = source.layer_numbers
    if layer is not None and layer - 1 not in numbers:
        raise StudyError(
            f"{source.name} has no layer {layer}. Expected {name_layers(numbers)}; choose one."
        )
    heads = heads or all_heads(source, None if layer is None else layer - 1)
    views = view_heads(
        source,
        example,
        heads,
        chosen.words,
        relation=chosen.relation,
        direction=chosen.direction,
        later_piece="##" if chosen.pieces == "marked" else "",
    )
    if views[0].keys is not None and (chosen.view == "text" or chosen.span is not None):
        raise StudyError(
            "Cross attention is between two texts, which --view text and --span cannot draw. "
            "Expected --view lines or matrix without a span; leave them out."
        )
    if chosen.span is not None:
        first, last = _read_span(chosen.span, len(views[0].units))
        views = [view.between(first, last) for view in views]
    red = [chosen.red] if isinstance(chosen.red, str) else chosen.red
    _refuse_absent_words(views[0], red)
    drawing = style_drawing(_draw(source, views, chosen, red), style)
    if not can_show() or not _is_explorable(chosen):
        return drawing
    return InteractiveDrawing(
        **vars(drawing), make_page=lambda: _render(source, example, chosen, heads)
    )


def _is_explorable(chosen: ShowOptions) -> bool:
    """Whether the explorer can show what is to be drawn."""
    usual = ShowOptions()
    are_usual = all(getattr(chosen, name) == getattr(usual, name) for name in OF_DRAWINGS)
    return are_usual and chosen.view != "text"


def _render(
    source: AttentionSource,
    example: Example,
    chosen: ShowOptions,
    heads: Sequence[tuple[int, int]],
) -> str:
    """The explorer's page of the example; it begins with what is drawn."""
    names = [head_name(*head) for head in heads]
    start = {
        "id": example.id,
        "view": chosen.view,
        "words": str(chosen.words).lower(),
        "hide": str(chosen.hide_special).lower(),
        "way": "up" if chosen.direction == DIRECTIONS[0] else "down",
    }
    if chosen.treebank is not None:
        start["gold"] = chosen.relation or "all relations"
    if chosen.layer is not None:
        start |= {"heads": names[0], "filter": f"{chosen.layer}-"}
    elif chosen.head is not None:
        start |= {"heads": ",".join(names), "mode": "overlay" if names[1:] else "one"}
    role = CorpusRole.TEXT if chosen.treebank is None else CorpusRole.TREEBANK
    listed = ExampleList((ListedCorpus("", role, "", {example.id: example}),))
    return render_page(Session([Models(source)], listed), [start], start, is_cell=True)


def _take_kind(source: AttentionSource, kind: AttentionKind) -> AttentionSource:
    """One kind of attention of an encoder-decoder that is given a target."""
    if not (isinstance(source, LoadedModel) and source.whole is not None):
        raise StudyError(
            f"{source.name} is not an encoder-decoder, so it has no target text. Expected a "
            "model such as T5 or BART; leave --target out."
        )
    return OneKind(Seq2SeqModel(source), kind)


def _read_span(span: str, n_units: int) -> tuple[int, int]:
    """The first and the last unit, counted from 0."""
    ends = [part.strip() for part in span.split("-")]
    is_read = len(ends) == 2 and all(end.isdecimal() for end in ends)
    if not is_read or not 1 <= int(ends[0]) <= int(ends[1]) or int(ends[0]) > n_units:
        raise StudyError(
            f"Span {span!r} cannot be drawn. Expected the first and the last of {n_units} tokens "
            f"or words, counted from 1; write it as 10-40."
        )
    return int(ends[0]) - 1, min(int(ends[1]), n_units) - 1


def _draw(
    source: AttentionSource, views: list[HeadView], chosen: ShowOptions, red: Collection[str]
) -> Drawing:
    name, layer = Path(source.name).name, chosen.layer
    if isinstance(source, OneKind):
        name = f"{name}, {source.kind} attention"
    if chosen.hide_special:
        views = [without_special(view) for view in views]
    is_long = len(views[0].units) > LONG_TEXT and views[0].keys is None
    is_text = chosen.view == "text" or (chosen.view == "auto" and is_long and len(views) == 1)
    if chosen.strongest and not is_text:  # a page chooses its arcs
        views = [view.strongest(chosen.strongest) for view in views]
    if len(views) == 1:
        (view,) = views
        title = f"{name}, head {head_name(view.layer, view.head)}"
        if is_text:
            reds = find_words(view.units, red)
            return draw_page(view, chosen.strongest or STRONGEST, reds, title)
        if chosen.view == "matrix":
            return draw_matrix(view, red, title)
        return draw_head(view, red=red, title=title)
    if chosen.view == "text":
        raise StudyError(
            f"--view text draws one head, and {len(views)} were asked for. Expected one head; name "
            f"it, e.g. --head 8-10."
        )
    is_bare = layer is None and chosen.head is None
    columns = source.n_heads if is_bare else LAYER_COLUMNS
    heads = ", ".join(head_name(*view.place) for view in views)
    title = f"{name}, heads {heads}" if layer is None else f"{name}, layer {layer}"
    title = f"{name}, all heads" if is_bare else title
    if chosen.view == "matrix" or (chosen.view == "auto" and is_long and not is_bare):
        return draw_matrices(views, columns, red, title, is_bare)
    return draw_heads(views, columns, red=red, title=title, bare=is_bare)


def _read_heads(
    head: str | tuple[int, int] | Sequence[str] | None, layer: int | None
) -> list[tuple[int, int]]:
    """The heads asked for by name, counted from 0; none where a layer or all heads are."""
    if head is None:
        return []
    if isinstance(head, str):
        names = [name.strip() for name in head.split(",")]
    elif all(isinstance(part, int) for part in head):
        names = ["-".join(map(str, head))]
    else:
        names = [str(name) for name in head]
    if layer is not None:
        raise StudyError(
            f"Both head {', '.join(names)} and layer {layer} were asked for. Expected one of them, "
            "or neither for all heads; leave one out."
        )
    return [_read_head(name) for name in dict.fromkeys(names)]


def _read_head(name: str) -> tuple[int, int]:
    head = parse_head_name(name)
    if head is None:
        raise StudyError(
            f"Head {shorten(name)!r} cannot be read. Expected layer-head, both counted from 1; "
            "write it as 8-10, and several as 5-5,3-3,8-10."
        )
    return head


def _find_example(text: str | None, chosen: ShowOptions) -> Example:
    treebank, sentence = chosen.treebank, chosen.sentence
    if (text is not None or chosen.target is not None) and treebank is not None:
        raise StudyError(
            "Both a text and a treebank were given. Expected one of them; leave the other out."
        )
    if treebank is not None:
        return _find_sentence(as_corpora(treebank, CorpusRole.TREEBANK)[0], sentence)
    if sentence is not None:
        raise StudyError(
            f"Sentence {sentence!r} was asked for, but no treebank was given. Expected --treebank "
            f"FILE with --sentence; add it."
        )
    if text is None or not text.strip():
        raise StudyError(
            "The text is empty. Expected a sentence or two; write them after the model's name, or "
            "take one from a treebank: --treebank FILE --sentence ID."
        )
    if (both := text + (chosen.target or "")) != both.encode(errors="replace").decode():
        raise StudyError(
            f"The text {shorten(both)!r} has half a character. Expected UTF-8; write it again."
        )
    if chosen.words and chosen.target is None:
        return split_words(Example("the text", text=text.strip()))
    return Example("the text", text=text, text_pair=chosen.target)


def _find_sentence(corpus: Any, sentence: str | None) -> Example:
    if sentence is None:
        first = ", ".join(example.id for example in islice(corpus, 3))
        raise StudyError(
            f"No sentence of {corpus.name} was named. Expected --sentence ID with --treebank; its "
            f"first ids are {first}."
        )
    ids: list[str] = []
    for example in corpus:
        if example.id == sentence:
            found: Example = example
            return found
        ids.append(example.id)
    near = get_close_matches(sentence, ids, n=3, cutoff=0) or ids[:3]
    raise StudyError(
        f"{corpus.name} has no sentence {sentence!r}. Expected one of its {len(ids)} ids; similar "
        f"ids are {', '.join(near)}."
    )


def _refuse_absent_words(view: HeadView, red: Collection[str]) -> None:
    for word in red:
        known = dict.fromkeys((*view.units, *(view.keys or ())))
        if not any(find_words(units, [word]) for units in (view.units, view.key_units)):
            raise StudyError(
                f"The text has no word {word!r} to draw in red.{suggest(word, known)} Expected "
                f"one of: {', '.join(known)}; name one of them."
            )
