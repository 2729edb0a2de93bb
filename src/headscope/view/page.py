"""A run as one HTML page: its figures, tables, claims, examples and head cards."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from itertools import groupby
from math import isnan
from pathlib import Path
from secrets import token_urlsafe
from shlex import quote
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from headscope.contracts import AttentionKind
from headscope.data.attention import head_name
from headscope.data.head_view import SHEET, ShownExample
from headscope.data.table import Tables, split_kinds
from headscope.errors import WriteError
from headscope.files import write_atomically
from headscope.view.answer import answer_run
from headscope.view.behaviour import find_labelled
from headscope.view.card import Card, cards_of_kind, join_cards
from headscope.view.claim import Finding, added_claims, count_claims, count_verdicts, sum_up
from headscope.view.drawing import draw_head
from headscope.view.facts import Part
from headscope.view.glossary import GLOSSARY, READING
from headscope.view.overview import GROUNDS, STRENGTHS, Overview, make_overview, paint
from headscope.view.presentation import PAIR
from headscope.view.sections import as_script, fill_sections
from headscope.view.sheet import SHEETS, draw_sheets
from headscope.view.table import Format, render
from headscope.view.terminal import (
    describe_counts,
    describe_tokenization,
    doubt_languages,
    warn_of_few_documents,
)

__all__ = ["render_report", "write_report"]

Manifest = Mapping[str, Any]
LEAST_ROW, MOST_ROW, PICTURE_HEIGHT = 6, 27, 400  # pixels
VEGA = "window.vegaEmbed = vegaEmbed;"  # all that the page asks of it
INTERVAL = re.compile(r"\[[-+\d., to%]+\]")
END = "\n/* end of Vega */"  # a kept file that was cut off lacks it


def write_report(
    path: Path,
    tables: Tables,
    manifest: Manifest,
    examples: Sequence[ShownExample],
    findings: Sequence[Finding],
) -> None:
    """Write the page of a run."""
    write_atomically(path, render_report(tables, manifest, examples, findings).encode())


def render_report(
    tables: Tables,
    manifest: Manifest,
    examples: Sequence[ShownExample],
    findings: Sequence[Finding],
) -> str:
    """The page as text: it holds all it needs, and loads nothing."""
    sections = fill_sections(tables, manifest.get("left_out", {}))
    is_pair = sections[0].section == PAIR
    findings = [] if is_pair else findings
    kinds = split_kinds(tables)
    labelled = {kind: find_labelled(part) for kind, part in kinds.items()}
    by_kind = {kind: cards_of_kind(part, labelled[kind]) for kind, part in kinds.items()}
    cards = join_cards(by_kind)
    notable = list(_notable_heads(examples))
    overview = make_overview(
        {kind: of_kind for kind, of_kind in by_kind.items() if any(map(len, labelled[kind]))}, kinds
    )
    drawn = [figure.name for section in sections for figure, _ in section.figures]
    counts = manifest.get("counts", {}).values()
    environment = Environment(
        loader=PackageLoader("headscope.view"),
        autoescape=True,  # everything but what is marked as markup of our own
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole"] = _keep_whole
    environment.filters["paper"] = lambda table, format: render(table.for_paper(), Format(format))
    return environment.get_template("report.html.j2").render(
        nonce=token_urlsafe(16),
        version=version("headscope"),
        title=_title(manifest["model"], is_pair),
        model_path=quote(manifest["model"]["name"]),
        lead=_lead(manifest),
        doubts=doubt_languages(manifest),
        tiles=list(_tiles(manifest, findings, cards)),
        sections=[s for s in sections if s.section.id != "examples" or examples],
        claims=count_claims(findings),
        claims_in_short=sum_up(findings) if findings else "",
        reading=READING,
        glossary=GLOSSARY,
        drawn=drawn,
        first_figure=next(iter(drawn), ""),
        answers=answer_run(tables, manifest),
        has_intervals=any(c.get("buckets", c.get("documents", 2)) > 1 for c in counts),
        overview=overview,
        paints=list(_paints(overview)),
        look_index={line.kind.name: n for n, line in enumerate(overview.looks, start=1)},
        find_index={line.kind.name: n for n, line in enumerate(overview.finds, start=1)},
        # pixels a layer, with which the picture fits on the first screen
        row_height=max(LEAST_ROW, min(MOST_ROW, PICTURE_HEIGHT // max(overview.n_layers, 1))),
        notable=notable,
        sheets=[(SHEETS[n], Markup(d.svg)) for n, d in draw_sheets(examples).items()],
        cards=[{"name": c.name, "summary": c.summary, "is_known": bool(c.words)} for c in cards],
        cards_json=as_script([_card_values(card, notable) for card in cards]),
        method=list(_method(manifest)),
        css=_asset("report.css"),
        charts_js=_asset("charts.js"),
        js=_asset("report.js"),
        vega=_bundle_vega(),
    )


def _paints(overview: Overview) -> Iterator[dict[str, Any]]:
    """The colours of the picture of all heads: of each kind at each strength, on both pages."""
    for mode, lines in (("look", overview.looks), ("find", overview.finds)):
        for number, line in enumerate(lines, start=1):
            for strength in range(1, len(STRENGTHS) + 1):
                if mode == "look" or strength == len(STRENGTHS):
                    name = f"{mode}-{number}" + f".of-{strength}" * (mode == "look")
                    themes = {theme: paint(line.kind, strength, theme) for theme in GROUNDS}
                    yield {"mode": mode, "name": name, **themes}


@cache
def _bundle_vega() -> Markup:
    """The library that draws charts, in one script.

    It takes seconds to put together, so it is kept in the user's cache folder, if there is one.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    made_by = f"{version('vl-convert-python')} {VEGA}"
    kept = Path(home) / "headscope" / f"vega-{sha256(made_by.encode()).hexdigest()[:16]}.js"
    with suppress(OSError, UnicodeDecodeError):
        if (text := kept.read_text("utf-8")).endswith(END):
            return Markup(text)
    text = vl_convert.javascript_bundle(VEGA).replace("</script", "<\\/script") + END
    with suppress(WriteError):
        write_atomically(kept, text.encode())
    return Markup(text)


def _keep_whole(text: str) -> Markup:
    """The text with intervals, and numbers with their unit, that no line breaks."""
    marked = INTERVAL.sub(r'<span class="whole">\g<0></span>', str(escape(text)))
    return Markup(marked.replace(" %", "&nbsp;%"))


def _asset(name: str) -> Markup:
    return Markup((Path(__file__).parent / "templates" / name).read_text())


def _short_name(name: str) -> str:
    """A model's name, or the folder's own where it is a path.

    >>> _short_name("/models/e5-small/"), _short_name("models/SmolLM2.gguf")
    ('e5-small', 'SmolLM2')
    """
    kind, colon, path = name.rpartition(":")  # random-init:MODEL
    is_path = path.startswith(("/", "./", "../")) or "\\" in path or path.endswith(".gguf")
    last = Path(path.rstrip("/")).name.removesuffix(".gguf")
    return f"{kind}{colon}{last}" if is_path else name


def _title(model: Mapping[str, Any], is_pair: bool) -> str:
    """The question that the page answers."""
    if not is_pair:
        return f"What does {_short_name(model['name'])} look at?"
    first, second = (_short_name(model[order]["name"]) for order in ("first", "second"))
    return f"Do the heads of {first} and {second} attend alike?"


def _lead(manifest: Manifest) -> str:
    corpora = dict.fromkeys(pass_["corpus"] for pass_ in manifest.get("passes", {}).values())
    read = f" on {', '.join(corpora)}" if corpora else ""
    is_plain = manifest["model"].get("weights", "attention") == "attention"
    of = "attention" if is_plain else "attention weighted by norms"
    return f"Every head's {of}, measured{read}."


def _tiles(
    manifest: Manifest, findings: Sequence[Finding], cards: Sequence[Card]
) -> Iterator[dict[str, str]]:
    if cards:
        n_layers = len({card.layer for card in cards})
        yield {"number": f"{n_layers} × {max(c.head for c in cards)}", "label": "layers × heads"}
    n_tokens: dict[Any, int] = {}  # of each corpus once, of the pass that read most
    for key, counts in manifest.get("counts", {}).items():
        pass_ = manifest.get("passes", {}).get(key, {})
        corpus = pass_.get("role", ""), pass_.get("digest", key)
        n_tokens[corpus] = max(counts["tokens"], n_tokens.get(corpus, 0))
    yield {"number": f"{sum(n_tokens.values()):,}", "label": "tokens"}
    if not findings:
        return
    added = added_claims()
    of_paper = [finding for finding in findings if finding.claim.name not in added]
    first, _, rest = count_verdicts(finding.verdict for finding in of_paper).partition(", ")
    number, _, hold = first.rpartition(" ")
    n_holding = sum(finding.verdict == "holds" for finding in of_paper)
    yield {"number": number, "label": f"of the paper's claims {hold}; {rest}"}
    if any(finding.untrained for finding in of_paper):
        n_untrained = sum(bool(finding.note) for finding in of_paper)
        label = f"of these {'holds' if n_untrained == 1 else 'hold'} untrained too"
        yield {"number": f"{n_untrained} of {n_holding}", "label": label}


def _notable_heads(examples: Sequence[ShownExample]) -> Iterator[dict[str, Any]]:
    """What heads are shown for, with their drawings."""
    groups = groupby(
        [example for example in examples if example.end != SHEET],
        key=lambda example: (example.title, example.view.kind, *example.view.place),
    )
    for number, ((title, kind, *place), group) in enumerate(groups, start=1):
        shown, name = list(group), head_name(*place)
        is_of_words = any(example.view.marked for example in shown)  # then special tokens distract
        yield {
            "id": f"notable-{number}",
            "title": title,
            "kind": kind,
            "head": name,
            "explore": f"--head {name} --sentence {quote(shown[0].view.example)}"
            if kind in ("", AttentionKind.ENCODER)
            else "",  # it shows encoders
            "shown": [
                {
                    "end": example.end,
                    "says": example.says,
                    "example": example.view.example,
                    "svg": Markup(draw_head(example.view, hide_special=is_of_words, title="").svg),
                }
                for example in shown
            ],
        }


def _card_values(card: Card, notable: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All of a card, and where its head is drawn."""
    facts = [
        [fact.topic, [_part_values(part) for part in fact.parts] or fact.text]
        for fact in card.facts
    ]
    drawn = [
        [f"{shown['title']} ({shown['kind']})" if shown["kind"] else shown["title"], shown["id"]]
        for shown in notable
        if shown["head"] == card.name
    ]
    summary = f"{card.summary[:1].upper()}{card.summary[1:]}."
    words = f"{card.name} {card.words}"
    return {"name": card.name, "summary": summary, "facts": facts, "drawn": drawn, "words": words}


def _part_values(part: Part) -> list[Any]:
    """A number of a card, as the page draws it; without what it has not at the end."""
    bar, mark = (None if isnan(value) else round(value, 3) for value in (part.bar, part.mark))
    values = [part.label, part.value, bar, mark, part.rank, part.n_heads, part.note, part.head]
    while not values[-1]:
        values.pop()
    return values


def _method(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """What the manifest says, in words."""
    model = manifest["model"]
    yield "Model", f"{model['name']} (weights {str(model.get('digest', ''))[:12]})"
    for key, read in manifest.get("passes", {}).items():
        counts = manifest["counts"].get(key)
        if read.get("repeats") is None and counts is not None:
            analyses = f"For {', '.join(read['analyses'])}."
            corpus = f"{read['corpus']}: {describe_counts(counts, read)}. {analyses}"
            yield f"Corpus ({key})", corpus
            if line := describe_tokenization(counts):
                yield f"Tokens ({key})", line
    for note in warn_of_few_documents(manifest):
        yield "Intervals", note
    for name, reason in manifest.get("left_out", {}).items():
        yield f"Left out ({name})", reason
    options = manifest.get("options", {})
    is_set = {name: value for name, value in options.items() if value not in (None, False)}
    yield "Options", ", ".join(f"{name} {value}" for name, value in is_set.items())
    versions = manifest.get("versions", {})
    yield "Versions", ", ".join(f"{name} {value}" for name, value in versions.items())
    yield "Started", str(manifest.get("started", "")).replace("T", " ").replace("+00:00", " UTC")
