"""Heads that language models are known for: planted, measured on real input, and switched off."""

import logging
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedTokenizerFast,
)

import headscope
from headscope.analyses.induction import Induction
from headscope.analyses.induction_proof import answer_proof
from headscope.analyses.reach import Reach
from headscope.analyses.sinks import Sinks
from headscope.corpora.repeats import Repeats
from headscope.data.encoding import Encoding
from headscope.engine.measure import measure_examples
from headscope.errors import StudyError
from headscope.options import RunOptions
from headscope.runs.tables import make_tables
from headscope.testing import MadeSource
from headscope.view.terminal import describe_tokenization
from tests.making import first_or_even, random_maps

INDUCTION, DUPLICATE, PREVIOUS = (0, 1), (2, 3), (1, 4)
N_TOKENS, N_WORDS = 12, 40  # of a copy; of the vocabulary


def plant(encoding: Encoding) -> torch.Tensor:
    """Random maps in which three heads follow one pattern each with 0.9 of their attention."""
    maps, n = random_maps(encoding), len(encoding)
    n_copy = len(encoding.example.words or ()) // 2
    for place, distance in ((INDUCTION, n_copy - 1), (DUPLICATE, n_copy), (PREVIOUS, 1)):
        pattern = torch.eye(n, dtype=maps.dtype)[(torch.arange(n) - distance).clamp(min=0)]
        maps[place] = 0.1 * maps[place] + 0.9 * pattern
    return maps


def measure(analysis: Any, source: MadeSource, n_tokens: int = N_TOKENS) -> Any:
    examples = list(Repeats(n_tokens, 8))
    result = measure_examples(examples, source, [analysis], RunOptions())
    return make_tables(analysis, result.tallies[analysis.name])


def test_planted_heads_are_found() -> None:
    source = MadeSource(plant, pieces=lambda word, place: 1)
    table = measure(Induction(), source)["induction"]
    for pattern, (layer, head) in zip(
        ("induction", "duplicate", "previous"), (INDUCTION, DUPLICATE, PREVIOUS), strict=True
    ):
        rows = table[table["pattern"] == pattern].sort_values("weight", ascending=False)
        assert rows[["layer", "head"]].iloc[0].tolist() == [layer + 1, head + 1]
        assert 0.9 < rows["weight"].iloc[0] < 0.95
        n = 2 * N_TOKENS + 2
        assert rows["of_all"].iloc[0] == pytest.approx(rows["weight"].iloc[0] * N_TOKENS / n)
        assert rows["weight"].iloc[1] < 0.2
        assert rows["chance"].tolist() == pytest.approx([1 / n] * len(rows))


def test_heads_without_a_pattern_are_at_chance() -> None:
    even = MadeSource(lambda encoding: torch.full_like(random_maps(encoding), 1 / len(encoding)))
    table = measure(Induction(), even)["induction"]
    assert table["weight"].tolist() == pytest.approx(table["chance"].tolist())


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    words = {f"w{i}": i for i in range(N_WORDS)} | {"<s>": N_WORDS}
    built = Tokenizer(models.WordLevel(words, unk_token="w0"))
    built.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=built, bos_token="<s>")


@pytest.fixture(scope="module")
def trained(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """Two layers of four heads that learned to predict what is repeated, in seconds."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=N_WORDS + 1, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    rng = torch.Generator().manual_seed(0)
    for _ in range(450):
        n = int(torch.randint(8, 20, (), generator=rng))
        once = torch.randint(N_WORDS, (32, n), generator=rng)
        ids = torch.cat([once, once], dim=1)
        ignored = torch.full_like(once, -100)  # the first copy cannot be predicted
        loss = model(input_ids=ids, labels=torch.cat([ignored, once], dim=1)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def run(trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast) -> Any:
    return headscope.analyze(
        trained, tokenizer=tokenizer, only="induction,induction-proof", repeat_tokens=N_TOKENS,
        proof_heads=2, progress=False,
    )  # fmt: skip


def test_a_trained_model_develops_induction_and_needs_it(run: Any) -> None:
    rows = run.tables["induction"].query("pattern == 'induction'")
    best = rows.nlargest(1, "weight").iloc[0]
    assert best["low"] > 0.5 > best["chance"]
    loss = run.tables["induction-loss"].set_index("copy")
    assert loss.loc["first - second", "low"] > 1
    proof = run.tables["induction-proof"].set_index("heads")
    assert f"{best.layer:.0f}-{best['head']:.0f}" in proof.loc["best", "chosen"].split()
    assert proof.loc["best - random", "lost_low"] > 0
    assert proof.loc["none", "gain"] == pytest.approx(loss.loc["first - second", "loss"])
    verdicts = {finding.claim.name: finding.verdict for finding in run.findings}
    assert verdicts["induction-heads"] == "holds"
    assert verdicts["induction-heads-carry-the-gain"] in ("holds", "undecided")


def test_the_best_heads_are_named_strongest_first(run: Any) -> None:
    rows = run.tables["induction"].query("pattern == 'induction'")
    chosen = run.tables["induction-proof"].set_index("heads").loc["best", "chosen"].split()
    weights = {f"{row.layer}-{row.head}": row.weight for row in rows.itertuples()}
    turned = rows.assign(weight=-rows["weight"])
    for table, order in ((rows, -1), (turned, 1)):
        tables = {**run.tables, "induction": table}
        (answer,) = answer_proof(tables)
        assert list(answer.heads) == sorted(chosen, key=lambda name: order * weights[name])


def test_the_losses_are_those_of_the_model_itself(
    run: Any, trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    plain = np.arange(N_WORDS)
    losses: dict[str, list[float]] = {"first": [], "second": []}
    for example in Repeats(N_TOKENS):
        ids = [int(plain[int(float(word) * N_WORDS)]) for word in example.words or ()]
        with torch.no_grad():
            logits = trained(torch.tensor([ids])).logits[0].log_softmax(-1)
        nats = [-float(logits[i - 1, ids[i]]) for i in range(1, len(ids))]
        losses["first"].append(np.mean(nats[: N_TOKENS - 1]))
        losses["second"].append(np.mean(nats[N_TOKENS - 1 :]))
    table = run.tables["induction-loss"].set_index("copy")
    for copy, values in losses.items():
        assert table.loc[copy, "loss"] == pytest.approx(np.mean(values), rel=1e-4)


def test_heads_that_are_switched_off_give_nothing(run: Any, trained: LlamaForCausalLM) -> None:
    """The loss without the best heads is that of a model whose projection has zeros for them."""
    proof = run.tables["induction-proof"].set_index("heads")
    copied = deepcopy(trained)
    for name in proof.loc["best", "chosen"].split():
        layer, head = map(int, name.split("-"))
        weight = copied.model.layers[layer - 1].self_attn.o_proj.weight.data
        size = weight.shape[1] // 4
        weight[:, (head - 1) * size : head * size] = 0
    nats = []
    for example in Repeats(N_TOKENS):
        ids = torch.tensor([[int(float(word) * N_WORDS) for word in example.words or ()]])
        with torch.no_grad():
            logits = copied(ids).logits[0].log_softmax(-1)
        second = range(N_TOKENS, 2 * N_TOKENS)
        nats.append(np.mean([-float(logits[i - 1, ids[0, i]]) for i in second]))
    assert proof.loc["best", "second"] == pytest.approx(np.mean(nats), rel=1e-4)


def test_input_that_does_not_fit_is_said_and_the_rest_works(
    trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, caplog: Any
) -> None:
    texts = headscope.texts([" ".join(f"w{i}" for i in range(20))] * 2)
    run = headscope.analyze(
        trained, tokenizer=tokenizer, text=texts, repeat_tokens=100, progress=False
    )
    assert "position" in run.tables
    assert "induction" not in run.tables
    assert "has 200 tokens" in caplog.text
    with pytest.raises(StudyError, match="knows 40 tokens that are not special"):
        headscope.analyze(
            trained, tokenizer=tokenizer, only="induction", repeat_tokens=50, progress=False
        )


def test_a_haystack_that_does_not_fit_is_said_and_the_rest_works(
    trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, caplog: Any
) -> None:
    texts = headscope.texts([" ".join(f"w{i % 40}" for i in range(300))] * 4)
    given = {"tokenizer": tokenizer, "text": texts, "progress": False, "trials": 2}
    run = headscope.analyze(trained, only="position", also="retrieval", haystack=200, **given)
    assert {"position"} <= run.tables.keys()
    assert "retrieval" not in run.tables
    (said,) = (text for text in caplog.messages if text.startswith("Skipped 'retrieval'"))
    assert "about 200 tokens" in said
    assert "128" in said
    assert "haystack" in said
    with pytest.raises(StudyError, match="haystack"):
        headscope.analyze(trained, only="retrieval", haystack=200, **given)
    fits = headscope.analyze(trained, only="retrieval", haystack=50, **given)
    assert fits.tables["retrieval-trials"]["trials"].tolist() == [2]


def test_of_made_up_input_neither_limits_nor_words_are_told(
    trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, caplog: Any
) -> None:
    texts = headscope.texts([" ".join(f"w{i % 40}" for i in range(100))] * 2)
    with caplog.at_level(logging.INFO, logger="headscope"):
        run = headscope.analyze(
            trained, tokenizer=tokenizer, text=texts, only="position,induction,retrieval",
            haystack=50, repeat_tokens=10, repeat_sequences=3, limit=40, limit_text=40,
            progress=False,
        )  # fmt: skip
    assert run.manifest["passes"].keys() == {"text", "repeats", "needles"}
    (said,) = (text for text in caplog.messages if "limit" in text)
    assert "has 2 examples" in said
    told = {key: describe_tokenization(c) for key, c in run.manifest["counts"].items()}
    assert {key for key, line in told.items() if line} == {"text"}


def test_repeats_are_drawn_without_special_tokens_by_the_seed() -> None:
    first, again, other = Repeats(5, 3), Repeats(5, 3), Repeats(5, 3, seed=1)
    assert list(first) == list(again)
    assert [e.words for e in first] != [e.words for e in other]
    assert all(e.words is not None and e.words[:5] == e.words[5:] for e in first)
    assert first.digest() == again.digest() != other.digest()


def test_an_encoder_reads_repeats_between_its_special_tokens() -> None:
    run = headscope.analyze("demo", only="induction", repeat_sequences=3, progress=False)
    assert run.manifest["counts"]["repeats"]["tokens"] == 3 * 102
    assert len(run.tables["induction-loss"]) == 0  # it has no head


def test_sinks_and_reach_of_known_maps() -> None:
    source = MadeSource(first_or_even, pieces=lambda word, place: 1, n_layers=2, n_heads=2)
    n = 2 * 40 + 2
    sinks = measure(Sinks(), source, 40)
    assert sinks["sinks"]["first"].tolist() == pytest.approx([1, 1, 1 / n, 1 / n])
    assert sinks["sinks"]["is_sink"].tolist() == [1, 1, 0, 0]
    assert len(sinks["sinks-model"]) == 0  # it does not read from left to right
    assert np.isnan(measure(Sinks(), source, 12)["sinks"]["is_sink"]).all()  # under 64 tokens
    reach = measure(Reach(reach_first=2, reach_last=10), source, 40)["reach"]
    pairs = [(q, k) for q in range(n) for k in range(n)]
    beyond = np.mean([abs(q - k) >= 10 and k >= 2 for q, k in pairs])
    distance = np.mean([abs(q - k) for q, k in pairs])
    assert reach["distance"].tolist() == pytest.approx([(n - 1) / 2] * 2 + [distance] * 2)
    variances = [(n * n - 1) / 12] * 2 + [np.var([abs(q - k) for q, k in pairs])] * 2
    assert reach["variance"].tolist() == pytest.approx(variances)
    assert reach["beyond"].tolist() == pytest.approx([0, 0, beyond, beyond])


def test_of_a_decoder_the_share_of_heads_and_examples_with_a_sink_is_their_mean(
    trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    texts = headscope.texts([" ".join(f"w{(i * n) % 40}" for i in range(n)) for n in (70, 75, 80)])
    run = headscope.analyze(
        trained, tokenizer=tokenizer, text=texts, only="sinks", max_tokens=100, progress=False
    )
    [share] = run.tables["sinks-model"]["is_sink"]
    assert share == pytest.approx(run.tables["sinks"]["is_sink"].mean())


def test_heads_that_share_keys_and_sliding_windows_are_told_apart(
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    torch.manual_seed(0)
    config = MistralConfig(
        vocab_size=N_WORDS + 1, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, sliding_window=5,
    )  # fmt: skip
    texts = headscope.texts([" ".join(f"w{i}" for i in range(n)) for n in (20, 25, 30)])
    run = headscope.analyze(
        MistralForCausalLM(config), tokenizer=tokenizer, text=texts, only="reach", progress=False
    )
    assert set(run.tables["reach"]["sliding_window"]) == {5}
    (fact,) = [fact for fact in run.card("1-1").facts if fact.topic == "reach"]
    assert "on average (rank " in fact.text  # among all heads, whatever their window
    assert "of 8" in fact.text
    heads = run.tables["reach"].set_index(["layer", "head"])["distance"]
    groups = run.tables["reach-groups"].set_index(["layer", "group"])["distance"]
    assert groups[1, 2] == pytest.approx((heads[1, 3] + heads[1, 4]) / 2)
    assert len(groups) == 4


def test_copying_is_read_off_the_weights(
    trained: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast
) -> None:
    """The slow way: each head's projected value of each token, times every word's vector."""
    run = headscope.analyze(
        trained, tokenizer=tokenizer, only="copying", repeat_tokens=6, repeat_sequences=2,
        progress=False,
    )  # fmt: skip
    table = run.tables["copying"].set_index(["layer", "head", "effect"])
    words = trained.lm_head.weight.detach()[:N_WORDS] * trained.model.norm.weight.detach()
    for layer, block in enumerate(trained.model.layers, start=1):
        seen: list[torch.Tensor] = []
        hook = block.self_attn.v_proj.register_forward_hook(lambda m, i, o, s=seen: s.append(o))
        per_head = block.self_attn.o_proj.weight.detach().split(16, dim=1)  # [hidden, part] each
        copies = np.zeros(4)
        for example in Repeats(6, 2):
            ids = [int(float(word) * N_WORDS) for word in example.words or ()]
            with torch.no_grad():
                trained(torch.tensor([ids]))
            for head in range(4):
                value = seen[-1][0].split(16, dim=1)[head // 2]  # two heads share their values
                logits = value.detach() @ per_head[head].T @ words.T  # [token, word]
                best = logits.argmax(-1).tolist()
                copies[head] += np.mean([int(b == t) for b, t in zip(best, ids, strict=True)])
        hook.remove()
        for head in range(4):
            top = table.loc[(layer, head + 1, "copies"), "top_1"]
            assert top == pytest.approx(copies[head] / 2)
