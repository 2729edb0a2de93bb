"""The tables of a run: rows of several corpora are labelled by what they are."""

import pandas as pd
import pytest

from headscope.corpora.collection import MemoryCorpus
from headscope.runs.run import Run
from tests.engine.made import EXAMPLES, run
from tests.planted import PLANTED

NAMED = {
    "words": MemoryCorpus(EXAMPLES[:12], "words"),
    "bank": MemoryCorpus(EXAMPLES[12:24], "bank"),
    "other": MemoryCorpus(EXAMPLES[24:], "other"),
}


def dependency(**corpora: object) -> pd.DataFrame:
    done = run(**{"text": None, **corpora}, only="dependency", examples=False)
    return done.tables["dependency"]


def test_a_text_beside_a_treebank_is_labelled_as_a_corpus() -> None:
    table = dependency(text=NAMED["words"], treebank=NAMED["bank"])
    assert table.columns[0] == "corpus"
    assert "treebank" not in table.columns
    assert list(dict.fromkeys(table["corpus"])) == ["words", "bank"]
    alone = dependency(treebank=NAMED["bank"])
    part = table[table["corpus"] == "bank"].drop(columns="corpus").reset_index(drop=True)
    pd.testing.assert_frame_equal(part, alone)


def test_treebanks_beside_each_other_are_labelled_as_such() -> None:
    table = dependency(treebank=[NAMED["bank"], NAMED["other"]])
    assert table.columns[0] == "treebank"
    assert "corpus" not in table.columns


def test_a_single_corpus_has_no_label() -> None:
    for corpora in ({"treebank": NAMED["bank"]}, {"text": NAMED["words"]}):
        assert not {"corpus", "treebank", "window"} & set(dependency(**corpora).columns)


def test_what_runs_over_one_corpus_has_no_label_beside_what_runs_over_two() -> None:
    done = run(text=NAMED["words"], treebank=NAMED["bank"], only="position,trees")
    assert "corpus" not in done.tables["position"].columns
    assert set(done.tables["trees"]["corpus"]) == {"words", "bank"}
    shown = {one.title for one in done.examples}
    assert shown, "examples are found for tables with labels too"


@pytest.fixture(scope="module")
def layers() -> dict[int, pd.DataFrame]:
    def one(seed: int) -> Run:
        return run(only="distance", seed=seed, examples=False)

    return {seed: one(seed).tables["distance-layers"] for seed in (0, 1)}


def test_the_permutation_test_follows_the_seed(layers: dict[int, pd.DataFrame]) -> None:
    again = run(only="distance", seed=1, examples=False).tables["distance-layers"]
    pd.testing.assert_frame_equal(again, layers[1], check_exact=True)
    one, other = (layers[seed]["p_value"] for seed in (0, 1))
    assert (one != other).any(), "another seed draws other permutations"
    assert (one - other).abs().max() < 0.1, "of the same test"
    rest = [table.drop(columns="p_value") for table in layers.values()]
    pd.testing.assert_frame_equal(*rest, check_exact=True)


def test_the_manifest_says_which_seed_a_test_was_drawn_with() -> None:
    done = run(PLANTED, only="distance", seed=7, examples=False)
    assert done.manifest["analyses"]["distance"]["seed"] == 7
