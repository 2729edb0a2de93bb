"""Sheets of heads over sentences, as the paper's Figures 1 and 5, from the examples of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headscope.data.attention import head_name
from headscope.data.head_view import SHEET, HeadView, ShownExample
from headscope.data.table import Tables
from headscope.view.behaviour import behaviour_table, list_behaviours
from headscope.view.drawing import draw_heads
from headscope.view.presentation import LEAST_SHARE, NotableHead
from headscope.view.svg import Drawing

__all__ = ["SHEETS", "Sheet", "choose_sheet_heads", "draw_sheets"]

RELATIONS = 6
COLUMNS = {"heads-sheet": 4, "relations-sheet": 3}


@dataclass(frozen=True)
class Sheet:
    """A drawing of several heads that a run's examples give; None where they give none."""

    name: str
    title: str
    caption: str
    paper: str
    draw: Callable[[Sequence[ShownExample]], Drawing | None]


def choose_sheet_heads(tables: Tables) -> list[NotableHead]:
    """The strongest head of each panel, of the behaviours that have it."""
    measured = behaviour_table(tables)
    panels: dict[str, tuple[float, NotableHead]] = {}
    for behaviour in list_behaviours(tables):
        rows = measured[
            (measured["behaviour"] == behaviour.name) & (measured["share"] > LEAST_SHARE)
        ]
        if not behaviour.panel or rows.empty:
            continue
        share, layer, head = rows.iloc[0][["share", "layer", "head"]]
        notable = NotableHead(behaviour.name, behaviour.panel, int(layer) - 1, int(head) - 1)
        if share > panels.get(behaviour.panel, (0.0, notable))[0]:
            panels[behaviour.panel] = float(share), notable
    return [notable for _, notable in panels.values()]


def draw_sheets(examples: Sequence[ShownExample]) -> dict[str, Drawing]:
    """Every sheet that these examples give, by name."""
    drawn = {sheet.name: sheet.draw(examples) for sheet in SHEETS.values()}
    return {name: drawing for name, drawing in drawn.items() if drawing is not None}


def draw_heads_sheet(examples: Sequence[ShownExample]) -> Drawing | None:
    """The heads of all panels over the shortest sentence."""
    sentences: dict[tuple[str, str], list[ShownExample]] = {}
    for shown in examples:
        if shown.end == SHEET:
            sentences.setdefault((shown.view.kind, shown.view.example), []).append(shown)
    if not sentences:
        return None
    chosen = min(sentences.values(), key=lambda group: len(group[0].view.units))
    return _draw([(shown.title, shown.view) for shown in chosen], "heads-sheet", False)


def draw_relations_sheet(examples: Sequence[ShownExample]) -> Drawing | None:
    """For each relation the shortest of the best examples of its best head, gold arcs in red."""
    relations: dict[str, list[HeadView]] = {}
    for shown in examples:
        if shown.end == "best" and shown.view.marked:
            relations.setdefault(shown.title, []).append(shown.view)
    views = [
        (title, min(group, key=lambda view: len(view.units))) for title, group in relations.items()
    ][:RELATIONS]
    return _draw(views, "relations-sheet", True) if views else None


def _draw(views: Sequence[tuple[str, HeadView]], name: str, hides_special: bool) -> Drawing:
    titles = [f"Head {head_name(*view.place)}: {title}" for title, view in views]
    shown = [view for _, view in views]
    return draw_heads(shown, COLUMNS[name], hides_special, title=SHEETS[name].title, titles=titles)


LINES = "Lines run from the attending token (left) to the attended one; darker: more attention."
SHEETS: Mapping[str, Sheet] = {
    sheet.name: sheet
    for sheet in (
        Sheet(
            "heads-sheet", "Heads with different patterns on one sentence",
            "The strongest heads of this model for a neighbour, a special token and broad "
            f"attention, on the same sentence. {LINES}", "Figure 1", draw_heads_sheet,
        ),
        Sheet(
            "relations-sheet", "Heads that find relations",
            "The best head of each of the most frequent relations that a head finds better than "
            "any fixed distance, on a sentence where it does best. Red: the relation in the "
            f"treebank; dotted where the head does not attend to it. {LINES}", "Figure 5",
            draw_relations_sheet,
        ),
    )
}  # fmt: skip
