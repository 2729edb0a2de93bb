"""One question, one folder: no other file names an analysis, a probe or a table."""

import ast
from collections.abc import Iterator
from pathlib import Path

import headscope
from headscope.probes.tables import TABLES
from headscope.registry import ANALYSES, PROBES

SOURCE = Path(headscope.__file__).parent
OWN_PLACES = ("analyses", "probes", "registry.py")
DERIVED = {"layout", "dendrogram"}  # tables that are made from those of all analyses


def known_names() -> set[str]:
    tables = {name for entry in ANALYSES.built_in.values() for name in entry.load().tables}
    return {*ANALYSES.built_in, *PROBES.built_in, *tables, *TABLES, *DERIVED}


def find_quoted(source: str, names: set[str]) -> Iterator[tuple[int, str]]:
    """The strings of a file that are one of these names, with their lines; docstrings aside.

    `__all__` names functions: those of the commands `distance` and `layout`, for example.
    """
    tree = ast.parse(source)
    exported = {
        id(item)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        for item in ast.walk(node.value)
    }
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        is_free = id(node) not in docstrings | exported
        if isinstance(node, ast.Constant) and is_free and node.value in names:
            yield node.lineno, str(node.value)


def test_names_of_analyses_probes_and_tables_are_quoted_in_their_own_folders_alone() -> None:
    names = known_names()
    assert {"position", "distance-layers", "attention-only", "probe-curve", "layout"} <= names
    found = [
        f"{path.relative_to(SOURCE)}:{line} quotes {name!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in OWN_PLACES
        for line, name in find_quoted(path.read_text(), names)
    ]
    assert not found, "\n".join(found)


def test_a_quoted_name_is_found_and_a_docstring_or_a_sentence_is_not() -> None:
    source = '''
"""position"""
__all__ = ["trees"]
def f(tables, kind="gap"):
    """trees"""
    return tables["position"], "the position of a head", {"entropy": 1}, f"{kind}-best"
'''
    assert sorted(name for _, name in find_quoted(source, known_names())) == [
        "entropy",
        "gap",
        "position",
    ]
