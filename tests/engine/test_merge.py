"""Merging runs: sums add, and what does not add is refused."""

from pathlib import Path

import pandas as pd
import pytest

from headscope.engine.analyze import analyze
from headscope.engine.merge import merge_runs
from headscope.errors import OutputError
from headscope.runs.run import load_run
from tests.engine.made import EXAMPLES, assert_same_tables, run
from tests.models.tiny import SENTENCES, build_model, build_tokenizer


def test_merged_runs_equal_one_run_over_both_corpora(tmp_path: Path) -> None:
    run(text=EXAMPLES[:15], out=tmp_path / "a")
    run(text=EXAMPLES[15:], out=tmp_path / "b")
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert_same_tables(run(), merged)
    assert merged.manifest["counts"]["text"]["used"] == len(EXAMPLES)
    assert_same_tables(merged, load_run(tmp_path / "both"))


def test_made_up_tokens_that_are_the_same_in_every_run_count_once(tmp_path: Path) -> None:
    for name, text in (("a", "Bees fly far."), ("b", "The sea is wide.")):
        analyze(
            "demo", text=[text], only="position,induction", repeat_sequences=3, progress=False,
            out=tmp_path / name,
        )  # fmt: skip
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert merged.manifest["counts"]["text"]["used"] == 2
    assert merged.manifest["counts"]["repeats"]["used"] == 3
    once, both = load_run(tmp_path / "a").tables, merged.tables
    pd.testing.assert_frame_equal(both["induction"], once["induction"])
    with pytest.raises(OutputError, match="read the same corpus"):
        merge_runs([tmp_path / "both", tmp_path / "b"], tmp_path / "x")
    with pytest.raises(OutputError, match="read the same corpus"):
        merge_runs([tmp_path / "a", tmp_path / "a"], tmp_path / "x")


def test_runs_that_do_not_belong_together_are_not_merged(tmp_path: Path) -> None:
    run(text=EXAMPLES[:15], only="position", out=tmp_path / "a")
    run(text=EXAMPLES[15:], only="position", out=tmp_path / "seed", seed=4)
    run(text=EXAMPLES[:15], only="position", out=tmp_path / "same")
    with pytest.raises(OutputError, match="different options"):
        merge_runs([tmp_path / "a", tmp_path / "seed"], tmp_path / "x")
    with pytest.raises(OutputError, match="read the same corpus"):
        merge_runs([tmp_path / "a", tmp_path / "same"], tmp_path / "x")
    with pytest.raises(OutputError, match="Only one run"):
        merge_runs([tmp_path / "a"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("analysis", "option", "values"),
    [
        ("dependency", "query_pieces", ["mean", "first"]),
        ("special-tokens", "token_classes", [{}, {"boats": ["boat"]}]),
        ("distance", "rows", [128, 4]),
    ],
)
def test_runs_with_other_options_of_an_analysis_are_not_merged(
    tmp_path: Path, analysis: str, option: str, values: list[object]
) -> None:
    for place, value in enumerate(values):
        half = EXAMPLES[15 * place : 15 + 15 * place]
        given = {"treebank": half, "text": None, "only": [analysis], option: value}
        run(out=tmp_path / str(place), **given)
    with pytest.raises(OutputError, match=f"have different options of {analysis}"):
        merge_runs([tmp_path / "0", tmp_path / "1"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_batches_and_shards_are_no_reason_not_to_merge(tmp_path: Path) -> None:
    only = {"only": ["position", "entropy"]}
    run(text=EXAMPLES[:15], out=tmp_path / "a", **only)
    run(text=EXAMPLES[15:], out=tmp_path / "b", shard_examples=5, batch_tokens=64, **only)
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert_same_tables(run(**only), merged)


def test_runs_of_other_analyses_and_corpora_are_joined(tmp_path: Path) -> None:
    first = run(only=["position"], out=tmp_path / "a")
    second = run(text=None, treebank=EXAMPLES[:20], only=["trees"], out=tmp_path / "b")
    merged = merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    assert list(merged.tables) == ["position", "trees"]
    for part in (first, second):
        for name, table in part.tables.items():
            assert table.equals(merged.tables[name])


def test_a_missing_tally_is_named_and_counts_for_nothing(tmp_path: Path) -> None:
    for name, half in (("a", EXAMPLES[:15]), ("b", EXAMPLES[15:])):
        run(text=half, only=["position"], out=tmp_path / name)
    (tmp_path / "b/tallies/text.safetensors").unlink()
    with pytest.raises(OutputError, match=r"b/tallies/text\.safetensors is gone"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_ablations_of_different_corpora_do_not_add(tmp_path: Path) -> None:
    model, tokenizer = build_model("bert"), build_tokenizer("wordpiece")
    for name, texts in (("a", SENTENCES[:2]), ("b", SENTENCES[2:4]), ("c", SENTENCES[4:])):
        also = {"also": "ablation", "heads": "1-1,3-5"} if name != "c" else {}
        given = {"only": "position", "progress": False, **also}
        analyze(model, tokenizer=tokenizer, text=texts, out=tmp_path / name, **given)
    with pytest.raises(OutputError, match="analysis 'ablation' cannot be merged: one of its modes"):
        merge_runs([tmp_path / "a", tmp_path / "b"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
    merged = merge_runs([tmp_path / "a", tmp_path / "c"], tmp_path / "both")  # one alone is no sum
    kept = load_run(tmp_path / "a").tables["ablation"]
    assert merged.tables["ablation"].equals(kept)
    assert merged.manifest["counts"]["text"]["used"] == 4
