"""Labels that any picture file can hold: they come from corpora, models and users."""

import re

import pandas as pd

__all__ = ["clean_label", "clean_labels"]

# Neither XML nor UTF-8 can hold these; one of them in a label would spoil a whole SVG.
UNPRINTABLE = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def clean_label(label: object) -> object:
    """The label with what no file can hold replaced; what is no text stays as it is.

    >>> clean_label("obj" + chr(0))
    'obj\ufffd'
    """
    return UNPRINTABLE.sub("\ufffd", label) if isinstance(label, str) else label


def clean_labels(table: pd.DataFrame) -> pd.DataFrame:
    """The table with all its text clean."""
    text = table.select_dtypes(exclude=["number", "bool"])
    return table.assign(**{str(name): column.map(clean_label) for name, column in text.items()})
