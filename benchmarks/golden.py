"""Golden tables: write the tables of fixed runs, and compare two such folders.

    make golden                                    # runs/golden
    python -m benchmarks.golden write FOLDER [--decoder SMOLLM2_FOLDER]
    python -m benchmarks.golden compare OLD NEW    # exits with 1 if a number differs

Use it when a change must not change any number: write before, write after, compare. Point estimates
must agree to 1e-9 and bounds of intervals to 1e-6; columns of only one side are listed.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from tests.e2e.test_trained_language_models import REACTIONS, load_reaction_model

import headscope as hs

SHARED = Path(__file__).parents[2] / "shared"
DATA = SHARED / "data"
BOUNDS = ("low", "high", "p_value", "p_raw")  # a column that ends so is held to 1e-6
EXACT, LOOSE = 1e-9, 1e-6


def list_runs(decoder: Path | None) -> dict[str, Callable[[Path], object]]:
    """Each run by name, as a function of the folder to write to."""
    e5, wiki = str(SHARED / "models/e5-small"), str(DATA / "text/enwiki.txt")
    dev = str(DATA / "treebanks/en_ewt-ud-dev.conllu")
    coref = [str(DATA / "coref/ontogum"), str(DATA / "coref/gap-validation.tsv")]
    starter = {"text": "starter", "treebank": "starter", "coref": "starter"}
    runs: dict[str, Callable[[Path], object]] = {
        "demo": lambda out: hs.analyze("demo", **starter, out=out, null=1),
        "e5-text": lambda out: hs.analyze(e5, text=wiki, limit=200, out=out, null=1),
        "e5-trees": lambda out: hs.analyze(e5, treebank=dev, out=out, null=1),
        "e5-coref": lambda out: hs.analyze(e5, coref=coref, out=out, null=1),
        "reactions": lambda out: hs.analyze(
            load_reaction_model(), text=REACTIONS, also="gradient,ablation", heads="1-3,12-1",
            out=out,
        ),
        "probe": lambda out: hs.probe(
            "demo", train=dev, test=str(DATA / "treebanks/en_ewt-ud-test.conllu"), sentences=400,
            vectors=str(DATA / "vectors/glove-100d.txt.gz"), seeds=2, out=out,
        ),
    }  # fmt: skip
    if decoder is not None:
        runs["decoder"] = lambda out: hs.analyze(str(decoder), text=wiki, limit=60, out=out)
    return runs


def write(folder: Path, decoder: Path | None) -> None:
    """Measure every run into its folder; what is there already stays."""
    for name, measure in list_runs(decoder).items():
        if (folder / name / "tables").exists():
            print(f"{name}: there already", file=sys.stderr)
            continue
        print(name, file=sys.stderr)
        measure(folder / name)


def compare(old: Path, new: Path) -> int:
    """Print what differs; the number of differing columns."""
    tables = {p.relative_to(old) for p in old.rglob("*.parquet")}
    others = {p.relative_to(new) for p in new.rglob("*.parquet")}
    runs = {path.parts[0] for path in tables} & {path.parts[0] for path in others}
    n_different, n_columns = 0, 0
    for path in sorted(path for path in tables | others if path.parts[0] in runs):
        if not (path in tables and path in others):
            print(f"{path}: only in {old if path in tables else new}")
            n_different += path in tables
            continue
        before, after = pd.read_parquet(old / path), pd.read_parquet(new / path)
        n_columns += len(before.columns.intersection(after.columns))
        for message in _differences(before, after):
            print(f"{path}: {message}")
            n_different += not message.startswith("only")
    print(f"{n_columns} columns compared, {n_different} differences")
    return n_different


def _differences(before: pd.DataFrame, after: pd.DataFrame) -> Iterator[str]:
    for name in before.columns.symmetric_difference(after.columns):
        yield f"only {'before' if name in before else 'after'}: {name}"
    if len(before) != len(after):
        yield f"{len(before)} rows before, {len(after)} after"
        return
    for name in before.columns.intersection(after.columns):
        one, other = before[name], after[name]
        if pd.api.types.is_numeric_dtype(one) and pd.api.types.is_numeric_dtype(other):
            limit = LOOSE if str(name).endswith(BOUNDS) else EXACT
            pair = (part.to_numpy(float, na_value=np.nan) for part in (one, other))
            left, right = pair
            apart = np.nanmax(np.abs(left - right), initial=0.0)
            if (np.isnan(left) != np.isnan(right)).any():
                yield f"{name}: another set of empty cells"
            elif apart > limit:
                yield f"{name}: {apart:.2g} apart"
        elif one.astype(object).fillna("").tolist() != other.astype(object).fillna("").tolist():
            yield f"{name}: other labels"


def main() -> None:
    """Write or compare, as the arguments say."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden")
    verbs = parser.add_subparsers(dest="verb", required=True)
    writing = verbs.add_parser("write")
    writing.add_argument("folder", type=Path)
    writing.add_argument("--decoder", type=Path)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    options = parser.parse_args()
    if options.verb == "write":
        write(options.folder, options.decoder)
    else:
        sys.exit(compare(options.old, options.new) > 0)


if __name__ == "__main__":
    main()
