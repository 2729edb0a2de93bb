"""What is shown of words and their pieces (section 4.1)."""

from headscope.data.table import Tables
from headscope.view.judge import judge
from headscope.view.numbers import SHARE, row_estimate
from headscope.view.presentation import SYNTAX, Presentation
from headscope.view.specs import Claim, Outcome

__all__ = ["PRESENTATION"]

FEW = 0.16  # twice the paper's share


def check_split(tables: Tables) -> Outcome:
    """Few words are split."""
    row = tables["word-pieces"].iloc[0]
    shows = (
        f"{SHARE.row(row, 'split')} of {row['words']:,.0f} words are split; a word has "
        f"{row['pieces']:.2f} tokens on average."
    )
    return judge(row_estimate(row, "split"), FEW, shows, is_above=False)


PRESENTATION = Presentation(SYNTAX, made_by="--treebank FILE", show=[
    Claim(
        "few-words-are-split", check_split, needs=("word-pieces",), section="4.1", is_of_data=True,
        says="Few words are split into several tokens (here: under 16 %, twice the paper's share), "
        "so results for words depend little on how pieces are merged (a finding about the data "
        "and the tokenizer, not about the model).",
        paper='"some words (~8% in our data) are split up into multiple tokens"',
    ),
])  # fmt: skip
