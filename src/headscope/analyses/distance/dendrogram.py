"""The dendrogram: which heads belong together; that of many heads is cut into groups."""

from zlib import crc32

import altair as alt
import pandas as pd

from headscope.analyses.distance.charts import SAID, add_kinds
from headscope.data.table import Tables
from headscope.view.figure import TEXT, Chart, mark_data, name_and_interval
from headscope.view.specs import GREY

__all__ = ["cut_tree", "draw_dendrogram", "joints"]

NARROWEST, WIDEST = 420, 860
HEIGHT, GROUPS_HEIGHT = 260, 170
NAMED = 150  # with more heads there is no room for names
READABLE = 75  # more heads than that are cut into groups
LARGEST = 40  # heads of a group
GROUP_ROOM = 70  # pixels for a group


def draw_dendrogram(tables: Tables) -> Chart:
    """Joints as lines, heads as points at the foot with their names below.

    Of many heads a tree of groups, and below it that of one group, which a click chooses.
    """
    layout, merges = tables["layout"], tables["dendrogram"]
    if len(layout) > READABLE:
        return _draw_groups(layout, merges)
    width = _width(len(layout))
    lines = joints(merges, layout)
    return _draw_tree(layout, lines, width, len(layout)).properties(width=width, height=HEIGHT)


def _width(n_heads: int) -> int:
    return min(WIDEST, max(NARROWEST, 11 * n_heads))


def _draw_tree(
    layout: pd.DataFrame,
    lines: pd.DataFrame,
    width: float,
    n_heads: int,
    choice: alt.Parameter | None = None,
) -> Chart:
    """The heads at their places, and the joints above them; of the chosen group alone."""
    scale = alt.Scale(domain=[0.5, n_heads + 0.5], nice=False)
    across = alt.X("place:Q", axis=None, scale=scale)
    up = alt.Y("divergence:Q", title="mean divergence (nats)")
    columns = ["merge", "place", "divergence", "group"]
    drawn = (
        alt.Chart(mark_data(lines, columns))
        .mark_line(color=GREY, strokeWidth=1.2)
        .encode(across, up, detail="merge:N", order=alt.Order("corner:Q"))
        .transform_window(corner="row_number()")
    )
    layers = [drawn, _feet(layout, width / n_heads).encode(across)]
    if n_heads <= NAMED:
        layers.append(_names(layout, width / n_heads).encode(across))
    if choice is not None:
        layers = [layer.transform_filter(choice) for layer in layers]
    return alt.layer(*layers)


def joints(dendrogram: pd.DataFrame, layout: pd.DataFrame) -> pd.DataFrame:
    """Four corners for each merge: up from the left part, across, and down to the right part."""
    middles = dict(enumerate(layout["place"].astype(float), start=1))
    heights = dict.fromkeys(middles, 0.0)
    return _join(dendrogram, middles, heights)


def _join(
    merges: pd.DataFrame, middles: dict[int, float], heights: dict[int, float]
) -> pd.DataFrame:
    """The corners of these merges, over parts whose middles and heights are known."""
    corners: list[tuple[int, float, float]] = []
    for row in merges.to_dict("records"):
        merge, height = int(row["merge"]), float(row["divergence"])
        left, right = sorted((int(row["left"]), int(row["right"])), key=middles.__getitem__)
        corners += [
            (merge, middles[left], heights[left]),
            (merge, middles[left], height),
            (merge, middles[right], height),
            (merge, middles[right], heights[right]),
        ]
        middles[merge] = (middles[left] + middles[right]) / 2
        heights[merge] = height
    return pd.DataFrame(corners, columns=["merge", "place", "divergence"])


def _feet(layout: pd.DataFrame, room: float) -> Chart:
    heads, present = add_kinds(layout)
    domain, colours = [kind.name for kind in present], [kind.colour for kind in present]
    columns = ["layer", "head", "place", "kind", "behaviours", "cluster", "group"]
    drawn = name_and_interval(alt.Chart(mark_data(heads, columns)))
    return drawn.mark_circle(size=max(6, min(36, room**2)), opacity=1, cursor="pointer").encode(
        alt.YDatum(0),
        alt.Color(
            "kind:N",
            scale=alt.Scale(domain=domain, range=colours),
            legend=alt.Legend(orient="top", title=None, columns=4),  # names are below
        ),
        tooltip=SAID,
    )


def _names(layout: pd.DataFrame, room: float) -> Chart:
    drawn = name_and_interval(alt.Chart(mark_data(layout, ["layer", "head", "place", "group"])))
    text = drawn.mark_text(
        angle=270,
        align="right",
        dx=-6,
        baseline="middle",
        fontSize=max(4.5, min(9.5, room * 0.95)),
        color=TEXT,
    )
    return text.encode(alt.YDatum(0), text="name:N")


# Many heads: groups, of which one is open.


def cut_tree(dendrogram: pd.DataFrame, layout: pd.DataFrame) -> dict[int, list[int]]:
    """The groups by the number of their root in the tree, each with its heads (rows from 1), by
    place: the clusters, and of larger ones their parts."""
    parts = _list_parts(dendrogram)
    clusters = dict(enumerate(layout["cluster"].tolist(), start=1))
    places = dict(enumerate(layout["place"].tolist(), start=1))
    heads = _list_heads(dendrogram, len(layout))
    groups, waiting = [], [max(heads)]
    while waiting:
        root = waiting.pop()
        is_mixed = len({clusters[head] for head in heads[root]}) > 1
        if root in parts and (is_mixed or len(heads[root]) > LARGEST):
            waiting += parts[root]
        else:
            groups.append(root)
    groups.sort(key=lambda root: min(places[head] for head in heads[root]))
    return {root: sorted(heads[root], key=places.__getitem__) for root in groups}


def _list_parts(dendrogram: pd.DataFrame) -> dict[int, tuple[int, int]]:
    """What each merge joins."""
    columns = (dendrogram[name].astype(int).tolist() for name in ("merge", "left", "right"))
    return {merge: (left, right) for merge, left, right in zip(*columns, strict=True)}


def _list_heads(dendrogram: pd.DataFrame, n_heads: int) -> dict[int, list[int]]:
    """The heads under each head and merge."""
    heads = {number: [number] for number in range(1, n_heads + 1)}
    for merge, (left, right) in _list_parts(dendrogram).items():
        heads[merge] = heads[left] + heads[right]
    return heads


def _draw_groups(layout: pd.DataFrame, merges: pd.DataFrame) -> Chart:
    """The tree above the groups; and the tree of the group that is chosen by a click."""
    groups = cut_tree(merges, layout)
    heights = {int(row["merge"]): float(row["divergence"]) for row in merges.to_dict("records")}
    inside, above = _split(merges, groups)
    middles = {root: float(n) for n, root in enumerate(groups, start=1)}
    bottoms = {root: heights.get(root, 0.0) for root in groups}
    largest = max(groups, key=lambda root: len(groups[root]))
    choice = alt.selection_point(
        name=f"group_{crc32(layout.to_csv().encode()):08x}",  # two such charts may be one
        fields=["group"],
        value=[{"group": largest}],
        toggle=False,
        empty=False,
    )
    feet = pd.DataFrame(
        [
            {"group": root, "place": middles[root], "divergence": bottoms[root], "heads": len(own)}
            for root, own in groups.items()
        ]
    )
    tree = _draw_above(_join(above, dict(middles), dict(bottoms)), feet, choice)
    opened = _draw_inside(layout, groups, inside, choice)
    return alt.vconcat(tree, opened, spacing=14)


def _split(
    merges: pd.DataFrame, groups: dict[int, list[int]]
) -> tuple[dict[int, pd.DataFrame], pd.DataFrame]:
    """The merges inside each group, and those above the groups."""
    group_of = {head: root for root, members in groups.items() for head in members}
    heads = _list_heads(merges, len(group_of))
    roots = [{group_of[head] for head in heads[merge]} for merge in merges["merge"].astype(int)]
    inside = {root: merges[[members == {root} for members in roots]] for root in groups}
    return inside, merges[[len(own) > 1 for own in roots]]


def _draw_above(lines: pd.DataFrame, feet: pd.DataFrame, choice: alt.Parameter) -> Chart:
    width = min(WIDEST, max(NARROWEST, GROUP_ROOM * len(feet)))
    scale = alt.Scale(domain=[0.5, len(feet) + 0.5], nice=False)
    across = alt.X("place:Q", axis=None, scale=scale)
    up = alt.Y("divergence:Q", title="mean divergence (nats)")
    drawn = (
        alt.Chart(mark_data(lines, ["merge", "place", "divergence"]))
        .mark_line(color=GREY, strokeWidth=1.2)
        .encode(across, up, detail="merge:N", order=alt.Order("corner:Q"))
        .transform_window(corner="row_number()")
    )
    base = alt.Chart(mark_data(feet, ["group", "place", "divergence", "heads"]))
    dots = (
        base.mark_circle(size=160, cursor="pointer")
        .encode(
            across, up,
            color=alt.condition(choice, alt.value("#D55E00"), alt.value(GREY)),
            tooltip=[alt.Tooltip("heads:Q", title="heads of this group")],
        )
        .add_params(choice)
    )  # fmt: skip
    unit = " + (datum.heads > 1 ? ' heads' : ' head')" * (len(feet) <= WIDEST / GROUP_ROOM + 8)
    names = base.transform_calculate(label=f"datum.heads{unit}")
    names = names.mark_text(dy=16, fontSize=10, color=TEXT).encode(across, up, text="label:N")
    return alt.layer(drawn, dots, names).properties(width=width, height=GROUPS_HEIGHT)


def _draw_inside(
    layout: pd.DataFrame,
    groups: dict[int, list[int]],
    inside: dict[int, pd.DataFrame],
    choice: alt.Parameter,
) -> Chart:
    """The tree of the chosen group; all are there, each from the left end on."""
    rows, lines = [], []
    for root, heads in groups.items():
        places = {head: float(n) for n, head in enumerate(heads, start=1)}
        members = layout.iloc[[head - 1 for head in heads]]
        rows.append(members.assign(place=range(1, len(heads) + 1), group=root))
        joined = _join(inside[root], dict(places), dict.fromkeys(places, 0.0))
        lines.append(joined.assign(group=root))
    most = max(map(len, groups.values()))
    drawn = _draw_tree(pd.concat(rows), pd.concat(lines), WIDEST, most, choice)
    return drawn.properties(width=WIDEST, height=HEIGHT)
