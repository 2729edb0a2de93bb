"""One model on several treebanks: which head serves a relation in most of them."""

import numpy as np
import pandas as pd

__all__ = ["COLUMNS", "find_shared_heads"]

HEAD = ["layer", "head", "direction"]
COLUMNS = (
    *("relation", "treebanks", *HEAD, "serves", "best_in", "accuracy", "lowest_accuracy"),
    *("transfer_accuracy", "own_accuracy"),
)


def find_shared_heads(every: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """For each relation of two treebanks or more the head that serves most of them.

    A head serves a treebank if the whole interval of its accuracy is above the best fixed offset
    there. Of heads that serve as many, the one with the highest mean accuracy is taken; if none
    serves any, so is the highest of all. `transfer_accuracy` is held out by treebank: the head with
    the highest mean accuracy on the others, scored on each.
    """
    baselines = best.set_index(["treebank", "relation"])["baseline_accuracy"]
    rows = []
    for relation, part in every.groupby("relation", sort=False):
        by_bank = part.pivot_table(index=HEAD, columns="treebank", values="accuracy")
        if by_bank.shape[1] < 2:
            continue
        lows = part.pivot_table(index=HEAD, columns="treebank", values="low")
        lows = lows.reindex(index=by_bank.index, columns=by_bank.columns)
        line = [baselines.get((bank, relation), float("nan")) for bank in by_bank]
        serves = (lows > line).sum(axis=1)
        mean = by_bank.mean(axis=1)
        top = mean[serves == serves.max()].idxmax()
        best_heads = best[best["relation"] == relation].set_index("treebank")
        records = best_heads.to_dict("records")
        is_best = [tuple(row[name] for name in HEAD) == top for row in records]
        rows.append(
            (
                *(relation, by_bank.shape[1], *top, int(serves[top]), sum(is_best)),
                *(mean[top], by_bank.loc[top].min(), _transfer(by_bank)),
                best_heads["heldout_accuracy"].mean(),
            )
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _transfer(by_bank: pd.DataFrame) -> float:
    """The mean over treebanks of the head that is best on the others."""
    values = by_bank.to_numpy(float)  # [head, treebank]
    scores = [
        values[int(np.nanmean(np.delete(values, bank, axis=1), axis=1).argmax()), bank]
        for bank in range(values.shape[1])
    ]
    return float(np.mean(scores))
