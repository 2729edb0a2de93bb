"""Who may import whom: the tree is the pipeline, and imports point down only."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "headscope"

# A part may import from its own rank only within itself, and from lower ranks freely.
RANKS = {
    "cli": 7,
    "commands": 6,
    "report": 5,
    "explore": 5,
    "runs": 4,
    "corpora": 3,
    "models": 3,
    "analyses": 3,
    "probes": 3,
    "kernels": 2,
    "data": 2,
    "contracts": 1,
    "registry": 1,
    "errors": 0,
}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    checked_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    nodes = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n not in checked_only]
    return {n.module for n in nodes if n.module and n.module.startswith("headscope.")}


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE))
)
def test_imports_point_down_only(path: Path) -> None:
    own = path.relative_to(SOURCE).with_suffix("").parts[0]
    if own == "__init__":
        return
    for module in imports_of(path):
        other = part_of(module)
        assert other == own or RANKS[other] < RANKS[own], f"{own} must not import {module}"


def test_files_and_functions_stay_small() -> None:
    for path in SOURCE.rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= 300, f"{path} has over 300 lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.body:
                first = node.body[1] if ast.get_docstring(node) and node.body[1:] else node.body[0]
                length = (node.end_lineno or 0) - first.lineno + 1
                assert length <= 40, f"{path.name}: {node.name} has {length} lines"
