"""The library that draws charts is put together once, and kept where that can be."""

from pathlib import Path

import pytest

from headscope.view import page


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often the script was put together."""
    calls: list[str] = []

    def bundle(snippet: str) -> str:
        calls.append(snippet)
        return "draw('</script>');"

    monkeypatch.setattr(page.vl_convert, "javascript_bundle", bundle)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return calls


def bundle() -> str:
    return str(page._bundle_vega.__wrapped__())  # what is remembered within a process left aside


def test_it_is_made_once_and_then_read(tmp_path: Path, made: list[str]) -> None:
    first = bundle()
    assert bundle() == first
    assert len(made) == 1
    assert "</script" not in first
    (kept,) = (tmp_path / "cache/headscope").iterdir()
    kept.write_text(first[:10])  # cut off
    assert bundle() == first
    assert len(made) == 2


def test_without_a_place_to_keep_it_it_is_made_each_time(tmp_path: Path, made: list[str]) -> None:
    (tmp_path / "cache").write_text("a file where the folder would be")
    assert bundle() == bundle()
    assert len(made) == 2
