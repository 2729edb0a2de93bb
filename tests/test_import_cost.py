"""Starting is quick: no torch, pandas or NumPy before there is work to do."""

import subprocess
import sys

import pytest

HEAVY = {"torch", "transformers", "pandas", "numpy", "pyarrow", "altair"}


def loaded_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split()) & HEAVY


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("import headscope; headscope.__version__; dir(headscope)") == set()


def test_analyses_are_named_judged_and_told_without_torch_or_a_chart_library() -> None:
    script = """
import sys
from headscope.registry import load_presentations
import headscope.view.answer, headscope.view.card, headscope.view.claim, headscope.view.terminal
assert len(load_presentations()) > 10
print({"altair", "torch", "numba"} & sys.modules.keys())"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def run(arguments: str) -> str:
    return f"""
from headscope.cli import main
sys.argv = ["headscope", *{arguments.split()!r}]
try:
    main()
except SystemExit:
    pass
"""


# `analyze` and `distance` ask the analyses, which measure with torch, for their options.
@pytest.mark.parametrize(
    "arguments",
    ["", "--help", "--version", "list models", "list analyses"]
    + [
        f"{command} --help"
        for command in (
            *("show", "explore", "probe", "report", "card", "table", "merge", "export", "push"),
        )
    ],
)
def test_help_and_lists_load_nothing_heavy(arguments: str) -> None:
    assert loaded_by(run(arguments)) == set()


def test_the_help_of_analyze_loads_no_model_library() -> None:
    assert "transformers" not in loaded_by(run("analyze --help"))


def test_a_run_without_a_page_loads_no_charts() -> None:
    script = """
import headscope
texts = headscope.texts(["The boat sails home.", "The sea is wide."])
assert headscope.analyze("demo", text=texts, progress=False).tables"""
    assert "altair" not in loaded_by(script)


def test_the_end_of_a_command_frees_what_libraries_made() -> None:
    script = f"import gc, sys\n{run('--version')}\nprint(gc.get_freeze_count())"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) == 0  # nanobind calls frozen objects leaks


def test_the_package_itself_runs_as_the_command() -> None:
    command = [sys.executable, "-m", "headscope", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("headscope ")


@pytest.mark.parametrize(
    "arguments",
    [
        "analyze demo --text nosuch.txt",
        "analyze demo --text README.md --only nosuch",
        "analyze demo --text starter --max-tokens 2",
        "probe demo --train nosuch.conllu --test starter",
    ],
)
def test_a_wrong_name_or_option_is_refused_before_torch_is_loaded(arguments: str) -> None:
    script = f"import sys; sys.modules['torch'] = None{run(arguments)}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stderr.startswith("Error: ")
