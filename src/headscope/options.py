"""Options as fields of dataclasses: Python, the command line and `--help` are derived from them.

A field made with `option` is an option; its help text says what it does. Several dataclasses may
share an option: it then has the same meaning and default in all of them.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from numbers import Integral
from types import NoneType
from typing import Annotated, Any, get_args, get_type_hints

from headscope.arguments import checked, fits, flag_of, require_type
from headscope.errors import StudyError, shorten, suggest

__all__ = [
    "ClusterOptions", "ModelOptions", "Option", "ProbeOptions", "RunOptions", "ShowOptions",
    "build_options", "collect_options", "command_parameters", "flag_of", "option", "refuse_unknown",
    "require",
]  # fmt: skip

LEAST_TOKENS = 8
BLOCK_SENTENCES = 20  # neighbours that stand for a document where documents are unknown
WEIGHED = ("documents", "segments")
MOST_DRAWS = 1000  # untrained models: each is a run of its own
CUTS = ("split", "truncate", "both")
MEMORY = r"\d+(\.\d+)?\s*[KMGT]?i?B"  # as accelerate reads it
QUERY_PIECES = ("mean", "first")
VIEWS, PIECES = ("auto", "lines", "matrix", "text"), ("joined", "marked")
QUERY_PIECES_HELP = "Which pieces of a split word attend for it: mean (of all) or first."


@checked
def option(
    default: Any,
    help: str,
    *,
    flag: str | None = None,
    parse: Callable[[Any], Any] | None = None,
    repeat: bool = False,
    shown_default: str | None = None,
    changes_numbers: bool = True,
) -> Any:
    """A field that is an option.

    `parse` turns the string from the command line (with `repeat`, a list of strings) into the
    field's value; values of other types are not parsed. `changes_numbers=False` marks options that
    only affect speed or memory.
    """
    metadata = {
        "help": help,
        "flag": flag,
        "parse": parse,
        "repeat": repeat,
        "shown_default": shown_default,
        "changes_numbers": changes_numbers,
    }
    if isinstance(default, (dict, list, set)):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Option:
    """An option as a dataclass declares it."""

    name: str
    type: Any
    default: Any
    help: str
    flag: str  # --its-name, or the one it was given
    parse: Callable[[Any], Any] | None
    repeat: bool
    shown_default: str | None
    changes_numbers: bool

    def read(self, value: Any) -> Any:
        """The field's value for what a user gave."""
        if self.parse and fits(value, list[str] if self.repeat else str):
            return self.parse(value)
        if type(value).__module__ == "torch":  # a device or dtype
            value = str(value).removeprefix("torch.")
        require_type(self.name, value, self.type)
        if isinstance(value, str):
            is_whole = value == value.encode(errors="replace").decode()
            require(is_whole and "\0" not in value, self.name, shorten(value), "plain text")
        is_number = isinstance(value, Integral) and not isinstance(value, bool)
        return int(value) if is_number else value  # NumPy has integers of its own


def collect_options(*kinds: type) -> dict[str, Option]:
    """The options that these dataclasses declare, by name; a shared one once."""
    options: dict[str, Option] = {}
    for kind in kinds:
        types = get_type_hints(kind)
        for field_ in fields(kind):
            if "help" not in field_.metadata:
                continue
            default = field_.default
            if field_.default_factory is not MISSING:
                default = field_.default_factory()
            told = {**field_.metadata, "flag": field_.metadata["flag"] or flag_of(field_.name)}
            new = Option(field_.name, types[field_.name], default, **told)
            old = options.setdefault(field_.name, new)
            if (old.default, old.flag) != (new.default, new.flag):
                raise StudyError(
                    f"Option {new.flag} is declared twice in different ways, the second time by "
                    f"{kind.__name__}. Expected the same flag and default; rename one of them."
                )
    return options


def build_options(kind: type, given: Mapping[str, Any]) -> Any:
    """The dataclass with what was given of its options."""
    known = collect_options(kind)
    return kind(**{name: known[name].read(value) for name, value in given.items() if name in known})


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """An error for a parameter that is no option."""
    known = list(known)
    for name in given:
        if name not in known:
            raise StudyError(
                f"No option {shorten(name)!r}.{suggest(name, known)} Known: "
                f"{', '.join(sorted(known))}."
            )


def command_parameters(
    options: Iterable[Option], panel: str, shown_names: Collection[str] | None = None
) -> list[inspect.Parameter]:
    """The options as parameters of a command; one that is not given is None, and so left out.

    Help hides those that are not among `shown_names`, if these are given.
    """
    import typer  # only the command line needs it

    parameters = []
    for option in options:
        kind: Any = option.type if option.parse is None else list[str] if option.repeat else str
        is_switch, shown = kind is bool, option.shown_default
        is_empty = option.default is None or option.default in ((), "", [], {})
        if shown is None and not is_switch and not is_empty:
            shown = str(option.default)
        flag = option.flag
        if is_switch and option.default:
            flag = f"{flag}/{flag.replace('--', '--no-', 1)}"
        told = typer.Option(
            flag,
            help=option.help,
            show_default=shown or False,
            rich_help_panel=panel,
            hidden=shown_names is not None and option.name not in shown_names,
        )
        optional: Any = kind if NoneType in get_args(kind) else kind | None
        parameters.append(
            inspect.Parameter(
                option.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[optional, told],
            )
        )
    return parameters


def _read_memory(text: str) -> dict[str, str]:
    """The memory of each device.

    >>> _read_memory("0=20GB, cpu=60GB")
    {'0': '20GB', 'cpu': '60GB'}
    """
    sizes = dict(part.strip().split("=", 1) for part in text.split(",") if "=" in part)
    is_read = len(sizes) == len(text.split(","))
    is_read = is_read and all(re.fullmatch(MEMORY, size) for size in sizes.values())
    require(is_read, "max_memory", text, "DEVICE=SIZE,..., such as 0=20GB,cpu=60GB")
    return sizes


@dataclass(frozen=True)
class ModelOptions:
    """How a model is loaded."""

    revision: str | None = option(None, "Branch, tag or commit on the hub.")
    device: str = option("auto", "auto, cpu, cuda, cuda:1, mps.")
    dtype: str = option(
        "auto", "float32, float16, bfloat16, or auto: the checkpoint's own, float32 on a CPU."
    )
    device_map: str | None = option(
        None, "auto: spread the model over all devices, then memory, then disk (extra 'big')."
    )
    max_memory: dict[str, str] = option(
        {}, "With --device-map: memory to use, e.g. 0=20GB,cpu=60GB.", parse=_read_memory
    )
    trust_remote_code: bool = option(False, "Run code that comes with the model.")


@dataclass(frozen=True)
class RunOptions:
    """How a study is run."""

    limit: int | None = option(None, "At most N random examples of each corpus.")
    limit_text: int | None = option(None, "At most N examples of --text.", shown_default="--limit")
    limit_treebank: int | None = option(
        None, "At most N sentences of --treebank.", shown_default="--limit"
    )
    limit_coref: int | None = option(
        None, "At most N documents of --coref.", shown_default="--limit"
    )
    max_tokens: int | None = option(
        None, "Maximum tokens per input.", shown_default="128; --coref also 512"
    )
    paper_segments: bool = option(
        False, "Cut long texts off at the token limit, as the paper did, instead of reading on."
    )
    coref_window: str = option(
        CUTS[0], "Documents: split into windows, truncate to one (as in the paper), or both."
    )
    block_sentences: int = option(
        BLOCK_SENTENCES, "Sentences in a block, where a treebank does not say its documents."
    )
    weigh: str = option(
        WEIGHED[0], "Means over text: count documents equally, or segments (long ones weigh more)."
    )
    weights: str = option("attention", "attention, or norm (norm-weighted, Kobayashi et al.).")
    null: int = option(0, "Also measure N untrained models, to compare.")
    seed: int = option(0, "Seed of all random choices.")
    skip_bad: bool = option(
        False, "Leave out unreadable files of a folder, and bad sentences of a treebank."
    )
    examples: bool = option(True, "Show notable heads on their best and worst examples.")
    batch_tokens: int = option(2048, "Maximum tokens in a batch.", changes_numbers=False)
    slice_rows: int = option(
        128,
        "Query rows measured at a time (on a GPU at least); more memory, same numbers.",
        changes_numbers=False,
    )
    shard_examples: int = option(
        1024, "Save the sums after every N examples.", changes_numbers=False
    )
    shard: str | None = option(
        None,
        "Measure one part of the run, e.g. 3/64; `headscope merge` joins all parts.",
        changes_numbers=False,
    )

    def is_truncated(self, role: str) -> bool:
        """Whether of a long example of this role only the first window is read."""
        return self.paper_segments if role == "text" else self.coref_window == "truncate"

    def limit_of(self, role: str) -> tuple[int | None, str]:
        """The most examples of a corpus of this role, and the option that says so."""
        name = f"limit_{role}"
        limit: int | None = getattr(self, name, None)
        return (self.limit, "limit") if limit is None else (limit, name)

    def __post_init__(self) -> None:
        limits = [name for name in vars(self) if name.startswith("limit")]
        counts = ("block_sentences", "batch_tokens", "slice_rows", "shard_examples")
        _require_positive(self, *limits, *counts)
        require(self.weigh in WEIGHED, "weigh", self.weigh, " or ".join(WEIGHED))
        require(0 <= self.seed < 2**63, "seed", self.seed, "between 0 and 2^63")
        is_known, known = self.coref_window in CUTS, f"{', '.join(CUTS[:-1])} or {CUTS[-1]}"
        require(is_known, "coref_window", self.coref_window, known)
        require(0 <= self.null <= MOST_DRAWS, "null", self.null, f"0 to {MOST_DRAWS}")
        is_enough = self.max_tokens is None or self.max_tokens >= LEAST_TOKENS
        require(is_enough, "max_tokens", self.max_tokens, f"at least {LEAST_TOKENS}")


@dataclass(frozen=True)
class ClusterOptions:
    """Which machines do the work."""

    ray: str | None = option(
        None, "Run on a Ray cluster: auto (a running one), ADDRESS, or local (this machine)."
    )
    workers: int | None = option(
        None, "Number of workers; each loads the model.", shown_default="as many as fit"
    )
    cpus_per_worker: int = option(1, "CPUs (and threads) per worker.")
    gpus_per_worker: float | None = option(
        None, "GPUs per worker; may be a fraction.", shown_default="1 if available"
    )

    def __post_init__(self) -> None:
        _require_positive(self, "workers", "cpus_per_worker")
        is_share = self.gpus_per_worker is None or self.gpus_per_worker >= 0
        require(is_share, "gpus_per_worker", self.gpus_per_worker, "0 or more")
        given = (self.workers, self.cpus_per_worker, self.gpus_per_worker)
        if self.ray is None and given != (None, 1, None):
            raise StudyError(
                "Options of a Ray cluster were given (--workers, --cpus-per-worker or "
                "--gpus-per-worker) without a cluster. Expected --ray with them; add --ray auto, "
                "ADDRESS or local."
            )


@dataclass(frozen=True)
class ProbeOptions:
    """How probes are trained and scored."""

    sentences: int | None = option(None, "Learn from N sentences, a seeded random sample.")
    epochs: int = option(12, "Epochs of a probe trained by Adam.")
    allow_overlap: bool = option(False, "Allow sentences of --test that are also in --train.")
    compat: bool = option(False, "Shift word vectors by one word, as in the paper's released code.")
    seeds: int = option(5, "Train each probe with N seeds; intervals include their spread.")
    rank: int = option(64, "Rank of the structural probe.")
    hidden_layers: str = option(
        "spread", "Layers of the structural probe: spread (five), all, or 0,6,12 (0: embeddings)."
    )
    curve: bool = option(
        True, "Also measure learning curves, a control task and online code length."
    )
    parts: bool = option(True, "Also train on subsets of heads: which heads parse?")
    query_pieces: str = option(QUERY_PIECES[0], QUERY_PIECES_HELP)
    seed: int = option(0, "Seed of all random choices.")
    batch_tokens: int = option(2048, "Maximum tokens in a batch.", changes_numbers=False)

    def __post_init__(self) -> None:
        require(0 <= self.seed < 2**63, "seed", self.seed, "between 0 and 2^63")
        _require_positive(self, "sentences", "epochs", "seeds", "rank", "batch_tokens")
        is_known, known = self.query_pieces in QUERY_PIECES, " or ".join(QUERY_PIECES)
        require(is_known, "query_pieces", self.query_pieces, known)


@dataclass(frozen=True)
class ShowOptions:
    """What is drawn of a text."""

    head: str | tuple[int, int] | Sequence[str] | None = option(
        None,
        "A head, e.g. 8-10: layer 8, head 10; or several: 5-5,3-3,8-10.",
        parse=str,
        shown_default="all",
    )
    layer: int | None = option(None, "All heads of this layer.")
    words: bool = option(False, "Attention between words instead of tokens.")
    target: str | None = option(None, "What an encoder-decoder writes when it reads the text.")
    attention: str | None = option(
        None, "With --target: cross, decoder or encoder attention.", shown_default="cross"
    )
    treebank: Any = option(
        None, "Take a sentence of this treebank, its arcs in red.", parse=str
    )  # in Python any corpus
    sentence: str | None = option(None, "The sentence's id in --treebank (# sent_id).")
    relation: str | None = option(None, "Mark only the arcs of this relation, e.g. det.")
    direction: str = option(
        "dependent-to-head", "Direction of the marked arcs; or head-to-dependent."
    )
    hide_special: bool = option(False, "Leave out special tokens ([CLS], [SEP]).")
    red: str | Sequence[str] = option(
        [], "A word whose attention is drawn in red; may be repeated.", parse=list, repeat=True
    )
    view: str = option(
        "auto",
        "lines, matrix, text, or auto: for long texts, text of one head, matrices of a layer.",
    )
    strongest: int | None = option(None, "Draw only the K strongest lines.")
    span: str | None = option(None, "Draw only these tokens or words, e.g. 10-40 (from 1).")
    pieces: str = option("joined", "Later pieces of a word: joined (ing) or marked (##ing).")
    size: str | None = option(None, "Size of the picture, 12x8cm, or its width, 12cm.")
    font: str | None = option(None, "An installed font.")
    palette: str | None = option(None, "Colours of lines and of marks, e.g. black,red.")
    background: str | None = option(None, "A colour, or transparent.")

    def __post_init__(self) -> None:
        require(self.view in VIEWS, "view", self.view, f"one of {', '.join(VIEWS)}")
        require(self.pieces in PIECES, "pieces", self.pieces, " or ".join(PIECES))
        is_whole = self.attention is None or self.target is not None
        require(is_whole, "attention", self.attention, "--target TEXT with it")
        _require_positive(self, "strongest")


def require(is_met: bool, name: str, value: object, expected: str) -> None:
    """An error for a value that an option cannot have."""
    if not is_met:
        raise StudyError(
            f"{flag_of(name)} {shorten(value)} cannot be used. Expected {expected}; change it, or "
            "leave it out."
        )


def _require_positive(options: Any, *names: str) -> None:
    for name in names:
        value = getattr(options, name)
        require(value is None or value > 0, name, value, "at least 1")
