"""What is shown of words and their pieces (section 4.1)."""

from headscope.view.judge import above
from headscope.view.presentation import SYNTAX, Presentation

__all__ = ["PRESENTATION"]

FEW = 0.16  # twice the paper's share

PRESENTATION = Presentation(SYNTAX, made_by="--treebank FILE", show=[
    above(
        "few-words-are-split", "word-pieces", "split", line=FEW, is_above=False,
        section="4.1", is_of_data=True,
        shows="{number} of {row[words]:,.0f} words are split; a word has {row[pieces]:.2f} tokens "
        "on average.",
        says="Few words are split into several tokens (here: under 16 %, twice the paper's share), "
        "so results for words depend little on how pieces are merged (a finding about the data "
        "and the tokenizer, not about the model).",
        paper='"some words (~8% in our data) are split up into multiple tokens"',
    ),
])  # fmt: skip
