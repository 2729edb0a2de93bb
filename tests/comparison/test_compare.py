"""Comparing finished runs: what differs is found, as slow loops find it, and the rest is said."""

import json
import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headscope as hs
from headscope.analyses.dependency.show import find_labels
from headscope.comparison.answers import name_measure, write_number
from headscope.comparison.compare import Comparison
from headscope.comparison.examples import draw_side_by_side
from headscope.comparison.measures import SHARES, compare_numbers
from headscope.comparison.replicates import NTH, Replicates, read_replicates
from headscope.contracts import Watch
from headscope.engine.resolve import build_analysis
from headscope.engine.sample import hash_text
from headscope.errors import OutputError, StudyError
from headscope.files import seal
from headscope.registry import ANALYSES
from headscope.runs.run import load_run
from headscope.stats.bucket import N_BUCKETS
from headscope.stats.interval import estimate
from tests.comparison.conftest import EXAMPLES, WITH_TREES, deeper, make_run
from tests.making import MadeSource, random_maps
from tests.planted import PREVIOUS, plant
from tests.references import comparison as reference


def test_the_unit_of_a_number_follows_from_its_measure_and_not_from_its_size() -> None:
    names = ["share", "nats", "change"]
    assert [write_number({"measure": name}, 0.94) for name in names] == [
        "94 %",
        "0.94 nats",
        "0.94",
    ]
    assert write_number({"measure": "nats"}, 1.53) == "1.53 nats"


@pytest.fixture(scope="module")
def planted(runs: dict[str, Path]) -> Comparison:
    return hs.compare([runs["random"], runs["planted"]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compared") / "all"


@pytest.fixture(scope="module")
def all_three(runs: dict[str, Path], folder: Path) -> Comparison:
    """Two models of one shape and one of another, written to the folder."""
    return hs.compare([runs["planted"], runs["random"], runs["deeper"]], out=folder)


def weights_by_bucket(maps: object, head: tuple[int, int]) -> reference.Documents:
    """Attention to the previous token of one head, segment by segment."""
    found: reference.Documents = {}
    source = MadeSource(maps)  # type: ignore[arg-type]
    for encoding in source.encode(EXAMPLES, 512):
        own = source.maps(encoding)[head].tolist()
        n = len(own)
        weight = sum(own[q][q - 1] for q in range(1, n)) / n
        found.setdefault(hash_text(encoding.example) % N_BUCKETS, []).append(weight)
    return found


def test_a_head_differs_by_what_loops_over_documents_find(planted: Comparison) -> None:
    heads = planted.tables["heads"]
    place = (heads["layer"] == PREVIOUS[0] + 1) & (heads["head"] == PREVIOUS[1] + 1)
    row = heads[place & (heads["table"] == "position") & (heads["of"] == "target previous")].iloc[0]
    expected = reference.paired(
        weights_by_bucket(plant, PREVIOUS), weights_by_bucket(random_maps, PREVIOUS)
    )
    found = row[["difference", "difference_low", "difference_high", "p_raw"]].astype(float)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert row["is_paired"]
    assert row["p_value"] < 0.01


def test_replicates_give_the_intervals_of_the_tables(runs: dict[str, Path]) -> None:
    run = load_run(runs["planted"])
    replicates = read_replicates(run)
    assert replicates is not None
    for name, column in (("position", "weight"), ("entropy", "nats"), ("entropy", "share")):
        found = estimate(replicates.values[name, column])
        own = run.tables[name]
        low = "low" if column != "share" else "share_low"
        np.testing.assert_allclose(found.value, own[column], rtol=1e-9)
        np.testing.assert_allclose(found.low, own[low], rtol=1e-6)


def test_intervals_stay_where_a_measure_can_be(planted: Comparison) -> None:
    for table in ("measures", "depth"):
        rows = planted.tables[table]
        rows = rows[rows["measure"].isin(SHARES) & ~rows["of"].str.contains(" - ")]
        assert rows["low"].dropna().between(0, 1).all()
        assert rows["high"].dropna().between(0, 1).all()


def test_only_the_planted_heads_are_told_apart(planted: Comparison) -> None:
    heads = planted.tables["heads"]
    back = heads[(heads["of"] == "target previous") & (heads["p_value"] < 0.05)]
    named = set(zip(back["layer"] - 1, back["head"] - 1, strict=True))
    assert PREVIOUS in named
    assert len(named) <= 4  # those that were planted


def test_the_answer_names_what_one_run_alone_has(planted: Comparison) -> None:
    assert 3 <= len(planted.answers) <= 9
    assert any("nly planted has heads for previous token" in answer for answer in planted.answers)
    kinds = planted.tables["kinds"].set_index(["kind", "run"])["heads"]
    assert kinds["previous token", "planted"] == 1
    assert kinds["previous token", "random"] == 0


def test_the_answer_begins_with_the_largest_differences_in_plain_words(planted: Comparison) -> None:
    measures = planted.tables["measures"]
    rows = measures[(measures["statistic"] == "mean") & (measures["table"] == "position")]
    sure = rows[(rows["p_value"] < 0.05) & (rows["difference"].abs() >= 0.01)]
    order = sure["difference"].abs().sort_values(ascending=False).index
    said = [answer for answer in planted.answers if answer.startswith("Share of attention")]
    assert said
    for answer, (_, row) in zip(said, sure.loc[order].iterrows(), strict=False):
        low, high = (100 * row[name] for name in ("difference_low", "difference_high"))
        assert f"{100 * row['value']:.1f} % in planted" in answer
        assert f"[{low:+.1f} to {high:+.1f}]" in answer


def test_runs_that_do_not_differ_are_said_not_to(tmp_path: Path) -> None:
    folders = [make_run(tmp_path, name) for name in ("a", "b")]
    answers = hs.compare(folders).answers
    assert not any(answer.startswith("Share of attention") for answer in answers)
    assert any("o difference" in answer for answer in answers)


@pytest.mark.parametrize(
    ("table", "measure", "of", "words"),
    [
        ("position", "weight", "target previous", "attention to the previous token"),
        ("dependency-best", "heldout_accuracy", "relation det", "best head for det"),
        ("special-tokens", "weight", "source sep, target cls", "source sep"),
        ("unknown", "number", "kind x", "unknown number (kind x)"),
    ],
)
def test_measures_have_plain_names_where_something_shows_them(
    table: str, measure: str, of: str, words: str
) -> None:
    assert words in name_measure({"table": table, "measure": measure, "of": of})


def test_heads_that_do_the_same_are_drawn_side_by_side(planted: Comparison) -> None:
    pairs = draw_side_by_side(planted.runs)
    assert pairs
    for pair in pairs:
        assert [run for run, *_ in pair.drawings] == list(planted.runs)
        examples = {example for _, _, example, _ in pair.drawings}
        assert pair.is_one_sentence == (len(examples) == 1)


def test_claims_about_two_models_are_judged_for_the_first_run_and_each_other(
    tmp_path: Path,
) -> None:
    only = {"only": ["special-tokens"]}
    folders = [
        make_run(tmp_path, name, partial(random_maps, seed=seed), **only)
        for seed, name in enumerate(("a", "b"))
    ]
    found = hs.compare(folders)
    claims = found.tables["claims"].query("claim == 'two-models-attend-alike'").set_index("run")
    assert claims.loc["a", "verdict"] == "not measured"
    assert claims.loc["b", "verdict"] != "not measured"
    profiles = [
        run.tables["special-tokens"]
        .query("source == 'all' and target == 'sep'")
        .groupby("layer")["weight"]
        .mean()
        .tolist()
        for run in found.runs.values()
    ]
    expected = reference.correlate_layers(*profiles)
    assert f"[SEP] {expected:.2f} [" in claims.loc["b", "shows"]
    assert any("Two models show" in answer for answer in found.answers)


def test_models_of_different_shapes_are_compared_by_depth_and_best_by_best(
    all_three: Comparison,
) -> None:
    assert set(all_three.tables["heads"]["run"]) == {"random"}
    depth = all_three.tables["depth"].query("run == 'deeper'")
    early = depth[(depth["of"] == "target previous") & (depth["depth"] == "first third")]
    assert early["difference"].notna().sum() == 1
    measures = all_three.tables["measures"]
    best = measures[
        (measures["statistic"] == "largest head, held out") & (measures["run"] == "planted")
    ]
    row = best[best["of"] == "target previous"].iloc[0]
    assert (row["layer"] - 1, row["head"] - 1) == PREVIOUS
    assert {"planted", "deeper"} == set(all_three.tables["best"]["run"])  # with trees


def test_runs_over_other_documents_are_not_paired_and_it_is_said(runs: dict[str, Path]) -> None:
    made = hs.compare([runs["random"], runs["apart"]])
    tested = made.tables["measures"].dropna(subset="p_raw")
    assert len(tested)
    assert not tested["is_paired"].astype(bool).any()
    assert any("different documents" in note and "not paired" in note for note in made.notes)


@pytest.mark.usefixtures("all_three")
def test_a_page_and_tables_are_written(runs: dict[str, Path], folder: Path) -> None:
    page = (folder / "compare.html").read_text()
    assert "In short" in page
    assert page.count("<figure") >= 3
    assert not re.search(r"(src|href)=.https?:", page)
    assert "<script" not in page
    written = pd.read_csv(folder / "tables" / "claims.csv")
    assert set(written["run"]) == {"random", "planted", "deeper"}
    assert json.loads((folder / "compare.json").read_text())["answer"]
    with pytest.raises(OutputError, match="not empty"):
        hs.compare([runs["random"], folder / "no such run"], out=folder)  # said before any work


def test_bad_runs_are_refused_or_left_out_with_the_reason(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(StudyError, match="given 2 times"):
        hs.compare([runs["random"], runs["random"]])
    with pytest.raises(StudyError, match="1 run was given"):
        hs.compare([runs["random"]])
    unfinished = tmp_path / "unfinished"
    shutil.copytree(runs["random"], unfinished)
    manifest = json.loads((unfinished / "manifest.json").read_text())
    del manifest["checksum"]
    (unfinished / "manifest.json").write_bytes(seal({**manifest, "status": "running"}))
    with pytest.raises(OutputError, match="not finished"):
        hs.compare([runs["random"], unfinished])
    made = hs.compare([runs["random"], runs["apart"], unfinished])
    assert list(made.left_out) == [str(unfinished)]


def test_other_weights_and_options_are_refused_or_left_out(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    norm = make_run(tmp_path, "other-norm", only=["position"])
    with pytest.raises(StudyError, match="different weights"):
        hs.compare([runs["random"], norm])
    same = make_run(tmp_path, "random-norm", only=["position"])
    assert len(hs.compare([runs["random"], same]).tables["measures"])  # one model, two weights
    odd = make_run(tmp_path, "odd", query_pieces="first", **WITH_TREES)
    made = hs.compare([runs["planted"], odd])
    assert any("'dependency' was measured with different options" in n for n in made.notes)
    assert set(made.tables["measures"]["table"]) & {"position"}
    assert "dependency" not in set(made.tables["measures"]["table"])


def test_a_run_without_its_sums_has_no_differences_and_it_is_said(
    runs: dict[str, Path], tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(runs["planted"], bare)
    shutil.rmtree(bare / "tallies")
    made = hs.compare([runs["random"], bare])
    assert any("has no sums" in note for note in made.notes)
    assert set(made.tables["claims"]["run"]) == {"random", "planted"}
    assert made.tables["measures"]["difference"].isna().all()


def test_one_document_gives_numbers_without_intervals(tmp_path: Path) -> None:
    only = [EXAMPLES[0]]
    one = make_run(tmp_path, "one", plant, text=only, only=["position"])
    two = make_run(tmp_path, "two", text=only, only=["position"])
    measures = hs.compare([one, two]).tables["measures"]
    assert measures["value"].notna().all()
    assert measures["low"].isna().all()
    assert measures["p_raw"].isna().all()


def test_tables_of_every_analysis_can_be_compared_between_models_of_any_shape(
    tmp_path: Path,
) -> None:
    names = [
        name
        for name in ANALYSES.built_in
        if name not in ("gap", "word-alignment", "parts-of-speech", "retrieval")  # own corpora
        and build_analysis(name).watches is Watch.ATTENTION
    ]
    few = EXAMPLES[:3]
    given = {"text": few, "treebank": few, "coref": few, "only": names}
    one = make_run(tmp_path, "one", **given)
    deep = make_run(tmp_path, "deep", deeper, n_layers=4, n_heads=3, **given)
    measures = hs.compare([one, deep]).tables["measures"]
    rules = measures[
        measures["of"].str.contains("rule-based") & measures["table"].eq("coreference")
    ]
    assert set(rules["statistic"]) == {"value"}  # a rule has no head
    assert rules["head"].isna().all()
    assert rules.loc[rules["run"].eq("deep"), "difference"].eq(0).all()  # on the same mentions


def random_replicates(keys: pd.DataFrame) -> Replicates:
    values = np.random.default_rng(0).random((N_BUCKETS + 1, len(keys)))
    table = keys.assign(**{NTH: 0}).set_index([*keys, NTH])
    return Replicates({"words": table}, {("words", "share"): values}, {"words": frozenset({1})})


def test_layers_and_heads_are_whole_numbers_beside_rows_of_the_whole_model() -> None:
    keys = pd.DataFrame({"layer": [1, 1, pd.NA], "head": [1, 2, pd.NA]}, dtype="Int64")
    run = random_replicates(keys)
    heads = compare_numbers({"one": run, "two": run}, "one")["heads"]
    assert heads[["layer", "head"]].to_csv(index=False) == "layer,head\n1,1\n1,2\n"


def test_a_column_of_head_words_is_no_number() -> None:
    keys = {"head_word": ["dog", "cat", "dog", "cat"], "of": ["noun", "noun", "all", "all"]}
    run = random_replicates(pd.DataFrame(keys))
    measures = compare_numbers({"one": run, "two": run}, "one")["measures"]
    assert measures["of"].tolist() == ["of noun", "of noun", "of all", "of all"]
    values = run.values["words", "share"][0]
    np.testing.assert_allclose(measures["value"], values.reshape(2, 2).mean(axis=1).repeat(2))


def test_labels_may_hold_line_separators(tmp_path: Path) -> None:
    def relabel(example: hs.Example) -> hs.Example:
        assert example.tree is not None
        relations = tuple(f"{name}\u2028\u2029" for name in example.tree.relations)
        return replace(example, tree=replace(example.tree, relations=relations))

    few = [relabel(example) for example in WITH_TREES["treebank"][:4]]
    given = {"text": None, "treebank": few, "only": "dependency"}
    made = [make_run(tmp_path, name, **given) for name in ("one\u2028", "two")]
    hs.compare(made, out=tmp_path / "compared")
    assert (tmp_path / "compared/compare.html").exists()


def test_what_a_run_had_too_few_words_for_is_no_difference_of_kinds() -> None:
    columns = {"layer": 1, "head": 2, "relation": "det", "direction": "dependent-to-head"}
    row = {**columns, "count": 40, "heldout_accuracy": 0.9, "p_value": 0.001}
    row |= {"heldout_difference": 0.4, "chosen_in": 64, "folds": 64}
    assert not len(find_labels(pd.DataFrame([row])))
