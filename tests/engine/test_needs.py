"""What long inputs need is told before any work."""

import pytest

import headscope
from headscope.engine import open_models as needs
from headscope.errors import StudyError
from headscope.models.loaded import wrap_model
from tests.models.tiny import FAMILIES, build_model, build_tokenizer


def small_model() -> object:
    return wrap_model(build_model("llama"), build_tokenizer(FAMILIES["llama"].tokenizer), "small")


def test_memory_grows_with_the_length_in_slices_and_with_its_square_in_whole_maps() -> None:
    source = small_model()
    needed = [needs.estimate_bytes(source, n, 128, 0) for n in (4096, 8192)]  # type: ignore[arg-type]
    assert needed[1] == pytest.approx(2 * needed[0])
    whole = [needs.estimate_bytes(source, n, n, 0) for n in (4096, 8192)]  # type: ignore[arg-type]
    assert whole[1] > 3 * whole[0]
    kept = needs.estimate_bytes(source, 4096, 128, 32)  # type: ignore[arg-type]
    assert kept > needed[0]


def test_the_time_of_a_longer_input_is_longer() -> None:
    source = small_model()
    short, long = (needs.estimate_seconds(source, n) for n in (256, 65536))  # type: ignore[arg-type]
    assert long > 10 * short > 0


def test_short_inputs_need_no_word(caplog: pytest.LogCaptureFixture) -> None:
    needs.tell_needs(small_model(), 512, 128, 32)
    assert not caplog.records


def test_too_little_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "_free_bytes", lambda: 1000.0)
    with pytest.raises(
        StudyError, match=r"An input of 2048 tokens needs about .* 0\.0 GB are free"
    ):
        needs.tell_needs(small_model(), 2048, 128, 0)


def test_a_slice_of_no_rows_is_refused() -> None:
    with pytest.raises(StudyError, match=r"slice_rows=0 cannot be used\. Expected at least 1"):
        headscope.analyze("demo", text=headscope.texts(["A text."]), slice_rows=0)
