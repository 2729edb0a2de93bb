"""Runs of probes from end to end: tables, folders, resuming, bad input."""

import json
import re
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from headscope.cli import app
from headscope.corpora import lines as lines_module
from headscope.corpora.starter import STARTER
from headscope.data.example import Example, Tree
from headscope.engine.probe import probe
from headscope.errors import InputError, OutputError, StudyError
from headscope.probes.parts import Part, fit_heads
from headscope.probes.tables import TABLES
from headscope.probes.treebank import ProbeTreebank
from headscope.registry import PROBES
from headscope.runs.run import Run, load_run
from tests.making import N_HEADS, N_LAYERS, VOCABULARY
from tests.probes.made import MADE, PLANTED_TREE, SYNTAX, make_examples
from tests.shared import shared

ROOT = Path(__file__).parents[2]
TRAIN, TEST = make_examples(90), make_examples(40, first=500)
ON_MADE = [
    name
    for name in PROBES.built_in
    if not name.startswith("random-init") and "structural" not in name
]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("vectors") / "v.txt"
    lines = [" ".join([word, *map(str, rng.standard_normal(4))]) for word in VOCABULARY[:-1]]
    path.write_text("\n".join(lines))
    return path


def run_probes(out: Path | None, vectors: Path | None, **options: object) -> Run:
    settings = {"train": TRAIN, "test": TEST, "epochs": 2, "seeds": 2, "progress": False} | options
    return probe(PLANTED_TREE, vectors=vectors, out=out, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, vectors: Path) -> Run:
    return run_probes(tmp_path_factory.mktemp("runs") / "planted", vectors)


def uas(run: Run) -> dict[str, float]:
    return dict(zip(run.tables["probes"]["probe"], run.tables["probes"]["uas"], strict=True))


def test_a_planted_tree_is_found_by_what_sees_attention(run: Run) -> None:
    found = uas(run)
    assert list(found) == ON_MADE
    assert found["attention-only"] > 0.9
    assert found["attention-and-words"] > 0.85
    assert found["best-single-head"] < found["attention-only"]  # which finds ROOT too
    assert max(found["words-only"], found["best-offset"], found["left-branching"]) < 0.6


def test_tables_have_their_documented_columns(run: Run) -> None:
    assert set(run.tables) == set(TABLES)
    for name, columns in TABLES.items():
        assert tuple(run.tables[name].columns) == columns


def test_probes_are_compared_with_those_that_ran_too(run: Run, vectors: Path) -> None:
    table, found = run.tables["probe-differences"], uas(run)
    pairs = set(zip(table["probe"], table["other"], strict=True))
    assert len(pairs) == len(found) * (len(found) - 1) / 2  # every two
    assert ("attention-only", "distances-and-words") in pairs
    assert ("attention-and-words", "attention-only") in pairs
    assert not any(name.startswith("random-init") for pair in pairs for name in pair)
    for row in table.itertuples():
        assert row.difference == pytest.approx(found[str(row.probe)] - found[str(row.other)])
    assert table["documents"].unique().tolist() == [len(TEST)]
    alone = run_probes(None, vectors, curve=False, parts=False, only=["attention-only"])
    assert len(alone.tables["probe-differences"]) == 0


def test_the_weights_are_a_table_of_heads(run: Run) -> None:
    weights = run.tables["probe-weights"]
    assert len(weights) == 4 * N_LAYERS * N_HEADS + 1
    rows = weights[weights["direction"] == "dependent-to-head"]
    best = rows.loc[rows["weight"].idxmax()]
    assert (best["layer"] - 1, best["head"] - 1) == SYNTAX
    assert weights[weights["layer"].isna()]["direction"].tolist() == ["root"]


def test_relations_stand_beside_their_best_single_heads(run: Run) -> None:
    relations = run.tables["probe-relations"]
    rows = relations[(relations["probe"] == "attention-only") & (relations["relation"] != "root")]
    assert (rows["best_layer"] == SYNTAX[0] + 1).any()
    np.testing.assert_allclose(rows["gain"], rows["accuracy"] - rows["best_head_accuracy"])
    scored = run.tables["probes"].set_index("probe")["uas_with_punctuation"]
    for name, part in relations.groupby("probe"):
        found = (part["accuracy"] * part["count"]).sum() / part["count"].sum()
        assert found == pytest.approx(scored[name])


def test_the_curve_ends_at_the_whole_training_set(run: Run, vectors: Path) -> None:
    curve = run.tables["probe-curve"]
    for name in ("attention-only", "attention-and-words"):
        rows = curve[curve["probe"] == name]
        assert rows["sentences"].tolist() == [45, 90]  # a 32nd and an eighth are too few
        assert rows["uas"].iloc[-1] == uas(run)[name]
    without = run_probes(None, vectors, curve=False, parts=False, only=["attention-only"])
    empty = ("probe-curve", "probe-selectivity", "probe-description", "probe-parts")
    assert [len(without.tables[name]) for name in empty] == [0] * 4


def test_every_trained_probe_is_asked_how_much_is_its_own(run: Run) -> None:
    trained = [name for name in ON_MADE if PROBES.find(name).load().is_trained]
    for name in ("probe-selectivity", "probe-description"):
        assert run.tables[name]["probe"].tolist() == trained
    selectivity = run.tables["probe-selectivity"].set_index("probe")["selectivity"]
    assert selectivity["attention-only"] > selectivity["words-only"] + 0.2
    bits = run.tables["probe-description"].set_index("probe")["compression"]
    assert bits["attention-only"] > bits["words-only"]
    probes = run.tables["probes"].set_index("probe")
    assert probes.loc["attention-and-words", "seeds"] == 2
    assert probes.loc["attention-only", "seeds"] == 1
    assert probes.loc["attention-only", "las"] < probes.loc["attention-only", "uas"]
    assert np.isnan(probes.loc["words-only", "las"])


def test_every_table_says_how_many_documents_there_were(run: Run) -> None:
    for name, table in run.tables.items():
        of_training = name in ("probe-weights", "probe-description")
        assert set(table["documents"]) <= {len(TRAIN if of_training else TEST)}, name


def test_gains_over_the_best_head_have_intervals(run: Run) -> None:
    relations = run.tables["probe-relations"].dropna(subset="gain_low")
    assert len(relations)
    assert (relations["gain_low"] <= relations["gain"]).all()
    assert (relations["gain"] <= relations["gain_high"]).all()


def test_a_treebank_of_one_document_is_refused_before_any_work() -> None:
    one = [replace(example, document="d") for example in TRAIN]
    message = r"^All 90 training sentences are of one document\..* give a larger train, with a line"
    with pytest.raises(StudyError, match=message):
        run_probes(None, None, train=one)


def test_a_run_is_read_back_and_says_what_it_did(run: Run) -> None:
    assert run.folder is not None
    again = load_run(run.folder)
    for name, table in run.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)
    assert again.manifest["counts"]["train"]["used"] == 90
    assert 0.5 < again.manifest["coverage"]["test"] < 1
    assert set(again.manifest["left_out"]) == set(PROBES.built_in) - set(ON_MADE)


def test_resuming_gives_the_same_tables_and_other_options_are_refused(
    tmp_path: Path, vectors: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = {"curve": False, "parts": False, "only": ["words-only", "attention-and-words"]}
    run = run_probes(None, vectors, **quick)

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "again"
    with monkeypatch.context() as patched:
        patched.setattr("headscope.engine.probe.build_tables", stop)
        with pytest.raises(KeyboardInterrupt):
            run_probes(out, vectors, **quick)
    with pytest.raises(OutputError, match="not empty"):
        run_probes(out, vectors, **quick)
    with pytest.raises(OutputError, match="its options differ"):
        run_probes(out, vectors, epochs=5, resume=True, **quick)
    resumed = run_probes(out, vectors, resume=True, **quick)
    for name, table in run.tables.items():
        pd.testing.assert_frame_equal(resumed.tables[name], table)


def test_without_vectors_probes_of_words_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    found = uas(run_probes(None, None, curve=False, parts=False))
    assert "attention-only" in found
    assert "attention-and-words" not in found
    assert 'no word vectors were given (vectors="FILE")' in caplog.text
    with pytest.raises(StudyError, match=r"no word vectors were given \(vectors=.FILE.\)"):
        run_probes(None, None, only=["words-only"])


def test_compat_changes_the_probe_of_words_alone(tmp_path: Path, run: Run, vectors: Path) -> None:
    names = ["attention-only", "attention-and-words"]
    off = run_probes(tmp_path / "off", vectors, compat=True, curve=False, parts=False, only=names)
    assert uas(off)["attention-only"] == uas(run)["attention-only"]
    weights = [
        load_file(one.folder / "checkpoints/attention-and-words.safetensors")["model/by_dependent"]
        for one in (run, off)
        if one.folder
    ]
    assert np.abs(weights[0] - weights[1]).max() > 1e-3


def test_a_treebank_is_read_once_for_its_facts_and_once_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = STARTER.read_text().split("\n\n")
    paths = {"train": tmp_path / "train.conllu", "test": tmp_path / "test.conllu"}
    for path, some in zip(paths.values(), (blocks[:60], blocks[60:70]), strict=True):
        path.write_text("\n\n".join(some) + "\n\n")
    opened: list[Path] = []
    open_bytes = lines_module.open_bytes
    monkeypatch.setattr(
        lines_module, "open_bytes", lambda path: opened.append(path) or open_bytes(path)
    )
    monkeypatch.setattr("headscope.engine.probe.N_PARTS", 40)  # norms are of fewer sentences
    monkeypatch.setattr("headscope.engine.probe.fit_parts", lambda *given: [one_part(given[0])])
    only = ["attention-only", "random-init-attention-only"]
    options = {"only": only, "curve": False, "progress": False}
    run = probe("demo", store=tmp_path, **paths, **options)  # type: ignore[arg-type]
    assert run.tables["probe-parts"]["sentences"].tolist() == [40, 40]
    # what a treebank provides, and that it marks documents, is seen in its first sentence
    # the fewer sentences of norms are drawn and read once more
    assert Counter(opened) == {paths["train"]: 6, paths["test"]: 4}


def one_part(treebank: ProbeTreebank) -> Part:
    return fit_heads("all heads", treebank, range(treebank.maps.n_maps))


def test_sentences_limit_what_is_learned_from(vectors: Path) -> None:
    run = run_probes(None, vectors, sentences=30, curve=False, parts=False, only=["attention-only"])
    assert run.tables["probes"]["sentences"].tolist() == [30]


def test_bad_input_is_refused_with_what_to_do(vectors: Path) -> None:
    with pytest.raises(StudyError, match="5 training sentences are too few"):
        run_probes(None, vectors, train=TRAIN[:5])
    with pytest.raises(InputError, match="is empty"):
        run_probes(None, vectors, train=[])
    with pytest.raises(StudyError, match="Did you mean 'attention-only'"):
        run_probes(None, vectors, only=["attention-onyl"])
    bare = [Example(e.id, words=e.words) for e in TRAIN]
    with pytest.raises(StudyError, match="no dependency trees"):
        run_probes(None, vectors, train=bare)


def test_treebanks_of_different_schemes_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    other = [
        Example(e.id, words=e.words, tree=type(e.tree)(e.tree.heads, ("dobj",) * len(e.words)))
        for e in TEST
    ]  # fmt: skip
    run_probes(None, None, test=other, only=["right-branching"], curve=False, parts=False)
    assert "different schemes" in caplog.text
    assert "dobj" in caplog.text
    caplog.clear()
    run_probes(None, None, only=["right-branching"], curve=False, parts=False)
    assert "different schemes" not in caplog.text


def test_the_command_prints_the_table_beside_the_papers(tmp_path: Path) -> None:
    options = ["--only", "attention-only", "--only", "right-branching", "--no-curve", "--no-parts"]
    arguments = ["probe", "demo", "--train", "starter", "--test", "starter", "--sentences", "60"]
    arguments += ["--allow-overlap"]
    arguments += [*options, "--out", str(tmp_path / "run"), "--format"]
    done = CliRunner(env={"COLUMNS": "160"}).invoke(app, [*arguments, "table"])
    assert done.exit_code == 0, done.stderr
    scores, differences, *_ = done.stdout.split("\n\n")  # tables with an empty line between them
    lines = {line.split()[0]: line.split() for line in scores.splitlines() if line}
    assert lines["attention-only"][-4:] == ["1", "60", "289", "61"]
    assert re.search(r"attention-only +right-branching +\+\d\d\.\d points \[", differences)
    assert float(lines["attention-only"][1]) > 20 + float(lines["right-branching"][1])
    assert 'id="figure-probe-weights"' in (tmp_path / "run/report.html").read_text()
    again = CliRunner().invoke(app, [*arguments, "json", "--resume"])
    filled = {"probes", "probe-differences", "probe-weights", "probe-relations"}
    assert set(json.loads(again.stdout)) == filled  # the others are empty without their checks
    assert "Writing the word attention" not in again.stderr


def test_the_structural_probe_stands_beside_the_others_on_a_real_model(tmp_path: Path) -> None:
    settings = {"train": "starter", "test": "starter", "allow_overlap": True, "sentences": 100}
    settings |= {"curve": False, "parts": False, "seeds": 2, "epochs": 6, "progress": False}
    names = ["right-branching", "structural-probe", "structural-probe-layer-0"]
    with pytest.raises(StudyError, match="rank=385 cannot be used"):
        probe("demo", rank=385, only=names, store=tmp_path, **settings)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
    found = probe("demo", rank=16, only=names, store=tmp_path, **settings)  # type: ignore[arg-type]
    scores, structure = found.tables["probes"].set_index("probe"), found.tables["probe-structure"]
    assert scores.loc["structural-probe", "seeds"] == 2
    assert structure["hidden"].dropna().unique().tolist() == [0, 2, 3, 4, 6]
    by_name = structure.set_index("probe")["uuas"]
    assert by_name["structural-probe"] > by_name["structural-probe-layer-0"]


def test_the_command_explains_bad_input(tmp_path: Path) -> None:
    bad = tmp_path / "v.txt"
    bad.write_text("the 1 2\nof 1\n")
    arguments = ["probe", "demo", "--train", "starter", "--test", "starter", "--sentences", "20"]
    arguments += ["--allow-overlap"]
    arguments += ["--vectors", str(bad), "--out", str(tmp_path / "run"), "--only", "words-only"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())  # long lines are wrapped
    assert f"Error: {bad}:2: the vector of 'of' has 1 numbers. Expected 2" in said


def test_sentences_that_are_learned_and_scored_are_refused_with_their_number() -> None:
    settings = {"only": ["right-branching"], "curve": False, "parts": False}
    with pytest.raises(StudyError, match=r"40 of the 40 sentences of .* are also in"):
        run_probes(None, None, train=[*TRAIN, *TEST], **settings)
    long = [replace(e, id=f"long:{i}", **twelve_words()) for i, e in enumerate(TEST[:1])]
    with pytest.raises(StudyError, match=r"of the 41 sentences .*, 1 of them with 10 words"):
        run_probes(None, None, train=[*TRAIN, *long], test=[*TEST, *long], **settings)
    allowed = run_probes(
        None, None, train=[*TRAIN, *TEST], test=TEST, allow_overlap=True, **settings
    )
    assert allowed.manifest["shared_sentences"] == 40


def twelve_words() -> dict[str, object]:
    tree = Tree((-1, *range(11)), ("root", *["nsubj"] * 11))
    return {"words": tuple(f"w{i}" for i in range(12)), "tree": tree, "tags": None, "mentions": ()}


def test_made_attention_holds_no_tree() -> None:
    settings = {"train": TRAIN, "test": TEST, "progress": False, "only": ["attention-only"]}
    found = uas(probe(MADE, curve=False, parts=False, **settings))  # type: ignore[arg-type]
    assert found["attention-only"] < 0.6


def test_analyze_trains_probes_where_a_training_treebank_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = partial(probe, curve=False, parts=False, seeds=1, epochs=1)
    monkeypatch.setattr("headscope.engine.probe.probe", quick)
    lines = STARTER.read_text().split("\n\n")
    train, test = tmp_path / "train.conllu", tmp_path / "test.conllu"
    train.write_text("\n\n".join(lines[:30]) + "\n\n")
    test.write_text("\n\n".join(lines[30:40]) + "\n\n")
    command = ["analyze", "demo", "--only", "dependency"]
    command += ["--out", str(tmp_path / "run"), "--train", str(train)]
    wide = CliRunner(env={"COLUMNS": "160"})
    done = wide.invoke(app, [*command, "--treebank", str(test)])
    assert done.exit_code == 0, done.stderr
    assert "random-init-attention-only" in done.stdout
    assert "attention-only" in uas(load_run(tmp_path / "run" / "probes"))
    for wrong, message in (
        (["analyze", "demo", "--text", "starter", "--train", str(train)], "add --treebank"),
        (["analyze", "demo", "--text", "starter", "--vectors", "v.txt"], "add --train"),
    ):
        refused = CliRunner().invoke(app, [*wrong, "--out", str(tmp_path / "other")])
        assert refused.exit_code == 2
        assert message in " ".join(refused.stderr.split())


def test_the_structural_probe_finds_more_arcs_in_real_vectors_than_a_chain_of_words(
    tmp_path: Path,
) -> None:
    sentences = shared("data/treebanks/en_ewt-ud-dev.conllu").read_text().split("\n\n")
    parts = {"train": sentences[:300], "test": sentences[300:420]}
    for name, some in parts.items():
        (tmp_path / f"{name}.conllu").write_text("\n\n".join(some) + "\n\n")
    paths = {name: tmp_path / f"{name}.conllu" for name in parts}
    options = {"hidden_layers": "0,3", "seeds": 1, "epochs": 12, "curve": False, "parts": False}
    only = ["structural-probe", "structural-probe-layer-0"]
    run = probe("demo", **paths, only=only, progress=False, allow_overlap=True, **options)  # type: ignore[arg-type]
    found = run.tables["probe-structure"]
    uuas = found.groupby("probe")["uuas"].max()
    assert uuas["structural-probe"] > uuas["linear-chain"] + 0.02
    assert uuas["structural-probe"] > uuas["structural-probe-layer-0"] + 0.02
