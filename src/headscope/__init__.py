"""headscope: what do a transformer's attention heads look at?

The public names load on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headscope.comparison.atlas import write_atlas as write_atlas
    from headscope.comparison.compare import compare as compare
    from headscope.comparison.match import match_models as match_models
    from headscope.comparison.series import compare_series as compare_series
    from headscope.contracts import Analysis as Analysis
    from headscope.contracts import Annotation as Annotation
    from headscope.contracts import Corpus as Corpus
    from headscope.contracts import CorpusRole as CorpusRole
    from headscope.contracts import Source as Source
    from headscope.contracts import Watch as Watch
    from headscope.corpora.opening import open_corpus as open_corpus
    from headscope.corpora.opening import texts as texts
    from headscope.data.attention import Changes as Changes
    from headscope.data.attention import Gradients as Gradients
    from headscope.data.attention import LayerAttention as LayerAttention
    from headscope.data.attention import LayerChange as LayerChange
    from headscope.data.attention import LayerGradient as LayerGradient
    from headscope.data.attention import Readings as Readings
    from headscope.data.example import Example as Example
    from headscope.data.example import Link as Link
    from headscope.data.example import Mention as Mention
    from headscope.data.example import Tree as Tree
    from headscope.data.reading import MAPS as MAPS
    from headscope.data.reading import SUMS as SUMS
    from headscope.data.reading import DerivedReading as DerivedReading
    from headscope.data.reading import Reading as Reading
    from headscope.data.reading import RowReading as RowReading
    from headscope.data.table import empty_tables as empty_tables
    from headscope.data.table import head_axes as head_axes
    from headscope.data.table import tidy_table as tidy_table
    from headscope.engine.analyze import analyze as analyze
    from headscope.engine.callback import HeadscopeCallback as HeadscopeCallback
    from headscope.engine.finish import redraw_map as redraw_map
    from headscope.engine.merge import merge_runs as merge_runs
    from headscope.engine.probe import probe as probe
    from headscope.errors import HeadscopeError as HeadscopeError
    from headscope.explore.show import show as show
    from headscope.explore.start import open_explorer as open_explorer
    from headscope.exports.formats import export as export
    from headscope.exports.hub import open as open
    from headscope.exports.hub import push as push
    from headscope.models.load import load_model as load_model
    from headscope.options import option as option
    from headscope.runs.run import Run as Run
    from headscope.runs.run import load_run as load_run
    from headscope.stats.estimates import Estimates as Estimates
    from headscope.stats.estimates import Number as Number
    from headscope.stats.sums import Sums as Sums
    from headscope.view.card import Card as Card
    from headscope.view.presentation import Presentation as Presentation

    __version__: str

_NAMES = {
    "comparison.atlas": ("write_atlas",),
    "comparison.compare": ("compare",),
    "comparison.series": ("compare_series",),
    "contracts": ("Analysis", "Annotation", "Corpus", "CorpusRole", "Source", "Watch"),
    "corpora.opening": ("open_corpus", "texts"),
    "data.attention": (
        *("Changes", "Gradients", "LayerAttention", "LayerChange", "LayerGradient", "Readings"),
    ),
    "data.example": ("Example", "Link", "Mention", "Tree"),
    "data.reading": ("MAPS", "SUMS", "DerivedReading", "Reading", "RowReading"),
    "data.table": ("empty_tables", "head_axes", "tidy_table"),
    "engine.analyze": ("analyze",),
    "engine.callback": ("HeadscopeCallback",),
    "engine.finish": ("redraw_map",),
    "comparison.match": ("match_models",),
    "engine.merge": ("merge_runs",),
    "engine.probe": ("probe",),
    "explore.show": ("show",),
    "explore.start": ("open_explorer",),
    "exports.formats": ("export",),
    "exports.hub": ("open", "push"),
    "errors": ("HeadscopeError",),
    "models.load": ("load_model",),
    "options": ("option",),
    "runs.run": ("Run", "load_run"),
    "stats.estimates": ("Estimates", "Number"),
    "stats.sums": ("Sums",),
    "view.card": ("Card",),
    "view.presentation": ("Presentation",),
}
_HOMES = {name: f"headscope.{home}" for home, names in _NAMES.items() for name in names}

__all__ = ["__version__", *_HOMES]


if not TYPE_CHECKING:  # to a type checker, a module with it would have any name at all

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version  # slow to import; few ask

            return version("headscope")
        if name not in _HOMES:
            raise AttributeError(f"module 'headscope' has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
