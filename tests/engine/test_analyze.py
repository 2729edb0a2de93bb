"""Runs: what they find, keep, resume, merge and refuse."""

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import headscope
from headscope.analyses.position import Position
from headscope.corpora.collection import MemoryCorpus
from headscope.engine import work as work_module
from headscope.engine.analyze import analyze
from headscope.engine.measure import measure_examples
from headscope.errors import InputError, ModelError, OutputError, StudyError
from headscope.runs.run import Run, load_run
from headscope.view.behaviour import behaviour_table
from headscope.view.table import Format
from headscope.view.terminal import print_run
from tests.engine.made import EXAMPLES, assert_same_tables, run
from tests.making import MadeSource, random_maps
from tests.planted import BROAD, CLOSING, NEXT, PREVIOUS


@cache
def whole() -> Run:
    """A run of all analyses, in no folder."""
    return run()


def test_a_run_finds_the_planted_heads() -> None:
    found = behaviour_table(whole().tables)
    heads = {
        (name, int(row.layer) - 1, int(row.head) - 1)
        for name, rows in found[found["holds"]].groupby("behaviour")
        for row in rows.itertuples()
    }
    assert heads >= {
        ("previous token", *PREVIOUS),
        ("next token", *NEXT),
        ("closing tokens (sep)", *CLOSING),
        ("everything, broadly", *BROAD),
    }
    assert not {h for h in heads if "broadly" not in h[0]} - {
        ("previous token", *PREVIOUS),
        ("next token", *NEXT),
        ("closing tokens (sep)", *CLOSING),
        ("special and punctuation", *CLOSING),
    }


def test_shard_size_changes_no_table() -> None:
    assert_same_tables(run(shard_examples=1000), run(shard_examples=7, batch_tokens=30))


def test_a_run_folder_holds_tables_manifest_and_tallies(tmp_path: Path) -> None:
    done = run(out=tmp_path / "run")
    again = load_run(tmp_path / "run")
    assert_same_tables(done, again)
    csv = pd.read_csv(tmp_path / "run/tables/position.csv")
    pd.testing.assert_frame_equal(csv, done.tables["position"], check_dtype=False)
    manifest = json.loads((tmp_path / "run/manifest.json").read_text())
    assert manifest["status"] == "complete"
    assert manifest["counts"]["text"]["used"] == len(EXAMPLES)
    assert manifest["passes"]["text"]["digest"]
    assert manifest["options"]["seed"] == 0
    assert set(manifest["seconds"]["text"]) >= {"encode", "model", "add"}
    assert not list((tmp_path / "run").rglob(".*")), "temporary files are left behind"


def test_a_stopped_run_resumes_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = whole().tables
    measured: list[str] = []

    def count(examples, *rest):  # type: ignore[no-untyped-def]
        if len(measured) == 24:
            raise KeyboardInterrupt
        measured.extend(example.id for example in examples)
        return measure_examples(examples, *rest)

    monkeypatch.setattr(work_module, "measure_examples", count)
    with pytest.raises(KeyboardInterrupt):
        run(out=tmp_path / "run")
    with pytest.raises(OutputError, match="not finished"):
        load_run(tmp_path / "run")
    with pytest.raises(OutputError, match="not empty"):
        run(out=tmp_path / "run")
    before = list(measured)
    measured.append("resumed")
    resumed = run(out=tmp_path / "run", resume=True)
    for name, table in expected.items():
        pd.testing.assert_frame_equal(table, resumed.tables[name], check_exact=True)
    assert not set(before) & set(measured[len(before) + 1 :]), "a shard was measured twice"


def test_a_run_may_be_resumed_with_smaller_batches(tmp_path: Path) -> None:
    few = {"only": ["position", "entropy", "distance"], "out": tmp_path / "run"}
    done = run(batch_tokens=512, **few)
    assert_same_tables(done, run(resume=True, batch_tokens=64, **few))


def test_resuming_a_finished_run_measures_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = {"only": ["position", "entropy", "distance"], "out": tmp_path / "run"}
    done = run(**few)
    monkeypatch.setattr(work_module, "measure_examples", pytest.fail)
    assert_same_tables(done, run(resume=True, **few))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"seed": 1}, "options"),
        ({"text": EXAMPLES[:-1]}, "corpora"),
        ({"only": ["position"]}, "analyses"),
    ],
)
def test_resuming_with_another_study_is_refused(
    tmp_path: Path, change: dict[str, object], what: str
) -> None:
    only = {"only": ["position", "entropy"]}
    run(out=tmp_path / "run", **only)
    with pytest.raises(OutputError, match=f"holds another run: its {what} differ"):
        run(out=tmp_path / "run", resume=True, **only | change)


def test_a_limit_draws_a_seeded_sample_without_order(tmp_path: Path) -> None:
    def used(**options: object) -> set[str]:
        seen: set[str] = set()

        def maps(encoding):  # type: ignore[no-untyped-def]
            seen.add(encoding.example.id)
            return random_maps(encoding)

        run(MadeSource(maps), limit=10, only="position", **options)
        return seen

    first = used()
    assert len(first) == 10
    assert used(text=EXAMPLES[::-1]) == first
    assert used(seed=5) != first


def test_what_cannot_be_measured_is_counted_with_its_id() -> None:
    examples = [*EXAMPLES[:3], headscope.Example("blank", text="")]
    done = run(text=examples, only="position")
    counts = done.manifest["counts"]["text"]
    assert counts["skipped"] == {"no tokens": 1}
    assert counts["skipped_ids"] == {"no tokens": ["blank"]}


def test_not_a_number_in_attention_names_layer_and_example() -> None:
    def broken(encoding):  # type: ignore[no-untyped-def]
        maps = random_maps(encoding)
        if encoding.example.id == "made:7":
            maps[1, 2, 0, 0] = np.nan
        return maps

    with pytest.raises(ModelError, match=r"layer 2 are not numbers.*'made:7'"):
        run(MadeSource(broken), only="position")


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    limit, seed = np.array([5, 3], dtype=np.int32)
    done = run(only="position", limit=limit, seed=seed, out=tmp_path / "run")
    assert done.manifest["counts"]["text"]["used"] == 5
    assert load_run(tmp_path / "run").manifest["options"]["seed"] == 3


def test_user_token_classes_become_rows_of_the_table() -> None:
    classes = {"boats": ["boat"]}
    table = run(only="special-tokens", token_classes=classes).tables["special-tokens"]
    targets = ["cls", "sep", "first", "boats", "punctuation", "other"]
    assert list(dict.fromkeys(table["target"])) == targets
    sums = table.groupby(["layer", "head", "source"])["weight"].sum()
    np.testing.assert_allclose(sums, 1)


def test_the_terminal_shows_token_classes_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    classes = {"boats": ["boat"], "absent": ["zzz"]}
    print_run(run(only="special-tokens", token_classes=classes).tables, Format.TABLE, 1)
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines() if line}
    assert re.search(r"boats +\d+\.\d % +\d-\d \d+%", lines["boats"])
    assert "no such token" in lines["absent"]
    plain = run(only="special-tokens").tables
    for format in (Format.TABLE, Format.CSV):
        print_run(plain, format, 1)
        assert "special-tokens" not in capsys.readouterr().out


@pytest.mark.parametrize("role", ["text", "treebank"])
def test_an_empty_list_is_called_a_list_not_a_file(role: str) -> None:
    with pytest.raises(InputError, match="list is empty") as raised:
        analyze(MadeSource(), **{role: []}, only="position", progress=False)
    assert "file" not in str(raised.value)


def test_a_wrong_file_name_is_told_before_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="nofile"):
        run(text="nofile.txt", out=tmp_path)
    with pytest.raises(OutputError, match="is not empty"):
        run(out=tmp_path)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"only": ["entrpy"]}, StudyError, "Did you mean 'entropy'"),
        ({"text": None, "only": ["position"]}, StudyError, "nothing to read"),
        ({"text": []}, InputError, "is empty"),
        ({"text": [EXAMPLES[0], EXAMPLES[0]]}, InputError, "'made:0' occurs 2 times"),
        ({"only": []}, StudyError, "No analysis was chosen"),
        ({"limit": "3"}, StudyError, "^limit cannot be '3'. Expected a whole number"),
        ({"limit": 2.5}, StudyError, "^limit cannot be 2.5. Expected a whole number"),
        ({"seed": None}, StudyError, "^seed cannot be None. Expected a whole number"),
        (
            {"rows": "many"},
            StudyError,
            "rows=.*many.* cannot be used. Expected a number of rows",
        ),
        ({"limit": 0}, StudyError, "^limit=0 cannot be used"),
        ({"null": -1}, StudyError, "^null=-1 "),
        ({"max_tokens": 3}, StudyError, "at least 8"),
        ({"max_tokens": 5000}, StudyError, "takes at most 512"),
        ({"token_classes": {"sep": ["x"]}}, StudyError, "Token class 'sep'"),
        ({"token_classes": {"mine": []}}, StudyError, "Token class 'mine'"),
    ],
)
def test_a_bad_question_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        run(out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@dataclass(frozen=True)
class Needy(Position):
    name = "needy"
    needs = frozenset({"stress", "coreference"})


def test_an_analysis_asked_for_by_name_needs_its_data() -> None:
    with pytest.raises(StudyError, match="'needy': no corpus with coreference and stress was giv"):
        run(only=[Needy()])
    with pytest.raises(StudyError, match=r"'gap': no GAP corpus was given \(coref=.gap-val"):
        run(only="gap")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, r"only cannot be \[3\]\. Expected a text or an Analysis object"),
        (Position, "only cannot be .*Position.* Expected a text or an Analysis object"),
    ],
)
def test_what_is_no_analysis_is_refused(item: object, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        run(only=[item])


CORRECTED = ["p_value"]  # over all treebanks of a run


def test_several_treebanks_give_one_table_with_a_column_for_them() -> None:
    halves = [MemoryCorpus(EXAMPLES[:20], "even"), MemoryCorpus(EXAMPLES[20:], "odd")]
    both = run(text=None, treebank=halves, only=["dependency", "trees"])
    alone = run(text=None, treebank=halves[0], only=["dependency", "trees"])
    pooled = both.tables["dependency-treebanks"]
    assert set(pooled["treebanks"]) == {2}
    for name in alone.tables:
        table = both.tables[name]
        assert list(dict.fromkeys(table["treebank"])) == ["even", "odd"]
        part = table[table["treebank"] == "even"].drop(
            columns=["treebank", *CORRECTED], errors="ignore"
        )
        own = alone.tables[name].drop(columns=CORRECTED, errors="ignore")
        pd.testing.assert_frame_equal(part.reset_index(drop=True), own)


def test_what_needs_no_annotation_runs_over_the_first_corpus_alone() -> None:
    done = run(text=EXAMPLES[:5], treebank=[MemoryCorpus(EXAMPLES[5:], "bank")])
    by_pass = {key: entry["analyses"] for key, entry in done.manifest["passes"].items()}
    anywhere = ["position", "special-tokens", "entropy", "max-weight"]
    anywhere += ["induction-text", "sinks", "reach", "distance"]
    of_trees = ["dependency", "word-pieces", "trees"]
    assert by_pass["text"] == [*anywhere, *of_trees]
    assert by_pass["treebank"] == of_trees


def test_repeating_a_pass_that_is_not_there_is_refused() -> None:
    with pytest.raises(StudyError, match="null has nothing to compare"):
        analyze("demo", text=["A text."], only=["ablation"], null=1, progress=False)
    with pytest.raises(StudyError, match="not a transformers model"):
        run(text=None, treebank=EXAMPLES, null=1)


def test_ablation_tells_the_change_of_the_heads_that_were_named() -> None:
    texts = ["A keeper lit her lamp.", "Ships came home late, and nobody slept."]
    done = analyze(
        "demo", text=texts, only=["position"], also=["ablation"], heads="1-3,6-2", progress=False
    )
    table = done.tables["ablation"]
    assert list(zip(table["layer"], table["head"], strict=True)) == [(1, 3)] * 3 + [(6, 2)] * 3
    assert set(table["effect"]) == {"cosine"}  # a sentence encoder has no loss
    assert (table["change"] > -1e-6).all()  # the first head gives [SEP] nothing to move
    assert (table[table["mode"] != "sink"]["change"] > 1e-3).all()
    assert (table["low"] <= table["change"]).all()
    assert "position" in done.tables


@pytest.mark.parametrize(
    ("heads", "message"), [("3", "cannot be read"), ("0-1", "cannot be read"), ("7-1", "6 layers")]
)
def test_heads_that_are_not_there_are_refused(heads: str, message: str) -> None:
    with pytest.raises(StudyError, match=message):
        analyze("demo", text=["A text."], only=["ablation"], heads=heads, progress=False)


def test_heads_named_where_none_is_altered_are_an_error() -> None:
    with pytest.raises(StudyError, match='add also="ablation"'):
        analyze("demo", text=["A line.", "Another."], heads="1-2", progress=False)
