"""What heads of language models are known for, in slow, obvious loops."""

from collections.abc import Sequence

from headscope.data.encoding import Encoding, TokenKind
from tests.references.measures import Maps, Rows, heads, mean


def induction(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        found: dict[str, list[float]] = {"induction": [], "duplicate": [], "previous": []}
        for example, encoding in zip(maps, encodings, strict=True):
            weights, words = example[layer][head], encoding.word_ids.tolist()
            at = [words.index(word) for word in range(max(words) + 1)]  # where each word begins
            n = len(at) // 2  # of a copy
            if not n:
                continue
            second = range(n, 2 * n)
            found["induction"].append(mean([weights[at[w]][at[w - n + 1]] for w in second]))
            found["duplicate"].append(mean([weights[at[w]][at[w - n]] for w in second]))
            found["previous"].append(mean([weights[at[w]][at[w] - 1] for w in second]))
        for pattern, values in found.items():
            rows[layer + 1, head + 1, pattern] = mean(values)
    return rows


def induction_text(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        found = []
        for example, encoding in zip(maps, encodings, strict=True):
            ids = encoding.inputs["input_ids"].tolist()
            for query, token in enumerate(ids):
                earlier = [key for key in range(query) if ids[key] == token]
                is_text = encoding.kinds[query] == TokenKind.TEXT
                if is_text and earlier and earlier[-1] + 1 < query:
                    found.append(example[layer][head][query][earlier[-1] + 1])
        rows[layer + 1, head + 1] = mean(found)
    return rows


def sinks(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    return {
        (layer + 1, head + 1): mean([mean(list(example[layer][head][:, 0])) for example in maps])
        for layer, head in heads(maps)
    }


def reach(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    rows: Rows = {}
    for layer, head in heads(maps):
        found = []
        for example in maps:
            weights = example[layer][head]
            pairs = [(q, k) for q in range(len(weights)) for k in range(len(weights[q]))]
            found.append(sum(weights[q][k] * abs(q - k) for q, k in pairs) / len(weights))
        rows[layer + 1, head + 1] = mean(found)
    return rows


def reach_variance(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """Around the mean distance of all examples, each of which counts the same."""
    rows: Rows = {}
    for (layer, head), centre in reach(maps, encodings).items():
        found = []
        for example in maps:
            weights = example[layer - 1][head - 1]
            pairs = [(q, k) for q in range(len(weights)) for k in range(len(weights[q]))]
            squares = (weights[q][k] * (abs(q - k) - centre) ** 2 for q, k in pairs)
            found.append(sum(squares) / len(weights))
        rows[layer, head] = mean(found)
    return rows


def retrieval(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """Words 0 to 4: text, fact, text, question, answer. Every trial with an answer counts."""
    rows: Rows = {}
    for layer, head in heads(maps):
        found = []
        for example, encoding in zip(maps, encodings, strict=True):
            words, ids = encoding.word_ids.tolist(), encoding.inputs["input_ids"].tolist()
            answer = [token for token, word in enumerate(words) if word == 4]
            best = [list(row).index(max(row)) for row in example[layer][head]]
            copied = [words[best[t - 1]] == 1 and ids[best[t - 1]] == ids[t] for t in answer]
            if answer:
                found.append(mean([float(is_copied) for is_copied in copied]))
        rows[layer + 1, head + 1] = mean(found)
    return rows
