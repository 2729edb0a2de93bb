"""Loading a model by hub name, local folder or registered name."""

import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import torch
from huggingface_hub.constants import ENDPOINT
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoTokenizer,
)
from transformers.utils import logging

from headscope.errors import HeadscopeError, ModelError
from headscope.models.language import find_objective
from headscope.models.loaded import LoadedModel, wrap_model
from headscope.models.null import PREFIX, randomize
from headscope.registry import MODELS, suggest

__all__ = ["load_model"]

DTYPES = ("float32", "float16", "bfloat16", "auto")


def load_model(
    name: str | Path,
    *,
    revision: str | None = None,
    device: str = "auto",
    dtype: str = "float32",
    trust_remote_code: bool = False,
    seed: int = 0,
    with_head: bool = False,
) -> LoadedModel:
    """Load by registered name ("demo"), local folder or hub name; safetensors only.

    "random-init:NAME" keeps the embeddings of NAME and draws its other weights by the seed. A
    language model can be loaded `with_head`, to predict tokens; one saved without it is refused.
    """
    if str(name).startswith(PREFIX):
        base = load_model(
            str(name).removeprefix(PREFIX),
            revision=revision,
            device=device,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            with_head=with_head,
        )
        return randomize(base, seed)
    place = str(MODELS.find(str(name)).load()() if str(name) in MODELS.entries() else name)
    options: dict[str, Any] = {
        "revision": revision,
        "trust_remote_code": trust_remote_code,
        "local_files_only": Path(place).is_dir() or not _hub_is_reachable(),
    }
    with _quiet_loading(), _explained(str(name), options["local_files_only"]):
        tokenizer = AutoTokenizer.from_pretrained(place, **options)
        _refuse_empty_vocabulary(str(name), tokenizer)
        kind = _find_head(str(name), place, options) if with_head else AutoModel
        model, info = kind.from_pretrained(
            place,
            dtype=_read_dtype(dtype),
            use_safetensors=True,
            attn_implementation="eager",
            output_loading_info=True,
            **options,
        )
    _refuse_missing_weights(str(name), info["missing_keys"])
    commit = revision or getattr(model.config, "_commit_hash", None)
    return wrap_model(model.to(_read_device(device)), tokenizer, str(name), commit)


def _find_head(name: str, place: str, options: Mapping[str, Any]) -> Any:
    """The class that loads a language model with its head, by what the checkpoint says it is."""
    config = AutoConfig.from_pretrained(place, **options)
    objectives = [find_objective(architecture) for architecture in config.architectures or ()]
    for objective, kind in (("next", AutoModelForCausalLM), ("masked", AutoModelForMaskedLM)):
        if objective in objectives:
            return kind
    saved_as = " and ".join(config.architectures or ["no known class"])
    raise ModelError(
        f"{name} was saved as {saved_as}, without a language-modelling head, so there is no loss "
        "to take gradients of. Expected a masked or causal language model."
    )


def _read_dtype(name: str) -> Any:
    if name not in DTYPES:
        raise ModelError(f"No dtype {name!r}.{suggest(name, DTYPES)} Expected {', '.join(DTYPES)}.")
    return name if name == "auto" else getattr(torch, name)


def _read_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"Device {name!r} cannot be used ({reason}). Expected auto, cpu, cuda, cuda:1, mps; "
            "leave --device out to let headscope choose."
        ) from error
    return device


def _refuse_empty_vocabulary(name: str, tokenizer: Any) -> None:
    # Where the files are absent, transformers may make a tokenizer to which all is unknown.
    if len(tokenizer) < len(tokenizer.all_special_ids) + 2:
        raise ModelError(
            f"{name} has no tokenizer: only special tokens are known. Expected tokenizer.json (or "
            "the vocabulary file of the model's kind) beside the weights; save the tokenizer there."
        )


def _refuse_missing_weights(name: str, missing: Sequence[str]) -> None:
    # A pooler comes after all attention; checkpoints of language models often lack it.
    needed = sorted(key for key in missing if "pooler" not in key)
    if needed:
        raise ModelError(
            f"{name} lacks {len(needed)} weights ({', '.join(needed[:3])} ...); they would be "
            "random. Expected a complete checkpoint of the model; check the folder or the name."
        )


def _hub_is_reachable() -> bool:
    """Whether the hub's name resolves, or a proxy is set; else only cached files are tried."""
    if any(os.environ.get(key) for key in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True
    try:
        socket.getaddrinfo(urlsplit(ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True


@contextmanager
def _explained(name: str, is_local: bool) -> Iterator[None]:
    """Turn what transformers raises on loading into one clear error."""
    try:
        yield
    except HeadscopeError:
        raise
    except Exception as error:  # a broken file fails in the way of whichever library reads it
        reason = " ".join(str(error).split())
        if not Path(name).is_dir() and is_local:
            near = suggest(name, [*MODELS.entries(), *(p.name for p in Path().iterdir())])
            raise ModelError(
                f"No model {name!r}: it is no folder, it is not in the local cache, and the hub "
                f"cannot be reached.{near} Expected a folder with config.json, tokenizer.json and "
                f"model.safetensors, a hub name, or one of: {', '.join(MODELS.entries())}."
            ) from error
        raise ModelError(
            f"Model {name!r} cannot be loaded: {reason[:600]} Expected config.json, a tokenizer "
            "and weights in safetensors (pickled weights are never read; convert them with "
            "save_pretrained); --trust-remote-code runs code that comes with a model."
        ) from error


@contextmanager
def _quiet_loading() -> Iterator[None]:
    """No bars or reports of transformers' own while loading."""
    level, had_bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bar:
            logging.enable_progress_bar()
