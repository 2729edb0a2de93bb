"""Antecedents, mention by mention: heads and rules in plain loops (paper, section 4.3)."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from headscope.data.encoding import Encoding
from headscope.data.example import Mention
from headscope.stats.bucket import bucket_of
from tests.references.dependency import predict, word_map
from tests.references.folds import N_FOLDS, make_partitions
from tests.references.measures import Maps, Rows, heads

BOUNDS = [(4, "1-4"), (9, "5-9"), (19, "10-19"), (49, "20-49")]

Question = tuple[Mention, list[Mention], list[Mention], list[str]]
Ask = Callable[[Encoding], Iterator[Question]]  # mention, candidates, right ones, groups


def present_words(encoding: Encoding) -> set[int]:
    return {int(word) for word in encoding.word_ids if word >= 0}


def ask_coreference(encoding: Encoding) -> Iterator[Question]:
    """Every mention with an earlier one of its cluster, head words compared."""
    known = [m for m in encoding.example.mentions or () if not m.is_singleton]
    known = [m for m in known if m.head in present_words(encoding)]
    for mention in known:
        before = [other for other in known if other.head < mention.head]
        right = [other for other in before if other.cluster == mention.cluster]
        if not right:
            continue
        distance = mention.head - max(other.head for other in right)
        names = [name for most, name in BOUNDS if distance <= most] or ["50+"]
        yield mention, before, right, ["all", mention.kind, names[0]]


def ask_gap(encoding: Encoding) -> Iterator[Question]:
    """Every pronoun with two names or more around it, one of them right."""
    known = [m for m in encoding.example.mentions or () if m.head in present_words(encoding)]
    for mention in known:
        names = [m for m in known if m.kind != "pronoun" and m.head != mention.head]
        right = [name for name in names if name.cluster == mention.cluster]
        if mention.kind == "pronoun" and right and len({name.head for name in names}) >= 2:
            gender = [mention.gender] if mention.gender in ("masculine", "feminine") else []
            yield mention, names, right, ["all", *gender]


def nearest(mention: Mention, others: Sequence[Mention]) -> Mention | None:
    best = None
    for other in sorted(others, key=lambda m: (m.head, m.start)):
        if best is None or abs(other.head - mention.head) < abs(best.head - mention.head):
            best = other
    return best


def by_rule(system: str, mention: Mention, others: list[Mention], words: Sequence[str]) -> Any:
    def text(m: Mention) -> str:
        return " ".join(words[m.start : m.end]).lower()

    same_text = [m for m in others if text(m) == text(mention)]
    same_head = [m for m in others if words[m.head].lower() == words[mention.head].lower()]
    agreeing = []
    for other in others:
        pairs = [
            (mention.number, other.number),
            (mention.gender, other.gender),
            (mention.person, other.person),
        ]
        if not any(a and b and a != b for a, b in pairs):
            agreeing.append(other)
    if system == "nearest":
        return nearest(mention, others)
    if system == "head-match":
        return nearest(mention, same_head)
    return nearest(mention, same_text or same_head or agreeing or others)


def by_head(
    words: list[list[float]], mention: Mention, competing: set[int], direction: str
) -> int | None:
    place = mention.head
    if direction == "mention-to-antecedent":
        scores = {word: words[place][word] for word in competing}
    else:
        scores = {word: words[word][place] for word in competing}
    found = predict(scores)
    return found if found is not None and scores[found] > 0 else None


class Scores:
    """Right answers and questions, by group and key."""

    def __init__(self, groups: Sequence[str]) -> None:
        self.groups = groups
        self.right: dict[tuple[Any, ...], int] = {}
        self.count: dict[tuple[Any, ...], int] = {}

    def add(self, key: tuple[Any, ...], names: Sequence[str], is_right: bool) -> None:
        for group in self.groups:
            whole = (group, *key)
            self.count[whole] = self.count.get(whole, 0) + (group in names)
            self.right[whole] = self.right.get(whole, 0) + (group in names and is_right)

    def shares(self) -> Rows:
        return {k: self.right[k] / n if n else float("nan") for k, n in self.count.items()}


def score(maps: Maps, encodings: Sequence[Encoding], ask: Ask, groups: Sequence[str]) -> Rows:
    """Accuracy by (group, candidates, system, direction, layer, head); NaN where none asks."""
    scores = Scores(groups)
    for layer, head in heads(maps):
        both = zip(maps, encodings, strict=True)
        words = [word_map(example[layer][head], encoding) for example, encoding in both]
        for direction in ("mention-to-antecedent", "antecedent-to-mention"):
            for candidates in ("mentions", "words"):
                key = (candidates, "head", direction, layer + 1, head + 1)
                scores.add(key, [], False)
                for own, encoding in zip(words, encodings, strict=True):
                    score_head(scores, key, own, encoding, ask)
    for system in ("nearest", "head-match", "rule-based"):
        key = ("mentions", system, None, None, None)
        scores.add(key, [], False)
        for encoding in encodings:
            for mention, others, answers, names in ask(encoding):
                picked = by_rule(system, mention, others, encoding.example.words or ())
                is_right = picked is not None and picked.head in {m.head for m in answers}
                scores.add(key, names, is_right)
    return scores.shares()


def score_head(
    scores: Scores, key: tuple[Any, ...], words: list[list[float]], encoding: Encoding, ask: Ask
) -> None:
    candidates, _, direction, *_ = key
    for mention, others, answers, names in ask(encoding):
        competing = {m.head for m in others}
        if candidates == "words":
            competing = present_words(encoding) - {mention.head}
        found = by_head(words, mention, competing, direction)
        scores.add(key, names, found in {m.head for m in answers})


def coreference(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    return score(maps, encodings, ask_coreference, ["all", "pronoun", "proper", "nominal"])


def coreference_distance(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    return score(maps, encodings, ask_coreference, [*(name for _, name in BOUNDS), "50+"])


def gap(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    return score(maps, encodings, ask_gap, ["all", "masculine", "feminine"])


def contrasts(maps: Maps, encodings: Sequence[Encoding]) -> Rows:
    """The head that other folds choose over all mentions, minus each rule, by type of mention."""
    found = gains(maps, encodings)
    rows: Rows = {key: sum(g for g, _ in own) / len(own) for key, own in found.items()}
    for candidates, kind, system in found:
        nominal = (candidates, "nominal", system)
        if kind in ("pronoun", "proper") and nominal in found:
            more = rows[nominal] - rows[candidates, kind, system]
            rows[candidates, f"nominal - {kind}", system] = more
    return rows


def gains(
    maps: Maps, encodings: Sequence[Encoding]
) -> dict[tuple[str, str, str], list[tuple[int, int]]]:
    """By candidates, type and rule: of each mention 1, 0 or -1, and the bucket of its document."""
    kinds = ("all", "pronoun", "proper", "nominal")
    buckets = [bucket_of(e.example) for e in encodings]
    names = [
        (layer, head, direction)
        for layer, head in heads(maps)
        for direction in ("mention-to-antecedent", "antecedent-to-mention")
    ]
    rows: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for candidates in ("mentions", "words"):
        asked = [  # of each question its bucket, groups, heads that are right, rules that are right
            (bucket, *answer)
            for example, encoding, bucket in zip(maps, encodings, buckets, strict=True)
            for answer in _answers(example, encoding, candidates, names)
        ]
        counts = Counter(bucket for bucket, groups, *_ in asked if "all" in groups)
        for folds, fold in product(make_partitions(counts), range(N_FOLDS)):
            inside = [question for question in asked if folds[question[0]] == fold]
            others = [question for question in asked if folds[question[0]] != fold]
            if not inside or not others:
                continue
            chosen = max(names, key=lambda name: sum(name in found for _, _, found, _ in others))
            for bucket, groups, found, rules in inside:
                for system, is_right in rules.items():
                    for kind in set(groups) & set(kinds):
                        gain = int(chosen in found) - int(is_right)
                        rows.setdefault((candidates, kind, system), []).append((gain, bucket))
    return rows


def _answers(
    example: Any, encoding: Encoding, candidates: str, names: Sequence[tuple[int, int, str]]
) -> Iterator[tuple[list[str], set[tuple[int, int, str]], dict[str, bool]]]:
    """Of each question its groups, the heads that answer it, and whether each rule does."""
    words = {(layer, head): word_map(example[layer][head], encoding) for layer, head, _ in names}
    for mention, others, answers, groups in ask_coreference(encoding):
        right = {m.head for m in answers}
        competing = {m.head for m in others}
        if candidates == "words":
            competing = present_words(encoding) - {mention.head}
        found = {
            (layer, head, direction)
            for layer, head, direction in names
            if by_head(words[layer, head], mention, competing, direction) in right
        }
        forms = encoding.example.words or ()
        picked = {
            system: by_rule(system, mention, others, forms)
            for system in ("nearest", "head-match", "rule-based")
        }
        yield groups, found, {s: m is not None and m.head in right for s, m in picked.items()}
