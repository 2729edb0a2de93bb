"""Time and memory over the length of the input: slices, whole maps and the bare model."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import altair as alt
import pandas as pd

from benchmarks.memory import MALLOC, ROOT
from benchmarks.row import Row, Settings, at_least, at_most, under

__all__ = ["run"]

LENGTHS = (128, 512, 2048, 8192)
LONGEST = 16384
WAYS = {"bare": "bare SDPA forward", "ours": "headscope, in slices", "whole": "whole maps"}
N_LAYERS, ALL_LAYERS = 6, 30
PICTURE = ROOT / "docs/images/performance.png"
GB = 1e9


def run(settings: Settings) -> Iterator[Row]:
    """Figures of three analyses on SmolLM2's shape; each in a process of its own."""
    shape = f"SmolLM2's shape, {N_LAYERS} of its {ALL_LAYERS} layers"
    points = [
        {"way": name, "tokens": n, **_measure(way, n, N_LAYERS, settings)}
        for n in LENGTHS
        for way, name in WAYS.items()
    ]
    table = pd.DataFrame(points).pivot(index="tokens", columns="way")
    seconds, n_bytes = table["seconds"], table["bytes"]
    ours, whole, bare = (WAYS[way] for way in ("ours", "whole", "bare"))
    for n in LENGTHS:
        measured = f"three analyses / bare SDPA forward, {shape}, {n} tokens"
        yield Row("lengths", measured, seconds.loc[n, ours] / seconds.loc[n, bare], "x")
    longest = LENGTHS[-1]
    faster = seconds.loc[longest, whole] / seconds.loc[longest, ours]
    measured = f"whole maps / slices, seconds, {longest} tokens"
    yield Row("lengths", measured, faster, "x", at_least(1.4))
    smaller = n_bytes.loc[longest, ours] / n_bytes.loc[longest, whole]
    measured = f"slices / whole maps, peak above the model, {longest} tokens"
    yield Row("lengths", measured, smaller, "x", at_most(0.2))
    draw(pd.DataFrame(points), PICTURE)
    for n in (longest, LONGEST):
        peak = _measure("torch", n, N_LAYERS, settings)["bytes"]
        measured = f"slices without compiled code, peak above the model, {shape}, {n} tokens"
        yield Row("lengths", measured, peak / 1e6, "MB")
    peak = _measure("with distance", LONGEST, ALL_LAYERS, settings)["bytes"]
    measured = f"four analyses, peak above the model, SmolLM2's shape, {LONGEST} tokens"
    yield Row("lengths", measured, peak / 1e6, "MB", under(2000))


def draw(points: pd.DataFrame, path: Path) -> None:
    """Two panels over the length: seconds, and gigabytes above the model."""
    points = points.assign(gigabytes=points["bytes"] / GB)
    panels = [
        alt.Chart(points, width=260, height=220)
        .mark_line(point=True)
        .encode(
            x=alt.X("tokens:Q", scale=alt.Scale(type="log", base=2), title="tokens"),
            y=alt.Y(f"{what}:Q", scale=alt.Scale(type="log"), title=title),
            color=alt.Color("way:N", title=None, sort=list(WAYS.values())),
        )
        for what, title in (("seconds", "seconds"), ("gigabytes", "GB above the model"))
    ]
    alt.hconcat(*panels).configure(background="white").save(str(path), ppi=150)


def _measure(way: str, n_tokens: int, n_layers: int, settings: Settings) -> dict[str, float]:
    arguments = (way, str(n_tokens), str(n_layers), str(settings.threads))
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.length_case", *arguments],
        env={**os.environ, **MALLOC},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    print(f"    {way}, {n_tokens} tokens: {found['seconds']:.2f} s, {found['bytes'] / GB:.2f} GB",
          file=sys.stderr)  # fmt: skip
    return found
