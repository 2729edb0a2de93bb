"""A run as one HTML page: its figures, tables, claims, examples and head cards."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headscope.data.attention import head_name
from headscope.errors import StudyError
from headscope.report.cards import Card, make_cards
from headscope.report.claims.check import check_claims
from headscope.report.claims.claim import Finding
from headscope.report.drawing import draw_sight
from headscope.report.page.scripts import as_script
from headscope.report.page.sections import build_sections
from headscope.runs.examples import Shown
from headscope.runs.files import write_atomically
from headscope.runs.results import Run

__all__ = ["render_report", "write_report"]

FILE = "report.html"
HALVES = frozenset({"heads-previous", "heads-next", "heads-sep", "heads-entropy"})  # side by side
VEGA = "window.vegaEmbed = vegaEmbed;"  # all that the page asks of it


def write_report(run: Run, path: str | Path | None = None) -> Path:
    """Write the page, by default into the run's folder, and say where."""
    if path is None and run.folder is None:
        raise StudyError(
            "This run has no folder to put its report in. Expected a path; give one, or run the "
            "analysis with out=..."
        )
    target = Path(path) if path is not None else Path(str(run.folder)) / FILE
    write_atomically(target, render_report(run).encode())
    return target


def render_report(run: Run) -> str:
    """The page as text: it holds all it needs, and loads nothing."""
    sections = build_sections(run.tables, run.manifest.get("left_out", {}))
    findings = check_claims(run.tables)
    cards = make_cards(run.tables)
    roles = list(_roles(run.examples))
    template = _environment().get_template("report.html.j2")
    nonce = token_urlsafe(16)
    text: str = template.render(
        nonce=nonce,
        version=version("headscope"),
        model=_short_name(run.manifest["model"]["name"]),
        lead=_lead(run),
        tiles=list(_tiles(run, findings, cards)),
        sections=[s for s in sections if s.id != "examples" or run.examples],
        findings=findings,
        drawn={figure.name for section in sections for figure in section.figures},
        halves=HALVES,
        roles=roles,
        cards=[_card_row(card) for card in cards],
        cards_json=as_script([_card_values(card, roles) for card in cards]),
        method=list(_method(run.manifest)),
        css=_asset("report.css"),
        js=_asset("report.js"),
        vega=_bundle_vega(),
    )
    return text


def _environment() -> Environment:
    """Everything is escaped but what is marked as markup of our own."""
    return Environment(
        loader=PackageLoader("headscope.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _bundle_vega() -> Markup:
    """The library that draws charts, in one script; it takes seconds to put together."""
    return Markup(vl_convert.javascript_bundle(VEGA).replace("</script", "<\\/script"))


def _asset(name: str) -> Markup:
    return Markup((Path(__file__).parent / "templates" / name).read_text())


def _short_name(name: str) -> str:
    """A model's name, or the folder's own where it is a path.

    >>> _short_name("/models/e5-small/")
    'e5-small'
    """
    is_path = name.startswith(("/", "./", "../")) or "\\" in name
    return Path(name.rstrip("/")).name if is_path else name


def _lead(run: Run) -> str:
    counts = run.manifest.get("counts", {})
    n_tokens = sum(of_pass["tokens"] for of_pass in counts.values())
    corpora = dict.fromkeys(one["corpus"] for one in run.manifest.get("passes", {}).values())
    read = f" on {', '.join(corpora)}" if corpora else ""
    weights = run.manifest["model"].get("weights", "attention")
    of = "attention" if weights == "attention" else "attention weighted by norms"
    return f"Every head's {of}, measured{read} ({n_tokens:,} tokens)."


def _tiles(
    run: Run, findings: Sequence[Finding], cards: Sequence[Card]
) -> Iterator[dict[str, str]]:
    if cards:
        n_layers = max(card.layer for card in cards)
        yield {"number": f"{n_layers} × {max(c.head for c in cards)}", "label": "layers × heads"}
    n_examples = sum(of_pass["used"] for of_pass in run.manifest.get("counts", {}).values())
    yield {"number": f"{n_examples:,}", "label": "examples"}
    measured = [finding for finding in findings if finding.verdict != "not measured"]
    n_holding = sum(finding.verdict == "holds" for finding in measured)
    yield {"number": f"{n_holding} of {len(measured)}", "label": "of the paper's claims hold"}


def _roles(examples: Sequence[Shown]) -> Iterator[dict[str, Any]]:
    """What heads are shown for, with their drawings."""
    groups = groupby(examples, key=lambda one: (one.role, one.sight.layer, one.sight.head))
    for place, ((title, layer, head), shown) in enumerate(groups, start=1):
        group = list(shown)
        is_of_words = any(one.sight.marked for one in group)  # then special tokens distract
        yield {
            "id": f"role-{place}",
            "title": title,
            "head": head_name(layer, head),
            "shown": [
                {
                    "end": one.end,
                    "says": one.says,
                    "example": one.sight.example,
                    "svg": Markup(draw_sight(one.sight, hide_special=is_of_words, title="").svg),
                }
                for one in group
            ],
        }


def _card_row(card: Card) -> dict[str, str]:
    """What the table of heads shows of a card, and the words by which it is found."""
    words = " ".join([card.title, card.gist, *(f"{f.topic} {f.text}" for f in card.facts)])
    return {"name": _name(card), "gist": card.gist, "words": words.lower()}


def _card_values(card: Card, roles: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All of a card, and where its head is drawn."""
    facts = [[fact.topic, fact.text] for fact in card.facts]
    drawn = [[role["title"], role["id"]] for role in roles if role["head"] == _name(card)]
    own = {"name": _name(card), "title": card.title, "gist": card.gist}
    return {**own, "facts": facts, "drawn": drawn}


def _name(card: Card) -> str:
    return head_name(card.layer - 1, card.head - 1)


def _method(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the manifest says, in words."""
    model = manifest["model"]
    yield "Model", f"{model['name']} (weights {str(model.get('digest', ''))[:12]})"
    for key, one in manifest.get("passes", {}).items():
        counts = manifest["counts"].get(key, {})
        skipped = sum(counts.get("skipped", {}).values())
        yield (
            f"Corpus ({key})",
            f"{one['corpus']}: {counts.get('used', 0)} examples of {one['available']}, "
            f"{counts.get('tokens', 0):,} tokens, {counts.get('truncated', 0)} cut, {skipped} "
            f"skipped; for {', '.join(one['analyses'])}",
        )
    for name, reason in manifest.get("left_out", {}).items():
        yield f"Left out ({name})", reason
    options = ", ".join(f"{name} {value}" for name, value in manifest.get("options", {}).items())
    yield "Options", options
    yield "Versions", ", ".join(f"{n} {v}" for n, v in manifest.get("versions", {}).items())
    yield "Started", str(manifest.get("started", ""))
