"""Cross attention of a translation model: measures docs/results/translation.md, writes that page.

    python -m benchmarks.translation measure FOLDER --model OPUS_MT_EN_FR_FOLDER   # two minutes
    python -m benchmarks.translation page FOLDER > docs/results/translation.md

Every number on the page is read from a table of these runs. What is already in FOLDER stays.
"""

from pathlib import Path

import pandas as pd

from benchmarks.pages import Page, by_name, markdown, measure_or_write, measure_runs, share
from headscope.analyses.word_alignment import STEPS

PAIRS = Path(__file__).parents[1] / "tests/samples/en-fr.jsonl"
RUNS = {
    "opus": "analyze opus-mt-en-fr --text en-fr.jsonl --null 3",
    "odd": "analyze opus-mt-en-fr --text odd.jsonl --only word-alignment",
    "even": "analyze opus-mt-en-fr --text even.jsonl --only word-alignment",
}
KEYS = ["layer", "head", "step"]
SHOWN = 4


def measure(folder: Path, model: Path | None) -> None:
    """Every run into its folder; every other pair in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = PAIRS.read_text().splitlines(keepends=True)
    halves = {"odd.jsonl": lines[::2], "even.jsonl": lines[1::2]}
    for name, half in halves.items():
        (folder / name).write_text("".join(half))
    files = {name: str(folder / name) for name in halves}
    measure_runs(folder, RUNS, {"opus-mt-en-fr": str(model), "en-fr.jsonl": str(PAIRS)} | files)


def answers(page: Page) -> str:
    """The sentences of the run."""
    return page.answers("opus")


def aligners(page: Page) -> str:
    """The heads that align best, by the rows that are read."""
    table = page.table("opus", "word-alignment")
    rows = []
    for step, words in STEPS.items():
        best = table[table["step"] == step].nsmallest(SHOWN, "aer")
        rows += [
            (
                *(words, f"{r.layer}-{r.head}", share(r.aer, r.low, r.high)),
                *(share(r.precision), share(r.recall), share(r.diagonal_aer), share(r.untrained)),
            )
            for r in best.itertuples()
        ]
    header = ("rows", "head", "error rate", "precision", "recall", "the diagonal")
    return markdown((*header, "same head, untrained"), rows)


def held_out(page: Page) -> str:
    """The head that is best on half of the pairs, on the other half."""
    halves = {run: page.table(run, "word-alignment").set_index(KEYS) for run in ("odd", "even")}
    rows = []
    for chosen_on, scored_on in (("odd", "even"), ("even", "odd")):
        layer, head, step = halves[chosen_on]["aer"].idxmin()
        score = halves[scored_on].loc[(layer, head, step)]
        rates = share(halves[chosen_on]["aer"].min()), share(score["aer"], score.low, score.high)
        rows.append((chosen_on, f"{layer}-{head}, {STEPS[step]}", *rates))
    return markdown(("chosen on pairs", "head", "error rate there", "on the other pairs"), rows)


def untrained(page: Page) -> str:
    """The best of all heads without training: the mean of three draws."""
    table = page.table("opus", "word-alignment")
    best = table.loc[table["untrained"].idxmin()]
    return (
        f"With random weights (three draws) the best of the {len(table)} cells has a mean error "
        f"rate of {share(best['untrained'])} %."
    )


def order(page: Page) -> str:
    """How many heads read the source in order, by layer."""
    table = page.table("opus", "monotonicity")
    rows = [
        (
            f"{layer}",
            " ".join(f"{r.correlation:+.2f}" for r in heads.itertuples()),
            f"{heads['correlation'].mean():+.2f}",
            f"{heads['untrained'].mean():+.2f}",
        )
        for layer, heads in table.groupby("layer")
    ]
    return markdown(("layer", "heads 1 to 8", "mean", "mean, untrained"), rows)


def sinks(page: Page) -> str:
    """Where attention rests, by layer and kind."""
    tables = page.table("opus", "special-tokens", source="all")
    lines = {
        "encoder, to the closing token": ("encoder", "sep"),
        "decoder, to its opening token": ("decoder", "cls"),
        "cross, to the closing token of the source": ("cross", "sep"),
        "cross, to periods and commas": ("cross", "punctuation"),
    }
    rows = []
    for name, (kind, target) in lines.items():
        part = tables[(tables["attention"] == kind) & (tables["target"] == target)]
        means: pd.Series[float] = part.groupby("layer")["weight"].mean()
        rows.append((name, *(f"{100 * value:.0f}" for value in means)))
    return markdown(("mean over heads, %", *map(str, range(1, 7))), rows)


MAKERS = by_name(answers, aligners, held_out, untrained, order, sinks)

if __name__ == "__main__":
    measure_or_write("translation", RUNS, MAKERS, measure)
