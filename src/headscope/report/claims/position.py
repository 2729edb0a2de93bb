"""Section 3.1: attention to the previous, the same and the next token."""

from collections.abc import Callable

import pandas as pd

from headscope.report.cells import percent
from headscope.report.claims.claim import Claim, Estimate, Outcome, Tables, name_head, top_row
from headscope.report.claims.depth import count_layers, halves, name_layers

__all__ = ["CLAIMS", "list_heads", "place_heads"]

LITTLE, MOST = 0.1, 0.5
SHOWN = 5


def check_self(tables: Tables) -> Outcome:
    """Most heads look little at the token itself."""
    own = _to(tables, "self")
    n_little, n_heads = int((own["weight"] < LITTLE).sum()), len(own)
    top = top_row(own, "weight")
    open_ones = int(((own["low"] <= LITTLE) & (own["high"] >= LITTLE)).sum())
    unsure = f" Heads with 10 % within their interval: {open_ones}." * bool(open_ones)
    shows = (
        f"{n_little} of {n_heads} heads put under 10 % on the token itself; the most is "
        f"{Estimate.from_row(top, 'weight')}, by head {name_head(top)}.{unsure}"
    )
    return Outcome(n_little > n_heads / 2, shows)


def check_previous(tables: Tables) -> Outcome:
    """Some heads look at the previous token."""
    return _check_neighbour(_to(tables, "previous"), "previous")


def check_next(tables: Tables) -> Outcome:
    """Some heads look at the next token, where the model can."""
    ahead = _to(tables, "next")
    if ahead["weight"].max() == 0:
        return Outcome(None, "This model looks back only: no token can attend to the next one.")
    return _check_neighbour(ahead, "next")


def check_early(tables: Tables) -> Outcome:
    """Of the heads that look at a neighbour, more are in the lower half."""
    table = tables["position"]
    is_neighbour = table["target"].isin(["previous", "next"])
    found = table[is_neighbour & (table["weight"] > MOST)].drop_duplicates(["layer", "head"])
    return place_heads(found, count_layers(table), "put over half on a neighbour")


def place_heads(found: pd.DataFrame, n_layers: int, what: str) -> Outcome:
    """Whether most of the heads found are in the lower half of the layers."""
    if n_layers == 1:
        return Outcome(None, "The model has one layer: there is no lower and upper half.")
    if found.empty:
        return Outcome(None, f"No heads {what}, so there are none to place.")
    lower, _ = halves(n_layers)
    n_low = int(found["layer"].isin(lower).sum())
    counts = found["layer"].value_counts().sort_index()
    layers = ", ".join(f"{layer} ({count})" for layer, count in counts.items())
    shows = (
        f"{n_low} of the {len(found)} heads that {what} are in {name_layers(lower, n_layers)} "
        f"(by layer: {layers})."
    )
    return Outcome(n_low > len(found) / 2, shows)


def list_heads(rows: pd.DataFrame, column: str = "weight") -> str:
    """The strongest heads with their shares."""
    ranked = rows.sort_values(column, ascending=False)
    shown = [
        f"{name_head(row)} {Estimate.from_row(row, column)}"
        for _, row in ranked.head(SHOWN).iterrows()
    ]
    return ", ".join(shown) + f" and {len(ranked) - SHOWN} more" * (len(ranked) > SHOWN)


def _to(tables: Tables, target: str) -> pd.DataFrame:
    table = tables["position"]
    return table[table["target"] == target]


def _check_neighbour(rows: pd.DataFrame, target: str) -> Outcome:
    found = rows[rows["weight"] > MOST]
    if found.empty:
        top = list_heads(rows.nlargest(1, "weight"))
        may_be = " The interval includes 50.0 %: this may be chance."
        is_open = bool((rows["high"] >= MOST).any())
        return Outcome(
            False, f"No head does; the highest is {top} on the {target} token.{may_be * is_open}"
        )
    unsure = found[found["low"] <= MOST]
    doubt = f" Heads with 50.0 % within their interval: {len(unsure)}."
    share = percent(len(found) / len(rows))
    shows = (
        f"{len(found)} of {len(rows)} heads ({share} %) put over half on the {target} token: "
        f"{list_heads(found)}.{doubt * bool(len(unsure))}"
    )
    return Outcome(True, shows)


def _claim(name: str, says: str, paper: str, check: Callable[[Tables], Outcome]) -> Claim:
    return Claim(name, "3.1", says, paper, ("position",), "--text FILE", check, "position")


CLAIMS = (
    _claim(
        "little-attention-to-itself",
        "Most heads put little attention (here: under 10 %) on the token itself.",
        "most heads",
        check_self,
    ),
    _claim(
        "previous-token-heads",
        "Some heads put over half of their attention on the previous token.",
        "4 of 144 heads (2.8 %), in layers 2, 4, 7 and 8",
        check_previous,
    ),
    _claim(
        "next-token-heads",
        "Some heads put over half of their attention on the next token.",
        "5 of 144 heads (3.5 %), in layers 1, 2, 2, 3 and 6",
        check_next,
    ),
    _claim(
        "neighbour-heads-are-early",
        "Heads that look at the previous or next token are mostly in the lower layers.",
        "7 of the 9 heads are in layers 1-6 of 12",
        check_early,
    ),
)
