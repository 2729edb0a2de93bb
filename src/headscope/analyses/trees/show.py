"""What is shown of whole parses: how much of them each head finds."""

from headscope.data.table import Tables
from headscope.view.card import FactMaker, Facts, accuracy_facts
from headscope.view.presentation import SYNTAX, Presentation

__all__ = ["PRESENTATION"]


def tree_facts(tables: Tables) -> Facts:
    """How much of whole parses is in it."""
    table = tables["trees"]
    rows = table[(table["system"] == "head") & (table["tree"] == "undirected")]
    return accuracy_facts("whole trees, without direction", rows, {})


PRESENTATION = Presentation(section=SYNTAX, facts=(FactMaker(("trees",), tree_facts),))
