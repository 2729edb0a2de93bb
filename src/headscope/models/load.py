"""Loading a model by hub name, local folder or registered name."""

import atexit
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from logging import getLogger
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, cast
from urllib.parse import urlsplit

import torch
from huggingface_hub.constants import ENDPOINT
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
    PreTrainedModel,
    modeling_gguf_pytorch_utils,
)
from transformers.utils import logging

from headscope.arguments import checked
from headscope.errors import HeadscopeError, ModelError, shorten, suggest
from headscope.models.language import build_task, find_objective
from headscope.models.loaded import LoadedModel, refuse_offloaded, wrap_model
from headscope.registry import MODELS

__all__ = ["PREFIX", "load_model", "load_with_head", "make_untrained"]

PREFIX = "random-init:"  # before the name of a model whose weights are to be random
DTYPES = ("float32", "float16", "bfloat16", "auto")
GGUF = ".gguf"
MOST_LAYERS = 10_000
POOLER = "pooler"  # comes after all attention; checkpoints of language models often lack it

Place = torch.device | dict[str, Any]  # one device, or what spreads a model over several


@checked
def load_model(
    name: str | Path,
    *,
    revision: str | None = None,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    device_map: str | None = None,
    max_memory: Mapping[str, str] | None = None,
    trust_remote_code: bool = False,
    seed: int = 0,
    with_head: bool = False,
) -> LoadedModel:
    """Load by registered name ("demo"), local folder, GGUF file or hub name; safetensors or GGUF.

    "random-init:NAME" keeps the embeddings of NAME and draws its other weights by the seed.
    `with_head` loads a language model with its prediction head; a model saved without one is
    refused.
    """
    trained = str(name).removeprefix(PREFIX)
    path = str(MODELS.find(trained).load()() if trained in MODELS.entries() else trained)
    if not path.strip() or path != path.encode(errors="replace").decode():
        raise ModelError(
            f"No model {shorten(path)!r}. Expected a name or a folder; name one as plain text."
        )
    is_local = os.path.exists(path) or not _hub_is_reachable()
    options: dict[str, Any] = {
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "local_files_only": is_local,
    }
    if path.endswith(GGUF) and Path(path).is_file():
        _require_extra("gguf", f"{trained} is a GGUF file")
        path, options["gguf_file"] = str(Path(path).parent), Path(path).name
    place = _read_place(device, device_map, max_memory or {})
    with _quiet_loading(), _explained(trained, is_local):
        tokenizer = AutoTokenizer.from_pretrained(path, **options)
        # Where the files are absent, transformers may make a tokenizer to which all is unknown.
        if len(tokenizer) < len(tokenizer.all_special_ids) + 2:
            raise ModelError(
                f"{trained} has no tokenizer: only special tokens are known. Expected "
                "tokenizer.json (or the vocabulary file of the model's kind) in the folder of the "
                "weights; save the tokenizer there."
            )
        _refuse_absurd_sizes(trained, AutoConfig.from_pretrained(path, **options))
        kind = _find_head(trained, path, options) if with_head else AutoModel
        model, info = kind.from_pretrained(
            path,
            dtype=_read_dtype(dtype, place),
            use_safetensors=True,
            attn_implementation="eager",
            output_loading_info=True,
            **(place if isinstance(place, dict) else {}),
            **options,
        )
    if missing := _find_missing(model, info["missing_keys"]):
        raise ModelError(
            f"{trained} lacks {len(missing)} weights ({', '.join(missing[:3])} ...); they would be "
            "random. Expected a complete checkpoint of the model; check the folder or the name."
        )
    _refuse_left_over(trained, model, info["unexpected_keys"])
    commit = revision or getattr(model.config, "_commit_hash", None)
    if isinstance(place, torch.device):
        model = model.to(place)
    loaded = wrap_model(model, tokenizer, trained, commit)
    return loaded if trained == str(name) else make_untrained(loaded, seed)


def load_with_head(
    name: str | Path, *, seed: int = 0, **options: Any
) -> tuple[LoadedModel, LoadedModel | ModelError]:
    """The model, and the same weights with the language-modelling head, or why there is none.

    The files are read once; the first is what `load_model` gives without a head. Options are those
    of `load_model`.
    """
    trained, failure = str(name).removeprefix(PREFIX), None
    try:
        head = load_model(trained, with_head=True, **options)
        build_task(head)  # says what else is missing
    except ModelError as error:
        failure = ModelError(*error.args)  # a traceback would keep the model in memory
    if failure:
        return load_model(name, seed=seed, **options), failure
    model = head.without_head()
    # AutoModel gives another base model for a few classes, and where only the text part of a model
    # that also reads images has a head.
    config = model.model.config
    base: Any = MODEL_MAPPING.get(type(config), None)
    if type(model.model) is not base or config.base_config_key:
        model = load_model(trained, **options)
    if trained == str(name):
        return model, head
    # Drawn apart: random weights depend on whether the model has a head.
    return make_untrained(model, seed), make_untrained(head, seed)


def make_untrained(source: LoadedModel, seed: int = 0) -> LoadedModel:
    """A copy of the model with its embeddings kept and its other weights random, by the seed.

    The paper's baseline for how much comes from training.
    """
    refuse_offloaded(source, "there is no room for a copy with random weights")
    name = f"{PREFIX}{source.name}"
    if source.whole is None:
        return replace(source, name=name, model=_draw_weights(source.model, seed))
    whole = _draw_weights(source.whole, seed)
    return replace(source, name=name, model=whole.get_encoder(), whole=whole)


def _draw_weights(model: PreTrainedModel, seed: int) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        build = cast(Callable[[Any], PreTrainedModel], type(model))
        fresh = build(model.config)
        kept = dict(_embedding_weights(model))
        for name, weight in fresh.named_parameters():
            if name in kept:
                weight.copy_(kept[name])
    nn.Module.to(fresh, device=model.device, dtype=model.dtype)
    fresh.eval()
    return fresh


def _embedding_weights(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What belongs to the input embeddings: tables outside the layers, and all under "embed..."."""
    tables = {name for name, module in model.named_modules() if isinstance(module, nn.Embedding)}
    for name, weight in model.named_parameters():
        parts = name.split(".")
        is_in_layers = any(part.isdecimal() for part in parts)
        is_table = ".".join(parts[:-1]) in tables
        if not is_in_layers and (is_table or any("embed" in part for part in parts)):
            yield name, weight


def _refuse_absurd_sizes(name: str, config: Any) -> None:
    """An error for a number of layers that no model has: to build them would never end."""
    for key, value in config.to_dict().items():
        is_count = "layer" in key and isinstance(value, int)
        if is_count and not 0 <= value <= MOST_LAYERS:
            raise ModelError(
                f"The configuration of {name} has {key} = {shorten(value)}. Expected 0 to "
                f"{MOST_LAYERS:,}; fix config.json."
            )


def _find_missing(model: PreTrainedModel, keys: Iterable[str]) -> list[str]:
    """The weights that would be random: not those that the model computes, as Marian's positions.

    Classes list what they compute, under the names that it has in the model with its head.
    """
    prefix = f"{model.base_model_prefix}."
    computed = [*(model._keys_to_ignore_on_load_missing or ()), POOLER]
    return sorted(
        key
        for key in keys
        if not any(re.search(p, name) for p in computed for name in (key, prefix + key))
    )


def _refuse_left_over(name: str, model: PreTrainedModel, unexpected: Iterable[str]) -> None:
    prefix = rf"^(model\.|{re.escape(model.base_model_prefix)}\.)*"  # of a base model in its head's

    def as_pattern(key: str) -> str:
        return re.sub(r"\d+", "N", re.sub(prefix, "", key))

    known = set(map(as_pattern, model.state_dict()))
    for key in sorted(unexpected):
        if re.search(r"\.\d+\.", key) and as_pattern(key) in known:
            raise ModelError(
                f"The checkpoint of {name} has more layers than its configuration says "
                f"({shorten(key)}). Expected config.json and weights of one model; save them "
                "together."
            )


def _find_head(name: str, path: str, options: Mapping[str, Any]) -> Any:
    config = AutoConfig.from_pretrained(path, **options)
    if config.is_encoder_decoder:
        raise ModelError(
            f"{name} is an encoder-decoder, and its encoder has no language-modelling head. "
            "Expected a masked or causal language model; choose one, or leave the analysis out."
        )
    if "gguf_file" in options and type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM  # the file does not say what it was saved as
    objectives = [find_objective(architecture) for architecture in config.architectures or ()]
    for objective, kind in (("next", AutoModelForCausalLM), ("masked", AutoModelForMaskedLM)):
        if objective in objectives:
            return kind
    saved_as = " and ".join(config.architectures or ["no known class"])
    raise ModelError(
        f"{name} was saved as {saved_as}, without a language-modelling head. Expected a masked "
        "or causal language model; choose one, or leave the analysis out."
    )


def _read_dtype(dtype: str | torch.dtype, place: Place) -> Any:
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ModelError(
            f"No dtype {shorten(name)!r}.{suggest(name, DTYPES)} Expected {', '.join(DTYPES)}; "
            "change --dtype, or leave it out."
        )
    if name != "auto":
        return getattr(torch, name)
    if isinstance(place, torch.device):
        is_cpu = place.type == "cpu"
    else:
        is_cpu = not torch.accelerator.is_available()
    return torch.float32 if is_cpu else "auto"


def _read_place(
    device: str | torch.device, device_map: str | None, max_memory: Mapping[str, str]
) -> Place:
    """The device to put a model on, or how transformers is to spread it over all there are."""
    if device_map is None:
        if max_memory:
            raise ModelError(
                "--max-memory was given without --device-map. Expected --device-map auto with it; "
                "add it, or leave --max-memory out."
            )
        return _read_device(device)
    if device_map != "auto" or device != "auto":
        raise ModelError(
            f"--device-map {device_map} with --device {device} cannot be used. Expected "
            "--device-map auto and no --device; limit what it uses with --max-memory."
        )
    _require_extra("accelerate", "--device-map was given")
    folder = mkdtemp(prefix="headscope-")  # for weights that are converted before they are read
    atexit.register(rmtree, folder, ignore_errors=True)
    place: dict[str, Any] = {"device_map": device_map, "offload_folder": folder}
    if max_memory:
        sizes = {int(name) if name.isdecimal() else name: s for name, s in max_memory.items()}
        place["max_memory"] = sizes
    return place


def _require_extra(package: str, why: str) -> None:
    if find_spec(package) is None:
        raise ModelError(
            f"{why}, but the package {package} is not installed. Expected the extra 'big'; "
            "install it with `pip install 'headscope[big]'`."
        )


def _read_device(name: str | torch.device) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"Device {name!r} cannot be used ({reason}). Expected auto, cpu, cuda, cuda:1, mps; "
            "leave --device out to let headscope choose."
        ) from error


def _hub_is_reachable() -> bool:
    """Whether the hub's name resolves, or a proxy is set; else only cached files are tried."""
    if any(os.environ.get(key) for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    try:
        return bool(socket.getaddrinfo(urlsplit(ENDPOINT).hostname, 443))
    except OSError:
        return False


def _list_models(folder: Path) -> list[str]:
    """What in a folder may be a model."""
    return [p.name for p in folder.iterdir() if (p / "config.json").exists() or p.suffix == GGUF]


def _is_run(folder: str) -> bool:
    """Whether it is a folder that `headscope analyze --out` wrote; any text may be asked for."""
    has_manifest, has_config = (
        os.path.exists(os.path.join(folder, name)) for name in ("manifest.json", "config.json")
    )
    return has_manifest and not has_config


@contextmanager
def _explained(name: str, is_local: bool) -> Iterator[None]:
    try:
        yield
    except HeadscopeError:
        raise
    except Exception as error:  # a broken file fails in the way of whichever library reads it
        reason = " ".join(str(error).split())
        if _is_run(name):
            raise ModelError(
                f"{shorten(name, 200)} is a run, not a model. Expected the model that it measured; "
                f"to see both, `headscope explore MODEL --run {shorten(name, 200)}`."
            ) from error
        if not os.path.exists(name) and is_local:
            near = suggest(name, [*MODELS.entries(), *_list_models(Path())])
            raise ModelError(
                f"No model {shorten(name, 200)!r}: it is not a folder, it is not in the local "
                f"cache, and the hub cannot be reached.{near} Expected a folder with "
                "config.json, tokenizer.json and model.safetensors, a .gguf file, a hub name, or "
                f"one of: {', '.join(MODELS.entries())}."
            ) from error
        if isinstance(error, ImportError):
            raise ModelError(
                f"Model {shorten(name, 200)!r} needs a package that is not installed: "
                f"{shorten(reason.partition('. ')[0], 200).rstrip('.')}. Expected it beside "
                "headscope; install it, e.g. pip install 'headscope[sentencepiece]'."
            ) from error
        raise ModelError(
            f"Model {shorten(name, 200)!r} cannot be loaded: {shorten(reason, 200).rstrip('.')}. "
            "Expected config.json, a tokenizer and weights in safetensors (pickled weights are "
            "never read; convert them with save_pretrained); --trust-remote-code runs code that "
            "comes with a model."
        ) from error


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """No bars or reports of transformers' own while loading."""
    level, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    spreading = getLogger("accelerate.big_modeling")  # says what it offloads, as it was asked to
    was_disabled, spreading.disabled = spreading.disabled, True
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    of_gguf = vars(modeling_gguf_pytorch_utils)
    bar = of_gguf["tqdm"]
    of_gguf["tqdm"] = partial(bar, disable=True)  # it does not ask whether bars are wanted
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Recommended: pip install sacremoses")  # Marian's
            yield
    finally:
        of_gguf["tqdm"] = bar
        spreading.disabled = was_disabled
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()
