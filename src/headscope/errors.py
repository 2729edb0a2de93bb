"""The errors a user can fix. Each says what is wrong, what was expected, and what to do.

Messages name options as the command line does (`--max-tokens`). Where the error was not raised by a
command, they are shown as the parameters of Python (`max_tokens`).
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches

__all__ = [
    "HeadscopeError", "InputError", "ModelError", "OutputError", "StudyError", "WriteError",
    "first_part", "name_parameters", "on_command_line", "say_count", "shorten", "suggest",
]  # fmt: skip

# Words that may follow an option in a sentence and are no value of it.
NO_VALUES = "out|or|and|to|for|has|cannot|where|needs?|implies|was|is|does|beside|with|without"
# Commands to run stay as they are; what is left are options in a sentence, with or without a value.
COMMAND_OR_FLAG = re.compile(
    r"`[^`]*`|headscope [a-z]+ [^.;]*"
    r"|(?<!\w)--([a-z]+(?:-[a-z]+)*)(?: ((?!(?:" + NO_VALUES + r")\b)[\w./+:=,-]*[\w]))?"
)

LONG_WORD = re.compile(r"(\S{300})\S+")  # such as a path of thousands of characters
PARAMETERS = {"token_class": "token_classes"}  # where the two have different names

_is_command_line: ContextVar[bool] = ContextVar("is_command_line", default=False)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Messages name flags, as a command was given."""
    token = _is_command_line.set(True)
    try:
        yield
    finally:
        _is_command_line.reset(token)


def name_parameters(message: str) -> str:
    """The message as it suits where it is shown: flags for a command, parameters in Python.

    >>> name_parameters("--max-tokens 3 cannot be used. Try `headscope show --head 1-1`.")
    'max_tokens=3 cannot be used. Try `headscope show --head 1-1`.'
    >>> name_parameters("--seed -1 cannot be used.")
    'seed=-1 cannot be used.'
    >>> name_parameters("Leave --weights out, or pass --treebank FILE.conllu.")
    'Leave weights out, or pass treebank="FILE.conllu".'
    """
    if _is_command_line.get():
        return message

    def replace(found: re.Match[str]) -> str:
        if not found[1]:
            return found[0]
        name, value = found[1].replace("-", "_"), found[2]
        if value and not re.fullmatch(r"-?[\d.]+", value):
            value = f'"{value}"'
        return PARAMETERS.get(name, name) + (f"={value}" if value else "")

    return COMMAND_OR_FLAG.sub(replace, message)


def first_part(message: str) -> str:
    """What is wrong, without what was expected and what to do.

    >>> first_part("There is no loss. Expected one; choose another model.")
    'There is no loss.'
    """
    return message.partition(" Expected ")[0]


def shorten(value: object, most: int = 60) -> str:
    """What a message quotes of a file or of what a user gave: never more than a line of it.

    >>> shorten("a" * 100, 8)
    'aaaaaaaa ...'
    """
    try:
        text = value if isinstance(value, str) else f"{value!r}"
    except ValueError:  # Python does not write a number of more than 4,300 digits
        text = "a number of thousands of digits"
    plain = " ".join(text[: 4 * most].split())
    is_whole = len(plain) <= most and len(text) <= 4 * most
    # half a character cannot be printed or written
    return (plain if is_whole else f"{plain[:most]} ...").encode(errors="replace").decode()


def say_count(n: int, noun: str) -> str:
    """How many there are of something.

    >>> say_count(1, "shard"), say_count(2000, "shard")
    ('1 shard', '2,000 shards')
    """
    return f"{n:,} {noun}{'s' * (n != 1)}"


def suggest(name: str, known: Iterable[str]) -> str:
    """A "did you mean" sentence, or nothing where no known name is near.

    >>> suggest("entrpy", ["entropy", "position"])
    " Did you mean 'entropy'?"
    """
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class HeadscopeError(Exception):
    """Something the user can fix; the command line prints it without a traceback."""

    def __str__(self) -> str:
        message = str(self.args[0]) if self.args else ""
        text = name_parameters(LONG_WORD.sub(r"\1 ...", message))
        return text.encode(errors="backslashreplace").decode()  # a path may hold half a character


class InputError(HeadscopeError):
    """A corpus that cannot be read; the message carries the path and the line."""


class ModelError(HeadscopeError):
    """A model or tokenizer that cannot be loaded, or whose attention cannot be measured."""


class StudyError(HeadscopeError):
    """A question that cannot be asked: an unknown name, a bad option, data that is not there."""


class OutputError(HeadscopeError):
    """A folder or file that cannot be written, or one that belongs to another run."""


class WriteError(OutputError):
    """A file that could not be written, as the disk is full or the folder is not ours."""
