"""Documents weigh alike, and what they are called changes nothing."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headscope.corpora.opening import open_corpus
from headscope.engine.analyze import analyze
from headscope.engine.sample import draw_sample
from headscope.runs.run import Run

LINES = [f"Line {n} tells of {['ships', 'bees', 'a lamp'][n % 3]}." for n in range(24)]
ROUNDING = 1e-5  # of float32: the same segments stand in other batches
SIZES = (12, 2, 4, 6)  # lines of a document


def run(**options: object) -> Run:
    return analyze("demo", progress=False, examples=False, **options)  # type: ignore[arg-type]


def write_documents(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    start = 0
    for name, size in zip(names, SIZES, strict=True):
        (folder / name).write_text("\n".join(LINES[start : start + size]) + "\n")
        start += size
    return folder


def test_renaming_files_or_joining_them_changes_no_number(tmp_path: Path) -> None:
    first = write_documents(tmp_path / "first", ["a.txt", "b.txt", "c.txt", "d.txt"])
    second = write_documents(tmp_path / "second", ["z.txt", "y.txt", "x.txt", "w.txt"])
    parts = [(first / f"{name}.txt").read_text() for name in "abcd"]
    (tmp_path / "one.txt").write_text("\n".join(parts))
    tables = [
        run(text=path, only=["position"]).tables["position"]
        for path in (first, second, tmp_path / "one.txt")
    ]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    pd.testing.assert_frame_equal(tables[0], tables[2])
    assert tables[0]["low"].notna().any()


def test_documents_weigh_alike_or_segments_do(tmp_path: Path) -> None:
    folder = write_documents(tmp_path / "texts", ["a.txt", "b.txt", "c.txt", "d.txt"])
    by_document = []
    for name in "abcd":
        table = run(text=folder / f"{name}.txt", only=["position"]).tables["position"]
        by_document.append(table["weight"].to_numpy())
    whole = run(text=folder, only=["position"]).tables["position"]["weight"]
    np.testing.assert_allclose(whole, np.mean(by_document, axis=0), rtol=ROUNDING)
    pooled = run(text=folder, only=["position"], weigh="segments").tables["position"]["weight"]
    weights = np.array(SIZES) / sum(SIZES)
    np.testing.assert_allclose(pooled, weights @ by_document, rtol=ROUNDING)


def test_long_documents_are_told_where_segments_weigh_alike(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_documents(tmp_path / "texts", ["a.txt", "b.txt", "c.txt", "d.txt"])
    run(text=folder, only=["position"])
    assert not any("too narrow" in text for text in caplog.messages)
    run(text=folder, only=["position"], weigh="segments")
    assert sum("1 of 4 documents hold 50 %" in text for text in caplog.messages) == 1


@pytest.mark.parametrize("limit", [None, 7])
def test_the_examples_of_a_document_weigh_one_together(tmp_path: Path, limit: int | None) -> None:
    folder = write_documents(tmp_path / "texts", ["a.txt", "b.txt", "c.txt", "d.txt"])
    sample = draw_sample(open_corpus(folder, "text"), limit, 1)
    weights = pd.Series({e.id: e.weight for e in sample})
    documents = pd.Series({e.id: e.own_document for e in sample})
    assert np.allclose(weights.groupby(documents).sum(), 1)
    keys = {e.own_document: e.document_key for e in sample}
    assert len(set(keys.values())) == len(keys)
