"""A pandas DataFrame as text: every row is an example."""

from collections.abc import Iterator
from typing import Any

from headscope.data.example import Example
from headscope.errors import InputError, shorten, suggest

__all__ = ["read_frame"]

KNOWN = ("text", "text_pair", "id", "document")


def read_frame(table: Any) -> Iterator[Example]:
    """The rows as examples: `text`, and if there `text_pair`, `id` and `document`.

    A table with one column needs no name for it. Other columns are not read.
    """
    columns = [str(name) for name in table.columns]
    if "text" not in columns and len(columns) > 1:
        raise InputError(
            f"The table has no column 'text'.{suggest('text', columns)} It has "
            f"{', '.join(columns)[:200]}. Expected one named text; rename it, or pass "
            "hs.texts(table[COLUMN])."
        )
    kept = table if "text" in columns else table.set_axis(["text"], axis="columns")
    names = [name for name in KNOWN if name in kept.columns]
    if repeated := [name for name in names if list(kept.columns).count(name) > 1]:
        raise InputError(
            f"The table has several columns {repeated[0]!r}. Expected one; rename the others."
        )
    known = kept[names].astype(object).where(kept[names].notna(), None)
    for number, row in enumerate(known.itertuples(index=False, name=None), start=1):
        yield _read_row(dict(zip(names, row, strict=True)), number)


def _read_row(row: dict[str, Any], number: int) -> Example:
    for name in {"text", "text_pair"} & row.keys():
        if not isinstance(row[name], str):
            raise InputError(
                f"Row {number} of the table has no text in its column {name!r}: "
                f"{shorten(row[name])}. Expected a string; leave such rows out (dropna)."
            )
    own_id, document = row.get("id"), row.get("document")
    return Example(
        f"table:{number}" if own_id is None else str(own_id),
        text=row["text"],
        text_pair=row.get("text_pair"),
        document=None if document is None else str(document),
    )
