"""What a run over long inputs needs in memory and time, told before it starts."""

from logging import getLogger
from pathlib import Path
from time import perf_counter

import torch

from headscope.data.example import Example
from headscope.errors import StudyError
from headscope.models.anatomy import run
from headscope.models.loaded import LoadedModel
from headscope.models.tap import using_attention

__all__ = ["estimate_bytes", "estimate_seconds", "tell_needs"]

log = getLogger("headscope")

LONG = 1024  # tokens; what shorter inputs need is not worth a word
TIMED_TOKENS = 256
GB = 1e9
COPIES = 4  # of a slice's weights: scores, scaled, masked, softmax
WIDTHS = 8  # arrays of the hidden size that are alive in a layer


def tell_needs(source: object, n_tokens: int, slice_rows: int, n_rows: int) -> None:
    """Say what inputs of this length need, or that there is too little memory for them.

    `n_rows` are the query rows of all heads that are kept to be compared, 0 where none are.
    """
    if n_tokens <= LONG or not isinstance(source, LoadedModel):
        return
    n_bytes, free = estimate_bytes(source, n_tokens, slice_rows, n_rows), _free_bytes()
    if source.device.type == "cpu" and free is not None and n_bytes > free:
        raise StudyError(
            f"An input of {n_tokens} tokens needs about {n_bytes / GB:.1f} GB in addition to "
            f"{source.name}, but only {free / GB:.1f} GB are free. Expected enough memory; "
            "use a smaller --max-tokens, --slice-rows or --rows."
        )
    log.warning(
        "An input of %s tokens, the longest that is read, takes about %.0f s and %.1f GB in "
        "addition to the model.",
        f"{n_tokens:,}", estimate_seconds(source, n_tokens), n_bytes / GB,
    )  # fmt: skip


def estimate_bytes(source: LoadedModel, n_tokens: int, slice_rows: int, n_rows: int) -> float:
    """Memory for an input of so many tokens above that of the model, from the shapes."""
    config = source.model.config
    hidden = getattr(config, "hidden_size", 0)
    inner = getattr(config, "intermediate_size", 0) or 4 * hidden
    rows = min(slice_rows, n_tokens) if source.is_sliced else n_tokens
    maps = COPIES * source.n_heads * rows * n_tokens
    kept = min(n_rows, n_tokens) * source.n_layers * source.n_heads * n_tokens
    states = n_tokens * (WIDTHS * hidden + 3 * inner)
    return 4.0 * (maps + kept + states)


def estimate_seconds(source: LoadedModel, n_tokens: int) -> float:
    """Time for an input of so many tokens: that of a short one, by the number of products."""
    timed = min(TIMED_TOKENS, n_tokens)
    more = _count_products(source, n_tokens) / _count_products(source, timed)
    return _time_forward(source, timed) * more


def _count_products(source: LoadedModel, n_tokens: int) -> float:
    """Products of a forward pass: each token with the weights, and with all other tokens."""
    hidden = getattr(source.model.config, "hidden_size", 0)
    embedded = source.model.get_input_embeddings()
    n_looked_up = sum(weight.numel() for weight in embedded.parameters())
    n_weights = sum(weight.numel() for weight in source.model.parameters()) - n_looked_up
    return n_tokens * (n_weights + 2.0 * source.n_layers * hidden * n_tokens)


def _time_forward(source: LoadedModel, n_tokens: int) -> float:
    """Seconds of the model on a text of so many tokens, the second time."""
    example = Example("timed", text=" ".join(["one, two"] * n_tokens))
    inputs = source.batch(source.encode([example], n_tokens)).inputs
    start = perf_counter()

    def forward(model: torch.nn.Module, given: dict[str, object], show: object) -> None:
        nonlocal start
        with torch.inference_mode():
            model(**given)
            start = perf_counter()
            model(**given)

    with using_attention(source.model, "eager"):
        run(forward, source.model, inputs, lambda output: None)  # type: ignore[arg-type]
    return perf_counter() - start


def _free_bytes() -> float | None:
    path = Path("/proc/meminfo")
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return 1024.0 * int(sizes[0]) if sizes else None
