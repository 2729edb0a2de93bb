"""Which models are read from files."""

from typing import Any

import pytest
from transformers import PreTrainedModel


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The classes of the models that were read from files, in order."""
    names: list[str] = []
    own = PreTrainedModel.from_pretrained.__func__  # type: ignore[attr-defined]

    def load_and_note(kind: type[PreTrainedModel], *args: Any, **kwargs: Any) -> Any:
        names.append(kind.__name__)
        return own(kind, *args, **kwargs)

    monkeypatch.setattr(PreTrainedModel, "from_pretrained", classmethod(load_and_note))
    return names
