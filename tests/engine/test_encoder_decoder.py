"""An encoder-decoder measured whole: a toy that copies and one that reverses show what they do."""

import json
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import headscope as hs
from headscope.analyses.position import Position
from headscope.contracts import AttentionKind
from headscope.data.example import Example, Link
from headscope.engine.head_views import view_heads
from headscope.errors import InputError, StudyError
from headscope.models.loaded import wrap_model
from headscope.models.seq2seq import OneKind, Seq2SeqModel
from headscope.runs.run import Run
from headscope.view.card import make_cards
from headscope.view.claim import check_claims
from headscope.view.drawing import without_special
from headscope.view.figure import list_figures
from headscope.view.table import Format
from headscope.view.terminal import print_run
from tests.toy_seq2seq import N_WORDS, TASKS, toy_examples, toy_tokenizer, train_toy

ENCODER, DECODER, CROSS = AttentionKind
KINDS = ["encoder", "decoder", "cross"]
OF_ALL_KINDS = ["position", "special-tokens", "entropy", "max-weight", "distance", "layout"]

each_task = pytest.mark.parametrize("task", TASKS)


def analyze(task: str, text: Any = None, **options: Any) -> Run:
    text = toy_examples(task, 40) if text is None else text
    options = {"progress": False, **options}
    return hs.analyze(train_toy(task), tokenizer=toy_tokenizer(), text=text, **options)


@cache
def run_of(task: str) -> Run:
    return analyze(task)


def write_pairs(path: Path, examples: Sequence[Example]) -> Path:
    lines = []
    for e in examples:
        record: dict[str, Any] = {"id": e.id, "text": e.text}
        record |= {"text_pair": e.text_pair} if e.text_pair is not None else {}
        if e.links is not None:
            record["alignment"] = " ".join(f"{s}{'-' if k else 'p'}{t}" for s, t, k in e.links)
        lines.append(json.dumps(record))
    path.write_text("\n".join(lines))
    return path


# What the toys have learnt must be seen.


@each_task
def test_the_toy_does_its_task(task: str) -> None:
    model = train_toy(task)
    source = torch.randint(3, model.config.vocab_size, (100, N_WORDS))
    ends = torch.ones(100, 1, dtype=torch.long)
    target = source.flip(1) if task == "reverse" else source
    with torch.no_grad():
        logits = model(
            input_ids=torch.cat([source, ends], dim=1), labels=torch.cat([target, ends], dim=1)
        ).logits
    assert (logits.argmax(-1)[:, :N_WORDS] == target).float().mean() > 0.98


def test_cross_heads_that_copy_are_diagonal() -> None:
    tables = run_of("copy").tables
    assert tables["monotonicity"]["correlation"].min() > 0.5  # processors train it differently
    assert tables["monotonicity"]["correlation"].max() > 0.8
    position = tables["position"]
    own = position[(position["attention"] == "cross") & (position["target"] == "self")]
    assert own["weight"].median() > 0.6
    assert own["weight"].min() > 3 / N_WORDS


def test_cross_heads_that_reverse_are_anti_diagonal() -> None:
    tables = run_of("reverse").tables
    assert tables["monotonicity"]["correlation"].max() < -0.5
    assert tables["monotonicity"]["correlation"].min() < -0.8


@each_task
def test_cross_heads_align_the_words_that_they_write(task: str) -> None:
    table = run_of(task).tables["word-alignment"]
    written, read = (table[table["step"] == step] for step in ("output", "input"))
    assert written["aer"].min() == 0
    assert written["aer"].median() < 0.1
    assert written["aer"].max() < 0.5  # processors train the toys differently
    assert read["aer"].min() > 0.9  # the word that was read is not the one that is written
    assert set(table["diagonal_aer"]) == {0.0 if task == "copy" else 1.0}
    assert set(table["links"]) == {40 * N_WORDS}


@each_task
def test_behaviours_of_cross_heads_are_named(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_run(run_of(task).tables, Format.TABLE, min_count=1)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    way = ["order"] if task == "copy" else ["backwards"]
    own = [line for line in lines if line[:2] == ["cross", "source"]]
    assert [line[-1:] or line for line in own]
    assert all(way[0] in line for line in own)


# Tables and their kinds.


def test_tables_tell_the_kinds_of_attention_apart() -> None:
    tables = run_of("copy").tables
    for name in OF_ALL_KINDS:
        assert list(dict.fromkeys(tables[name]["attention"])) == KINDS
        assert tables[name].columns[0] == "attention"
    for name in ("monotonicity", "word-alignment"):
        assert set(tables[name]["attention"]) == {"cross"}


def test_the_share_on_the_sources_end_token_is_that_of_the_closing_token() -> None:
    examples, model, tokenizer = toy_examples("copy", 40), train_toy("copy"), toy_tokenizer()
    inputs = tokenizer([e.text or "" for e in examples], return_tensors="pt")["input_ids"]
    labels = tokenizer(text_target=[e.text_pair or "" for e in examples], return_tensors="pt")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        own = model(input_ids=inputs, labels=labels["input_ids"], output_attentions=True)
    expected = torch.stack(own.cross_attentions)[..., -1].mean(dim=(1, 3))  # [layer, head]
    table = run_of("copy").tables["special-tokens"]
    chosen = (table["attention"] == "cross") & (table["source"] == "all")
    found = table[chosen & (table["target"] == "sep")]["weight"]
    np.testing.assert_allclose(found, expected.flatten(), atol=1e-5)


def test_the_encoder_of_the_whole_is_the_encoder_alone() -> None:
    texts = [replace(e, text_pair=None, links=None) for e in toy_examples("copy", 40)]
    alone = analyze("copy", texts).tables
    assert "attention" not in alone["position"]
    for name in ("position", "special-tokens", "entropy", "max-weight"):
        whole = run_of("copy").tables[name]
        own = whole[whole["attention"] == "encoder"].drop(columns="attention")
        pd.testing.assert_frame_equal(own.reset_index(drop=True), alone[name])


def test_the_model_runs_once_for_all_kinds() -> None:
    model, calls = train_toy("copy"), []
    parts = {"encoder": model.model.encoder, "decoder": model.model.decoder}
    hooks = [
        part.register_forward_hook(lambda *_, name=name: calls.append(name))
        for name, part in parts.items()
    ]
    analyze("copy", examples=False, batch_tokens=90)  # ten of 9 tokens in a batch
    for hook in hooks:
        hook.remove()
    assert calls.count("decoder") == 4 + 1  # four batches, and the probe
    assert calls.count("encoder") == 4 + 2  # which is one more of the encoder alone


# What is not measured is told.


def test_text_without_targets_is_read_by_the_encoder_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "plain.txt"
    path.write_text("w1 w2 w3\nw4 w5\nw6 w7\n")  # paragraphs in pairs: the second is no target
    with caplog.at_level(logging.WARNING):
        run = analyze("copy", path)
    assert "attention" not in run.tables["position"]
    assert "monotonicity" not in run.tables
    told = run.manifest["left_out"]["decoder and cross attention"]
    assert "plain.txt: only the encoder of BartForConditionalGeneration is measured" in told
    assert "its examples with text and text_pair" in caplog.text
    assert run.manifest["counts"]["text"]["tokens"] == 3 + 1 + 2 + 1 + 2 + 1  # pairs as ever


def test_examples_without_a_target_are_skipped_and_counted(tmp_path: Path) -> None:
    examples = toy_examples("copy", 6)
    examples[4] = replace(examples[4], text_pair=None, links=None)
    run = analyze("copy", write_pairs(tmp_path / "pairs.jsonl", examples), only="position")
    assert run.manifest["counts"]["text"]["skipped"] == {"no target (text_pair)": 1}
    assert run.manifest["counts"]["text"]["used"] == 5


def test_targets_count_also_if_the_first_example_has_none(tmp_path: Path) -> None:
    examples = toy_examples("copy", 6)
    only = "position,word-alignment"
    expected = analyze("copy", write_pairs(tmp_path / "pairs.jsonl", examples[1:]), only=only)
    examples[0] = replace(examples[0], text_pair=None, links=None)
    examples[1] = replace(examples[1], links=None)
    for text in (write_pairs(tmp_path / "mixed.jsonl", examples), examples):
        run = analyze("copy", text, only=only)
        assert run.manifest["counts"]["text"]["skipped"] == {"no target (text_pair)": 1}
        weights = [r.tables["position"]["weight"].tolist() for r in (run, expected)]
        assert weights[0] == weights[1]
        assert "word-alignment" in run.tables


def test_files_with_and_without_targets_are_not_mixed(tmp_path: Path) -> None:
    write_pairs(tmp_path / "a.jsonl", toy_examples("copy", 6))
    (tmp_path / "b.txt").write_text("w1 w2 w3\nw4 w5\n")
    with pytest.raises(hs.HeadscopeError, match=r"Some files of .* have targets"):
        analyze("copy", tmp_path)


def test_pairs_without_gold_alignments_leave_alignment_out(tmp_path: Path) -> None:
    examples = [replace(example, links=None) for example in toy_examples("copy", 6)]
    run = analyze("copy", write_pairs(tmp_path / "pairs.jsonl", examples))
    assert "monotonicity" in run.tables
    assert "word-alignment" not in run.tables
    assert "no corpus with gold alignments was given" in run.manifest["left_out"]["word-alignment"]


def test_a_treebank_is_read_by_the_encoder_beside_pairs() -> None:
    run = analyze("copy", treebank="starter", limit=5)
    assert "attention" not in run.tables["dependency"]
    assert set(run.tables["position"]["attention"]) == set(KINDS)
    told = run.manifest["left_out"]["decoder and cross attention (treebank)"]
    assert "only the encoder" in told
    assert "is measured by dependency, parts-of-speech, word-pieces, trees" in told


def test_an_encoder_has_no_cross_attention_and_nothing_is_said_of_it() -> None:
    run = hs.analyze("demo", text=toy_examples("copy", 3), progress=False)
    assert not {"monotonicity", "word-alignment"} & {*run.tables, *run.manifest["left_out"]}
    assert "attention" not in run.tables["position"]


def test_cross_attention_of_an_encoder_is_refused_by_name() -> None:
    with pytest.raises(StudyError, match="which demo does not have"):
        hs.analyze("demo", text=toy_examples("copy", 3), only="monotonicity", progress=False)


def test_an_analysis_of_one_text_is_left_out_of_cross_attention() -> None:
    class Square(Position):
        measures_cross = False

    run = analyze("copy", only=[Square()])
    assert set(run.tables["position"]["attention"]) == {"encoder", "decoder"}
    assert "left out of cross attention" in run.manifest["left_out"]["position (cross)"]


# Files.


def test_a_jsonl_file_gives_the_same_numbers_as_examples(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "pairs.jsonl", toy_examples("copy", 40))
    tables = analyze("copy", path).tables
    for name, table in run_of("copy").tables.items():
        pd.testing.assert_frame_equal(tables[name], table)


def test_possible_links_are_read(tmp_path: Path) -> None:
    example = Example("a", "x y", "u v", links=(Link(0, 0), Link(1, 1, is_sure=False)))
    path = write_pairs(tmp_path / "pairs.jsonl", [example])
    assert list(hs.open_corpus(path, "text")) == [example]


@pytest.mark.parametrize(
    ("alignment", "problem"),
    [
        ("0-0 1:1", "is not an alignment in the Pharaoh format"),
        ("0-0 1-2", "links a word that is not there"),
        ([[0, 0]], "is not an alignment in the Pharaoh format"),
    ],
)
def test_a_bad_alignment_is_told_with_its_line(
    tmp_path: Path, alignment: Any, problem: str
) -> None:
    path = tmp_path / "pairs.jsonl"
    good = {"text": "x y", "text_pair": "u v", "alignment": "0-0"}
    bad = {**good, "alignment": alignment}
    path.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    with pytest.raises(InputError, match=rf"pairs.jsonl:2: .*{problem}"):
        list(hs.open_corpus(path, "text"))


def test_a_run_is_resumed_and_merged_to_the_same_numbers(tmp_path: Path) -> None:
    examples = toy_examples("copy", 30)
    parts = [write_pairs(tmp_path / f"{number}.jsonl", examples[number::2]) for number in range(2)]
    names = ["position", "monotonicity", "word-alignment", "distance"]
    for number, part in enumerate(parts):
        analyze("copy", part, only=names, out=tmp_path / f"run{number}")
    merged = hs.merge_runs([tmp_path / "run0", tmp_path / "run1"], tmp_path / "merged")
    whole = analyze("copy", examples, only=names)
    again = analyze("copy", parts[0], only=names, out=tmp_path / "run0", resume=True)
    for name in names:
        pd.testing.assert_frame_equal(merged.tables[name], whole.tables[name])
        saved = hs.load_run(tmp_path / "run0").tables[name]
        pd.testing.assert_frame_equal(again.tables[name], saved, check_dtype=False)


# What is shown.


def test_claims_are_judged_on_the_encoder() -> None:
    tables = run_of("copy").tables
    alone = {
        name: t[t["attention"] == "encoder"].drop(columns="attention")
        for name, t in tables.items()
        if name not in ("monotonicity", "word-alignment")
    }
    for whole, encoder in zip(check_claims(tables), check_claims(alone), strict=True):
        assert whole.verdict == encoder.verdict
        if whole.verdict != "not measured":
            assert whole.shows == f"Encoder: {encoder.shows}"


def test_a_card_tells_of_every_head_at_its_place() -> None:
    cards = make_cards(run_of("reverse").tables)
    assert [(card.layer, card.head) for card in cards] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    topics = {fact.topic for fact in cards[0].facts}
    assert {f"position ({kind})" for kind in KINDS} <= topics
    assert {"order of the source (cross)", "word alignment (cross)"} <= topics
    assert "cross: reads the source backwards" in cards[3].summary


@each_task
def test_every_figure_is_drawn_for_each_kind(task: str) -> None:
    tables = run_of(task).tables
    drawn = {n: f.draw(tables) for n, f in list_figures().items() if not f.missing(tables)}
    charts: Any = drawn["position"]
    titles = [chart["title"] for chart in charts.to_dict()["vconcat"]]
    assert titles == ["encoder", "decoder", "cross attention, from the target to the source"]
    assert {"monotonicity", "word-alignment", "heads-map", "entropy"} <= set(drawn)


@each_task
def test_notable_heads_of_the_decoder_and_across_are_shown_on_examples(task: str) -> None:
    shown = run_of(task).examples
    assert {"decoder", "cross"} <= {one.view.kind for one in shown}
    way = "source in order" if task == "copy" else "source backwards"
    (best, *_) = [one for one in shown if one.title == way and one.end == "best"]
    assert best.score > 0.8
    assert any(one.title.startswith("word alignment") and one.says == "100%" for one in shown)
    examples = {example.id: example for example in toy_examples(task, 40)}
    whole = Seq2SeqModel(wrap_model(train_toy(task), toy_tokenizer()))
    for one in shown:
        view = one.view
        own = OneKind(whole, AttentionKind(view.kind))
        (true,) = view_heads(own, examples[view.example], [view.place])
        assert (view.units, view.key_units) == (true.units, true.key_units)
        # scores of a trained toy are large, so their rounding shows
        np.testing.assert_allclose(view.weights, true.weights, atol=1e-5)


def test_cross_attention_alone_has_examples_too() -> None:
    shown = analyze("copy", only="monotonicity").examples
    assert {one.view.kind for one in shown} == {"cross"}


def test_the_page_is_written(tmp_path: Path) -> None:
    page = run_of("reverse").report(tmp_path / "report.html").read_text()
    assert 'id="figure-monotonicity"' in page
    assert "Cross attention" in page
    assert "source backwards: cross head" in page


# `headscope show` draws what the toys do.


@each_task
@pytest.mark.parametrize("view", ["lines", "matrix"])
def test_cross_attention_is_drawn_from_the_target_to_the_source(task: str, view: str) -> None:
    example = toy_examples(task, 1)[0]
    rows = run_of(task).tables["monotonicity"]
    best = rows.loc[rows["correlation"].abs().idxmax()]
    drawing = hs.show(
        train_toy(task),
        example.text,
        tokenizer=toy_tokenizer(),
        target=example.text_pair,
        head=(int(best["layer"]), int(best["head"])),
        view=view,
    )
    assert "cross attention, head" in drawing.title
    for word in f"{example.text} {example.text_pair}".split():
        assert f">{word}</text>" in drawing.svg.replace("</title>", ">")


def test_each_kind_is_drawn_with_its_own_tokens() -> None:
    example = Example("a", text="w1 w2 w3 w4 w5", text_pair="w1 w2 w3")
    source = OneKind(Seq2SeqModel(wrap_model(train_toy("copy"), toy_tokenizer())), CROSS)
    sizes = {}
    for kind in AttentionKind:
        own = replace(source, kind=kind)
        (shown,) = view_heads(own, example, [(0, 1)])
        sizes[kind.value] = shown.weights.shape
        seen: list[Any] = []
        own.whole.attend(own.batch(own.encode([example], 40)), seen.append)
        (layer,) = (a for a in seen if a.kind is kind and a.layer == 0)
        np.testing.assert_array_equal(shown.weights, layer.weights[0, 1].double().numpy())
        np.testing.assert_allclose(without_special(shown).weights.shape, np.array(
            [5 if kind is ENCODER else 3, 3 if kind is DECODER else 5]))  # fmt: skip
    assert sizes["cross"] == (sizes["decoder"][0], sizes["encoder"][0])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"target": "w1", "attention": "self"}, "Expected one of encoder, decoder, cross"),
        ({"attention": "cross"}, 'Expected target="TEXT" with it'),
        ({"target": "w1", "head": "1-1", "view": "text"}, "Cross attention is between two texts"),
        ({"target": "w1", "words": True}, "its words are not known"),
        ({"target": "w1", "layer": 9}, "has no layer 9"),
    ],
)
def test_what_cannot_be_drawn_of_a_target_is_told(options: dict[str, Any], error: str) -> None:
    with pytest.raises(StudyError, match=error):
        hs.show(train_toy("copy"), "w1 w2", tokenizer=toy_tokenizer(), **options)


def test_a_target_needs_a_decoder() -> None:
    with pytest.raises(StudyError, match="demo is not an encoder-decoder"):
        hs.show("demo", "a text", target="another")
