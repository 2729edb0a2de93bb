"""Notable heads are shown at the examples where they do best and worst, and nowhere else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from headscope.contracts import CorpusRole
from headscope.corpora.collection import MemoryCorpus
from headscope.data.attention import head_name
from headscope.data.encoding import Encoding
from headscope.data.head_view import SHEET, read_examples
from headscope.engine.analyze import analyze
from headscope.engine.merge import merge_runs
from headscope.errors import OutputError
from headscope.runs.run import Run, load_run
from headscope.view.drawing import RED
from tests.making import MadeSource, make_example, random_maps
from tests.planted import CLOSING, PLANTED, PREVIOUS

PARSER = (1, 3)  # of this head all rows of words look at the syntactic head, in good examples
EXAMPLES = [make_example(seed, n_words=5 + seed % 4) for seed in range(90)]
ANALYSES = ["position", "special-tokens", "dependency"]


def is_good(encoding: Encoding) -> bool:
    return int(encoding.example.id.rpartition("-")[2] or 0) % 3 > 0


def plant_parser(encoding: Encoding) -> torch.Tensor:
    """Random maps in which one head finds all heads of two thirds of the sentences."""
    maps = random_maps(encoding)
    assert encoding.example.tree is not None
    first = {int(w): t for t, w in reversed(list(enumerate(encoding.word_ids))) if w >= 0}
    for token, word in enumerate(encoding.word_ids.tolist()):
        if word >= 0:
            head = encoding.example.tree.heads[word]
            aim = head if is_good(encoding) else (head + 1) % len(encoding.example.words or ())
            if aim in first:
                maps[PARSER][token] = 0.01 * maps[PARSER][token]
                maps[(*PARSER, token, first[aim])] += 0.99
    return maps


def corpus(examples: list) -> MemoryCorpus:
    named = [replace(example, id=f"made-{n}") for n, example in enumerate(examples)]
    return MemoryCorpus(tuple(named), "made", CorpusRole.TREEBANK)


def parse(**options: object) -> Run:
    source = MadeSource(plant_parser)
    given = {"treebank": corpus(EXAMPLES), "only": ["dependency"]}
    return analyze(source, progress=False, **{**given, **options})


def test_sheets_show_heads_with_different_patterns_on_one_sentence_and_relations() -> None:
    examples = [make_example(seed, n_words=5 + seed % 4) for seed in range(90)]
    run = analyze(PLANTED, text=examples, treebank=examples, progress=False)
    sheet = [shown for shown in run.examples if shown.end == SHEET]
    assert {shown.view.place for shown in sheet} >= {PREVIOUS, CLOSING}
    by_sentence: dict[str, set[str]] = {}
    for shown in sheet:
        by_sentence.setdefault(shown.view.example, set()).add(shown.title)
    assert all(len(titles) >= 2 for titles in by_sentence.values())
    drawn = run.figures["heads-sheet"]
    assert f">Head {head_name(*PREVIOUS)}: previous token<" in drawn.svg
    assert {"heads-sheet"} <= {*run.figures}
    assert run.figure("heads-sheet", width="8cm").width == pytest.approx(302, abs=1)
    parsed = parse().figures["relations-sheet"]
    assert RED in parsed.svg
    assert head_name(*PARSER) in parsed.svg


def test_a_head_that_parses_is_shown_where_it_does_and_where_it_does_not() -> None:
    shown = [s for s in parse().examples if (s.view.layer, s.view.head) == PARSER]
    assert {s.end for s in shown} == {"best", "worst"}
    for one in shown:
        number = int(one.view.example.rpartition("-")[2])
        is_right = one.says.split(" of ")[0] == one.says.split(" of ")[1].split()[0]
        assert is_right == (number % 3 > 0) == (one.end == "best")
        assert one.view.marked, "the arcs in question are marked"


def test_marked_arcs_of_a_planted_parser_carry_its_attention() -> None:
    shown = [s for s in parse().examples if (s.view.layer, s.view.head) == PARSER]
    best = [s for s in shown if s.end == "best" and "dependent to head" in s.title]
    assert best
    for one in best:
        for start, end in one.view.marked:
            assert one.view.weights[start, end] > 0.5


def test_behaviours_show_their_strongest_head() -> None:
    run = analyze(PLANTED, text=corpus(EXAMPLES), only=ANALYSES[:2], progress=False)
    heads = {one.title: (one.view.layer, one.view.head) for one in run.examples}
    assert heads["previous token"] == PREVIOUS
    assert heads["closing tokens (sep)"] == CLOSING
    for one in run.examples:
        if one.title == "previous token" and one.end != SHEET:
            diagonal = np.trace(one.view.weights, offset=-1) / len(one.view.units)
            assert one.score == pytest.approx(diagonal, abs=1e-3)


def test_shards_change_no_example_and_a_folder_keeps_them(tmp_path: Path) -> None:
    whole = parse(out=tmp_path / "run")
    parts = parse(shard_examples=7, batch_tokens=1)
    kept = load_run(tmp_path / "run")
    for one, other, read in zip(whole.examples, parts.examples, kept.examples, strict=True):
        assert (one.title, one.end, one.says) == (other.title, other.end, other.says)
        assert one.view.example == other.view.example == read.view.example
        np.testing.assert_allclose(one.view.weights, read.view.weights, atol=0.0051)


def test_a_run_can_do_without_examples(tmp_path: Path) -> None:
    assert parse(examples=False, out=tmp_path / "run").examples == []
    assert load_run(tmp_path / "run").examples == []


def test_damaged_examples_are_named(tmp_path: Path) -> None:
    parse(out=tmp_path / "run")
    (tmp_path / "run/examples.json").write_text('{"examples": [{}]}')
    with pytest.raises(OutputError, match=r"examples\.json is damaged"):
        read_examples(tmp_path / "run")


def test_merged_runs_keep_the_most_telling_examples_of_their_parts(tmp_path: Path) -> None:
    parts = []
    for place, some in enumerate([EXAMPLES[:45], EXAMPLES[45:]]):
        named = [replace(e, id=f"part{place}-{n}") for n, e in enumerate(some)]
        made = MemoryCorpus(tuple(named), f"part{place}", CorpusRole.TREEBANK)
        parts.append(parse(treebank=made, out=tmp_path / f"part{place}"))
    merged = merge_runs([tmp_path / "part0", tmp_path / "part1"], tmp_path / "both")
    assert merged.examples
    assert [s.says for s in load_run(tmp_path / "both").examples] == [
        s.says for s in merged.examples
    ]
    for title, end in {(s.title, s.end) for s in merged.examples}:
        of_parts = [s.score for p in parts for s in p.examples if (s.title, s.end) == (title, end)]
        sign = -1 if end == "best" else 1
        kept = [s.score for s in merged.examples if (s.title, s.end) == (title, end)]
        assert sorted(sign * s for s in kept) == sorted(sign * s for s in of_parts)[: len(kept)]
