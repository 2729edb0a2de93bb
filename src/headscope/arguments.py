"""What a user gives in Python, checked against the types of signatures and options."""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Set
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from headscope.errors import StudyError, shorten

__all__ = ["checked", "fits", "flag_of", "require_type"]

Given = ParamSpec("Given")
Made = TypeVar("Made")

NAMES: dict[Any, str] = {
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    Any: "value",
}
NAMES |= {bool: "True or False", NoneType: "None"}


def checked(function: Callable[Given, Made]) -> Callable[Given, Made]:
    """The function, with an error for an argument of another type than its signature says."""
    signature, kinds = inspect.signature(function), function.__annotations__

    @wraps(function)
    def call(*given: Given.args, **named: Given.kwargs) -> Made:
        for name, value in signature.bind(*given, **named).arguments.items():
            require_type(name, value, kinds.get(name, Any))
        return function(*given, **named)

    return call


def require_type(name: str, value: object, kind: Any) -> None:
    """An error for a value that a parameter or option of this type cannot have."""
    if not fits(value, kind):
        shown = repr(shorten(value)) if isinstance(value, str) else shorten(value)
        if isinstance(value, Integral) and abs(int(value)) > sys.maxsize:
            shown += " (more than 64 bits)"
        raise StudyError(f"{flag_of(name)} cannot be {shown}. Expected {_say(kind)}; change it.")


def flag_of(name: str) -> str:
    """The name of an option on the command line.

    >>> flag_of("max_tokens")
    '--max-tokens'
    """
    return "--" + name.replace("_", "-")


def fits(value: Any, kind: Any) -> bool:
    """Whether a value is of a type. Protocols and arrays are not looked into.

    A list may stand for a tuple, and a path is one that a file may have.

    >>> fits(3, int | None), fits(True, int), fits("ab", list[str]), fits([1, "b"], tuple[int, str])
    (True, False, False, True)
    """
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        is_path = Path in parts and isinstance(value, (str, Path))
        return "\0" not in str(value) if is_path else any(fits(value, part) for part in parts)
    if origin is Any or not isinstance(origin, type) or getattr(origin, "_is_protocol", False):
        return True
    if origin is float:
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        return is_number and bool(abs(value) <= sys.float_info.max)  # NaN is not
    if origin is int:
        is_whole = isinstance(value, Integral) and not isinstance(value, bool)
        return is_whole and abs(value) <= sys.maxsize
    if issubclass(origin, Iterable) and not issubclass(origin, str):
        return _holds(value, origin, parts)
    return isinstance(value, origin)


def _holds(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    """Whether a value is a collection of this kind, and its items are of these types."""
    is_mapping = issubclass(origin, Mapping)
    is_loose = isinstance(value, Set) and not issubclass(Set, origin)  # it has no order
    if isinstance(value, (str, bytes)) or isinstance(value, Mapping) != is_mapping or is_loose:
        return False
    if not isinstance(value, Collection):  # to look into it would use it up
        return origin is Iterable and isinstance(value, Iterable)
    try:
        items = [*value.items()] if isinstance(value, Mapping) else [*value]
    except TypeError:  # an array without axes
        return False
    if is_mapping and parts:
        return all(fits(key, parts[0]) and fits(item, parts[1]) for key, item in items)
    if origin is tuple and parts[-1:] != (...,):
        return len(items) == len(parts) and all(map(fits, items, parts))
    return not parts or all(fits(item, parts[0]) for item in items)


def _say(kind: Any, is_plural: bool = False) -> str:
    """A type in words.

    >>> _say(str | Path | None), _say(tuple[str, Path]), _say(Mapping[str, list[float]])
    ('a path or None', 'a list of a text and a path', 'a mapping of texts to lists of numbers')
    """
    origin, parts = get_origin(kind) or kind, get_args(kind)
    if origin in (Union, UnionType):
        names = (_say(part, is_plural) for part in parts if part is not str or Path not in parts)
        return " or ".join(names)
    name, more = NAMES.get(origin, f"{getattr(origin, '__name__', 'value')} object"), ""
    if parts and issubclass(origin, Iterable):
        join, name = (" to ", "mapping") if issubclass(origin, Mapping) else (" and ", "list")
        is_fixed = origin is tuple and ... not in parts
        more = " of " + join.join(_say(part, not is_fixed) for part in parts if part is not ...)
    if name[0].isupper() and origin in NAMES:
        return name
    article = "an" if name[0] in "AEIOU" else "a"
    return f"{name}s{more}" if is_plural else f"{article} {name}{more}"
