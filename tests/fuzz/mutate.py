"""Good bytes made bad: a few random changes, among them the tokens that have broken readers."""

from collections.abc import Callable
from random import Random

__all__ = ["NASTY", "mutate"]

MOST_CHANGES = 4
NASTY: tuple[bytes, ...] = (
    *(b"", b"-1", b"0", b"0-1", b"1-99", b"2-1", b"1-2", b"3-3", b"1.1", b"1e999", b"NaN"),
    *(b"1-999999999", b"9" * 20, b"9" * 5000, b"1-" + b"9" * 20, "٣".encode(), "²".encode()),
    *(b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", "\u2028".encode(), "\u0085".encode()),
    *(b"\x1c", b"\r", b"\n", b"\n\n", b"\t", b" ", b"\xc2\xa0", b"_", b"|", b"#", b"=", b"-", b"*"),
    *(b"x" * 5000, b"ab" * 600, b"[" * 2500, b'{"a":' * 2500, b'{"a": 1, "a": 2}', b"null", b"[]"),
    *(b'"text_pair": "x", ', b'"words": ["x"], ', b'"id": true, ', b"\\ud800"),
    *(b'"alignment": "9-9", ', b'"id": "a", '),
    *(b"toString", b"__proto__", b"constructor", b"=1+1", b"TRUE", b"FALSE", b"13", b"root"),
    *(b"(e1", b"e1)", b"(e1)", b"(1)", b"(1", b"1)", b"(e1[1/2]", b"()", b"(", b")", b"(NP*"),
    *(b"Entity=(e9)", b"Entity=(e9)|Entity=(e8)", b"|Entity=(e1)", b"SpaceAfter=No"),
    *(b"#begin document (b); part 001\n", b"#end document\n", b"\n# newdoc\n", b"# text = \n"),
)  # fmt: skip


def mutate(rng: Random, content: bytes) -> bytes:
    """The content with one to four changes."""
    for _ in range(rng.randint(1, MOST_CHANGES)):
        content = rng.choice(CHANGES)(rng, content)
    return content


def _flip(rng: Random, content: bytes) -> bytes:
    if not content:
        return content
    place = rng.randrange(len(content))
    flipped = content[place] ^ (1 << rng.randrange(8))
    return content[:place] + bytes([flipped]) + content[place + 1 :]


def _insert(rng: Random, content: bytes) -> bytes:
    place = rng.randint(0, len(content))
    return content[:place] + rng.choice(NASTY) + content[place:]


def _truncate(rng: Random, content: bytes) -> bytes:
    return content[: rng.randint(0, len(content))]


def _cut_out(rng: Random, content: bytes) -> bytes:
    start, end = sorted(rng.randint(0, len(content)) for _ in range(2))
    return content[:start] + content[end:]


def _repeat(rng: Random, content: bytes) -> bytes:
    start, end = sorted(rng.randint(0, len(content)) for _ in range(2))
    return content[:end] + content[start:end] * rng.randint(1, 3) + content[end:]


def _of_lines(change: Callable[[Random, list[bytes]], None]) -> Callable[[Random, bytes], bytes]:
    def apply(rng: Random, content: bytes) -> bytes:
        lines = content.split(b"\n")
        change(rng, lines)
        return b"\n".join(lines)

    return apply


def _drop_line(rng: Random, lines: list[bytes]) -> None:
    del lines[rng.randrange(len(lines))]


def _copy_line(rng: Random, lines: list[bytes]) -> None:
    lines.insert(rng.randint(0, len(lines)), rng.choice(lines))


def _swap_lines(rng: Random, lines: list[bytes]) -> None:
    one, two = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[one], lines[two] = lines[two], lines[one]


def _replace_cell(rng: Random, lines: list[bytes]) -> None:
    """A cell of a line of columns, or a value of a JSON object, becomes a nasty one."""
    row = rng.randrange(len(lines))
    mark = next((m for m in (b"\t", b", ", b" ") if m in lines[row]), b" ")
    cells = lines[row].split(mark)
    cells[rng.randrange(len(cells))] = rng.choice(NASTY)
    lines[row] = mark.join(cells)


CHANGES = (
    *(_flip, _insert, _insert, _truncate, _cut_out, _repeat),
    *map(_of_lines, (_drop_line, _copy_line, _swap_lines, _replace_cell, _replace_cell)),
)
