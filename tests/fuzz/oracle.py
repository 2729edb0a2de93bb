"""What stands in a corpus file, by the slowest and simplest reading of it.

A reader that accepts a file must hand on all of it: these find what it lost without a word.
"""

import json
import re
from collections.abc import Sequence

from headscope.contracts import CorpusRole
from headscope.data.example import Example

__all__ = ["find_loss"]


def find_loss(name: str, role: CorpusRole, content: bytes, examples: Sequence[Example]) -> str:
    """What the examples lack of the file, in a few words; "" if nothing."""
    text = content.decode("utf-8-sig")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    expected, found = READINGS[name.rpartition(".")[2], role](lines, examples)
    if expected == found:
        return ""
    return f"expected {expected!r:.150}, found {found!r:.150}"


def _paragraphs(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    found = [part for e in examples for part in (e.text, e.text_pair) if part is not None]
    return [line.strip() for line in lines if line.strip()], found


def _records(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    records = [json.loads(line) for line in lines if line.strip()]
    keys = ("text", "text_pair", "words")
    expected = [[record.get(key) for key in keys] for record in records]
    found = [[e.text, e.text_pair, None if e.words is None else [*e.words]] for e in examples]
    return expected, found


def _blocks(lines: list[str]) -> list[list[list[str]]]:
    """The rows of each sentence of CoNLL-U that has any."""
    blocks: list[list[list[str]]] = [[]]
    for line in lines:
        if not line.strip():
            blocks.append([])
        elif not line.startswith("#"):
            blocks[-1].append(line.split("\t"))
    return [block for block in blocks if block]


def _words(block: list[list[str]]) -> list[list[str]]:
    return [row for row in block if row[0].isdecimal()]


def _spell(block: list[list[str]]) -> str:
    """The running text of a sentence, without spaces."""
    text, covered = "", 0
    for row in block:
        if "-" in row[0]:
            text, covered = text + row[1], int(row[0].split("-")[1])
        elif row[0].isdecimal() and int(row[0]) > covered:
            text += row[1]
    return text


def _sentences(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    blocks = _blocks(lines)
    has_heads = any(row[6] != "_" for block in blocks for row in _words(block))
    expected = [
        [
            [row[1] for row in _words(block)],
            _spell(block),
            [(int(row[6]), row[7]) for row in _words(block)] if has_heads else None,
        ]
        for block in blocks
    ]
    found = [
        [
            [*(e.words or ())],
            "".join(e.surfaces or e.words or ()),
            [(head + 1, name) for head, name in zip(e.tree.heads, e.tree.relations, strict=True)]
            if e.tree
            else None,
        ]
        for e in examples
    ]
    return expected, found


def _texts(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    """Every sentence is somewhere in the text: as its comment says, or by its words."""
    told: list[str] = []
    for block in "\n".join(lines).split("\n\n"):
        rows = [line.split("\t") for line in block.split("\n") if line.strip() and line[0] != "#"]
        comments = re.findall(r"^#\s*text\s*=(.*)$", block, re.M)
        if rows:
            told.append((comments[-1].strip() if comments else "") or _spell(rows))
    found = "".join(part for e in examples for part in (e.text, e.text_pair) if part)
    squeezed = re.sub(r"\s", "", found)
    return [], [part for part in told if re.sub(r"\s", "", part) not in squeezed]


def _entities(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    words = [row for block in _blocks(lines) for row in _words(block)]
    marks = [part for row in words for part in row[9].split("|") if part.startswith("Entity=")]
    n_opened = sum(mark.count("(") for mark in marks)
    return ([row[1] for row in words], n_opened), _counted(examples)


def _brackets(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    rows, is_inside = list[list[str]](), False
    for line in lines:
        if mark := re.match("#(begin|end) document", line):
            is_inside = mark[1] == "begin"
        elif line.strip() and (is_inside or line.split()[0] != "#"):
            rows.append(line.rstrip().split("\t") if "\t" in line else line.split())
    return ([row[3] for row in rows], sum(row[-1].count("(") for row in rows)), _counted(examples)


def _counted(examples: Sequence[Example]) -> tuple[list[str], int]:
    words = [word for e in examples for word in e.words or ()]
    return words, sum(len(e.mentions or ()) for e in examples)


def _choices(lines: list[str], examples: Sequence[Example]) -> tuple[object, object]:
    header = lines[0].split("\t")
    rows = [dict(zip(header, line.split("\t"), strict=True)) for line in lines[1:] if line.strip()]
    expected = [
        [re.sub(r"\s", "", row["Text"]), row["A-coref"].upper(), row["B-coref"].upper()]
        for row in rows
    ]
    found = []
    for e in examples:
        pronoun, *names = e.mentions or ()
        same = [str(name.cluster == pronoun.cluster).upper() for name in names]
        found.append(["".join(e.words or ()), *same])
    return expected, found


READINGS = {
    ("txt", CorpusRole.TEXT): _paragraphs,
    ("jsonl", CorpusRole.TEXT): _records,
    ("conllu", CorpusRole.TEXT): _texts,
    ("conllu", CorpusRole.TREEBANK): _sentences,
    ("conllu", CorpusRole.COREF): _entities,
    ("conll", CorpusRole.COREF): _brackets,
    ("tsv", CorpusRole.COREF): _choices,
}
