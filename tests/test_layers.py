"""Who may import whom: the tree is the pipeline, and imports point down only."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import resolve_name
from pathlib import Path

import pytest

import headscope
from headscope.registry import ANALYSES, CORPORA, MODELS, PROBES

SOURCE = Path(headscope.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 450

# A room may import from its own rank only within itself, and from lower ranks freely.
RANKS = {
    "__main__": 14,
    "cli": 13,
    "commands": 12,
    "testing": 12,
    "explore": 11,
    "comparison": 11,
    "engine": 10,
    "exports": 9,
    "runs": 8,
    "analyses": 6,
    "show": 6,  # how the probes are shown
    "view": 5,
    "probes": 4,
    "corpora": 4,
    "models": 4,
    "stats": 3,
    "data": 2,
    "kernels": 1,
    "contracts": 1,
    "lazy": 1,
    "registry": 1,
    "options": 1,
    "files": 1,
    "arguments": 0,
    "errors": -1,
}
# Lower, and yet none of its business: what is shown comes in tables.
NOT_FOR_VIEW = {"probes", "corpora", "models"}
TARGETS = {"analyses", "probes", "corpora", "models"}


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports_of(source: str, module: str = "headscope.made.up") -> set[str]:
    """The modules of headscope that a file loads, wherever and however it says so."""
    tree = ast.parse(source)
    checked_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.dump(block.test)
        for part in block.body
        for node in ast.walk(part)
    }
    found: set[str] = set()
    for node in ast.walk(tree):
        if node not in checked_only:
            found |= set(_read(node, module))
    return {name for name in found if name.split(".")[0] == "headscope"} - {"headscope"}


def _read(node: ast.AST, module: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            base = resolve_name("." * node.level + base, module.rpartition(".")[0])
        if not _is_folder(base) or base in MODULES:  # a folder alone, without a file, loads nothing
            yield base
        for alias in node.names:
            public = headscope._HOMES.get(alias.name)
            inner = f"{base}.{alias.name}"
            if base == "headscope" and public:
                yield public
            elif inner in MODULES or _is_folder(inner):
                yield inner
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        named = re.fullmatch(r"(headscope(?:\.\w+)+)(?::\w+)?", node.value)
        if named:  # for import_module, an entry of the registry, a loader of templates
            yield named[1]


def _is_folder(module: str) -> bool:
    return (SOURCE.parent / module.replace(".", "/")).is_dir()


def room_of(module: str) -> str:
    """The room that a module is in; what shows the probes is another room than what they do."""
    of_probes = ("headscope.probes.show", "headscope.probes.charts")
    return "show" if module in of_probes else module.split(".")[1]


def may_import(own: str, other: str) -> bool:
    is_below = RANKS[other] < RANKS[own] and not (own == "view" and other in NOT_FOR_VIEW)
    return other == own or is_below


@pytest.mark.parametrize("module", [m for m in MODULES if m != "headscope"])
def test_imports_point_down_only(module: str) -> None:
    if module in ("headscope.registry", "headscope.analyses"):
        return  # its targets are checked below; an empty folder
    for other in imports_of(MODULES[module].read_text(), module):
        if other != "headscope.analyses":
            own = room_of(module), room_of(other)
            assert may_import(*own), f"{module} ({own[0]}) must not import {other} ({own[1]})"


def test_the_registry_itself_loads_only_errors() -> None:
    source = (SOURCE / "registry.py").read_text()
    targets = {m for m in imports_of(source) if m.split(".")[1] in TARGETS}
    assert imports_of(source) - targets == {"headscope.errors"}


@pytest.mark.parametrize("registry", [ANALYSES, PROBES, CORPORA, MODELS], ids=lambda r: r.plural)
def test_the_strings_of_the_registry_point_into_their_rooms(registry: object) -> None:
    for name, entry in registry.built_in.items():  # type: ignore[attr-defined]
        module, _, target = entry.target.partition(":")
        assert module in MODULES, f"{name} points to {module}, which is not there"
        assert room_of(module) == registry.plural, name  # type: ignore[attr-defined]
        assert hasattr(import_module(module), target), name


def test_every_built_in_analysis_says_how_it_is_shown() -> None:
    for name, entry in ANALYSES.built_in.items():
        assert entry.load_presentation() is not None, name


def test_one_module_of_the_engine_knows_how_things_are_shown() -> None:
    engine = [module for module in MODULES if module.startswith("headscope.engine.")]
    loaded = {module: imports_of(MODULES[module].read_text(), module) for module in engine}
    shown = [m for m, own in loaded.items() if {room_of(o) for o in own} & {"view", "report"}]
    assert shown == ["headscope.engine.finish"]


def test_every_room_has_a_rank_and_every_rank_a_room() -> None:
    assert {room_of(m) for m in MODULES if m not in ("headscope", "headscope.analyses")} == {*RANKS}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import headscope.engine.plan", {"headscope.engine.plan"}),
        ("import headscope.engine.plan as p, os", {"headscope.engine.plan"}),
        ("from headscope.engine.plan import Pass", {"headscope.engine.plan"}),
        ("from headscope.engine import plan", {"headscope.engine", "headscope.engine.plan"}),
        ("from headscope import engine", {"headscope.engine"}),
        ("from headscope import engine as e, errors", {"headscope.engine", "headscope.errors"}),
        ("from headscope import analyze", {"headscope.engine.analyze"}),
        ("from headscope.analyses import gap", {"headscope.analyses", "headscope.analyses.gap"}),
        ("from headscope.analyses.gap import show", {"headscope.analyses.gap"}),
        (
            "def f():\n    from headscope.view import card",
            {"headscope.view", "headscope.view.card"},
        ),
        ("class A:\n    def f(self):\n        import headscope.view.card", {"headscope.view.card"}),
        ("if True:\n    import headscope.cli", {"headscope.cli"}),
        ("try:\n    import headscope.cli\nexcept ImportError:\n    pass", {"headscope.cli"}),
        ('import_module("headscope.runs.run")', {"headscope.runs.run"}),
        ('Entry("headscope.runs.run:Run", "")', {"headscope.runs.run"}),
        ("from . import other\nfrom ..runs import run", {"headscope.made", "headscope.runs"}),
        ("import os\nfrom pathlib import Path\nlog = getLogger('headscope')", set()),
        ('"""See headscope.runs.run."""', set()),
        ("if TYPE_CHECKING:\n    from headscope.cli import main", set()),
        ("if typing.TYPE_CHECKING:\n    import headscope.cli", set()),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import headscope.cli", {"headscope.cli"}),
    ],
)
def test_every_form_of_import_is_seen(source: str, expected: set[str]) -> None:
    found = imports_of(source)
    assert expected <= found if "runs import run" in source else found == expected


def test_what_points_up_is_seen_as_such() -> None:
    assert not may_import("data", room_of("headscope.view.card"))
    assert not may_import("view", room_of("headscope.analyses.position"))
    assert not may_import("runs", room_of("headscope.engine.plan"))
    assert not may_import("corpora", room_of("headscope.models.load"))
    assert may_import("commands", room_of("headscope.engine.analyze"))


def test_files_stay_small() -> None:
    sizes = {path: path.read_text().count("\n") for path in FILES}
    assert not {path: lines for path, lines in sizes.items() if lines > MOST_LINES}
