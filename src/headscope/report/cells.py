"""Numbers as people read them."""

import pandas as pd

__all__ = ["percent"]


def percent(share: float) -> str:
    """A share in percent, or a dash where there is none.

    >>> percent(0.3456)
    '34.6'
    """
    return "-" if pd.isna(share) else f"{100 * share:.1f}"
