"""The models of a page and what is asked of them; no more than one question at a time."""

from base64 import b64encode
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from headscope.contracts import AttentionSource
from headscope.data.attention import head_name, parse_head_name
from headscope.data.encoding import Encoding
from headscope.data.example import Example
from headscope.engine.head_views import make_view, refuse_absent_heads
from headscope.engine.open_models import Models
from headscope.errors import StudyError, first_part
from headscope.explore.change import MEAN_EXAMPLES, find_means, measure_change
from headscope.explore.kinds import ShownKind, name_part, split_pair, take_sides
from headscope.explore.maps import (
    KEPT_BYTES,
    PRECISION,
    Check,
    TextMaps,
    Thumbs,
    pack_roots,
    read_maps,
)
from headscope.explore.run_facts import describe_run
from headscope.explore.spread import Spreads
from headscope.explore.texts import ExampleList, describe_tokens, encode_text, refuse_empty
from headscope.models.language import find_objective
from headscope.models.loaded import WEIGHTS, LoadedModel
from headscope.runs.run import Run
from headscope.view.drawing import draw_head
from headscope.view.drawing_page import LONG_TEXT, draw_page
from headscope.view.svg import Drawing

__all__ = ["Session", "describe_model", "thumbs_values"]

Request = Mapping[str, Any]  # what the page asks, as it was sent


@dataclass
class Session:
    """Models, the examples that can be chosen, and the run they are shown with."""

    models: Sequence[Models]
    listed: ExampleList
    run: Run | None = None
    start: Mapping[str, str] = field(default_factory=dict)  # what the page shows first
    texts: Sequence[str] = ()  # those of a page without a server
    granted: Collection[str] = ()  # the paths of the run's corpora that may be read
    _maps: OrderedDict[tuple[Any, ...], tuple[TextMaps, int]] = field(default_factory=OrderedDict)
    _means: dict[int, Tensor] = field(default_factory=dict)
    _spreads: Spreads | None = None

    def boot(self) -> dict[str, Any]:
        """What the page knows from the start."""
        return {
            "isLive": True,
            "models": [describe_model(models) for models in self.models],
            "listed": self.listed.list(),
            "runs": self._runs,
            "start": dict(self.start),
            "meanOf": f"{MEAN_EXAMPLES} examples of {self._mean_corpus or 'nothing'}",
        }

    @cached_property
    def _runs(self) -> list[dict[str, Any] | None]:
        """What the run knows of each model: built once for all its pages."""
        return [self._describe_run(models) for models in self.models]

    def _describe_run(self, models: Models) -> dict[str, Any] | None:
        """What the run knows of a model: of the first one, and of its kinds of attention."""
        source = models.source
        if self.run is None or not (models is self.models[0] or isinstance(source, ShownKind)):
            return None
        return describe_run(self.run, source.kind if isinstance(source, ShownKind) else None)

    def look(self, request: Request, check: Check) -> dict[str, Any]:
        """The tokens of a text, and small maps of every head."""
        maps, n_whole = self._read_maps(request, check)
        return {
            **describe_tokens(maps.encoding, n_whole),
            **thumbs_values(maps.thumbs),
            "precision": PRECISION,
            "keepsAll": maps.keeps_all,
        }

    def map(self, request: Request, check: Check) -> bytes:
        """One head's map in full."""
        maps, _ = self._read_maps(request, check)
        return pack_roots(maps.weights(*_read_heads([request.get("head")])[0], check))

    def change(self, request: Request, check: Check) -> dict[str, Any]:
        """What changes when heads are switched off."""
        number = self._model_number(request)
        models, mode = self.models[number], str(request.get("mode"))
        encoding, _ = encode_text(models.source, self._example(request))
        heads = _read_heads(request.get("heads"))
        if not heads:
            raise StudyError("No head was chosen. Expected at least one; click a head first.")
        means = self._mean_outputs(number) if mode == "mean" else None
        return measure_change(models, encoding, heads, mode, request.get("place"), means, check)

    def spread(self, request: Request, check: Check) -> dict[str, Any]:
        """One head over the run's corpora, for a role that it was ranked by."""
        if self.run is None:
            raise StudyError("No run is open. Expected --run RUN; start the page with it.")
        if self._spreads is None:
            self._spreads = Spreads(self.run, self.models[0].source, self.granted)
        (place,) = _read_heads([request.get("head")])
        refuse_absent_heads(self.models[0].source, [place])
        return self._spreads.show(place, str(request.get("role", "")), check)

    def draw(self) -> Drawing:
        """The head that the page shows first, or the model's first, as a picture."""
        source = self.models[0].source
        name = self.start.get("heads", head_name(source.layer_numbers[0], 0))
        maps, _ = self._read_maps({**self.start, "head": name}, lambda: None)
        (head,) = _read_heads([name])
        view = make_view(maps.encoding, head, maps.weights(*head).double().numpy(), False, ())
        title = f"{describe_model(self.models[0])['name']}, head {name}"
        is_long = len(view.units) > LONG_TEXT
        return draw_page(view, title=title) if is_long else draw_head(view, title=title)

    @property
    def _mean_corpus(self) -> str:
        return self.listed.corpora[0].title if self.listed.corpora else ""

    def can_read(self, request: Request) -> bool:
        """Whether the model reads such a text: a decoder only one with a target."""
        is_kind = isinstance(self.models[self._model_number(request)].source, ShownKind)
        return not is_kind or self._whole_example(request).text_pair is not None

    def encode(self, request: Request) -> tuple[AttentionSource, Encoding, int]:
        """The model and the tokens that a request is about."""
        source = self.models[self._model_number(request)].source
        return source, *encode_text(source, self._example(request))

    def _read_maps(self, request: Request, check: Check) -> tuple[TextMaps, int]:
        number, weights = self._model_number(request), request.get("weights", WEIGHTS[0])
        example = self._example(request)
        key = (number, weights, example.id, example.text_pair, example.text)
        if key not in self._maps:
            source = self._with_weights(self.models[number].source, weights)
            encoding, n_whole = encode_text(source, example)
            head = parse_head_name(str(request.get("head", "")))
            self._maps[key] = read_maps(source, encoding, check, head[0] if head else 0), n_whole
        self._maps.move_to_end(key)
        while len(self._maps) > 1 and self._n_bytes > KEPT_BYTES:
            self._maps.popitem(last=False)  # the one that was asked for longest ago
        return self._maps[key]

    @property
    def _n_bytes(self) -> int:
        return sum(maps.n_bytes for maps, _ in self._maps.values())

    def _model_number(self, request: Request) -> int:
        number = request.get("model", 0)
        if not (isinstance(number, int) and 0 <= number < len(self.models)):
            raise StudyError(
                f"There is no model {number!r}. Expected 0 to {len(self.models) - 1}; choose one."
            )
        return number

    def _example(self, request: Request) -> Example:
        models = self.models[self._model_number(request)]
        return take_sides(models, self._whole_example(request))

    def _whole_example(self, request: Request) -> Example:
        """The example with its target, if it has one."""
        if request.get("id"):
            found = self._spreads.found if self._spreads else {}
            id = str(request["id"])
            return found[id] if id in found else self.listed.find(id)
        text = refuse_empty(str(request.get("text", "")))
        if not name_part(self.models[self._model_number(request)]):
            return Example("the text", text=text)
        source, target = split_pair(text)
        return Example("the text", text=refuse_empty(source), text_pair=target)

    def _with_weights(self, source: AttentionSource, weights: str) -> AttentionSource:
        if weights == WEIGHTS[0]:
            return source
        if not isinstance(source, LoadedModel):
            raise StudyError(
                f"No norms are known of this attention of {source.name}. Expected attention; "
                "choose it."
            )
        return replace(source, weights=weights)

    def _mean_outputs(self, number: int) -> Float[Tensor, "layer head part"]:
        if number not in self._means:
            source = self.models[number].source
            examples = self.listed.corpora[0].examples.values() if self.listed.corpora else ()
            if not isinstance(source, LoadedModel) or not examples:
                raise StudyError(
                    "There is no corpus to compute mean outputs from. Expected --run "
                    "RUN; choose zero or sink instead."
                )
            self._means[number] = find_means(source, examples)
        return self._means[number]


def describe_model(models: Models) -> dict[str, Any]:
    """What the page is told of a model."""
    source, head = models.source, models.with_head
    return {
        "name": Path(source.name).name if "/" in source.name else source.name,
        "path": source.name,
        "layers": [number + 1 for number in source.layer_numbers],
        "heads": source.n_heads,
        "part": name_part(models),
        "objective": find_objective(type(head.model).__name__) if head else None,
        "whyNoHead": first_part(models.why_no_head),
    }


def thumbs_values(thumbs: Thumbs) -> dict[str, Any]:
    """Small maps as the page reads them."""
    return {"thumbSize": thumbs.size, "thumbs": b64encode(thumbs.roots.tobytes()).decode()}


def _read_heads(names: Any) -> list[tuple[int, int]]:
    found = [parse_head_name(str(name)) for name in names] if isinstance(names, list) else []
    heads = [place for place in found if place is not None]
    if len(heads) != len(found):
        raise StudyError(
            f"Heads {names!r:.80} cannot be read. Expected names such as {head_name(7, 9)}; write "
            "them so."
        )
    return heads
