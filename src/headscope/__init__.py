"""headscope: what do a transformer's attention heads look at?

The public names load on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "Example": "headscope.data.example",
    "HeadscopeError": "headscope.errors",
    "LayerAttention": "headscope.data.attention",
    "Run": "headscope.runs.results",
    "Tally": "headscope.data.tally",
    "analyze": "headscope.runs.analyze",
    "load_model": "headscope.models.load",
    "load_run": "headscope.runs.results",
    "match_models": "headscope.runs.match",
    "merge_runs": "headscope.runs.merge",
    "open_corpus": "headscope.corpora.opening",
    "probe": "headscope.runs.probe",
    "show": "headscope.report.showing",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # slow to import; few ask

        return version("headscope")
    if name not in _HOMES:
        raise AttributeError(f"module 'headscope' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
