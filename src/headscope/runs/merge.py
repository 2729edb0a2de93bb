"""Merging runs: their tallies add."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from headscope.errors import OutputError
from headscope.runs.checkpoints import Checkpoint
from headscope.runs.examples import merge_examples, read_examples, write_examples
from headscope.runs.results import Run, RunFolder, finish_run, load_run
from headscope.runs.study import build_analysis

__all__ = ["merge_runs"]


def merge_runs(folders: Sequence[str | Path], out: str | Path) -> Run:
    """One run over the corpora of several: the same model, analyses and options, other examples."""
    target = RunFolder(Path(out))
    target.refuse_if_taken()
    stores = [RunFolder(Path(folder)) for folder in folders]
    manifests = [load_run(store.path).manifest for store in stores]
    _refuse_mismatch(folders, manifests)
    keys = dict.fromkeys(key for manifest in manifests for key in manifest["passes"])
    merged = {
        key: Checkpoint(reduce(add, (s.load_checkpoint(key).result for s in stores)))
        for key in keys
    }
    analyses = {n: build_analysis(n, o) for m in manifests for n, o in m["analyses"].items()}
    manifest = {
        **manifests[0],
        "analyses": {name: o for m in manifests for name, o in m["analyses"].items()},
        "passes": {key: _join_passes(key, manifests) for key in keys},
        "merged_from": [str(folder) for folder in folders],
    }
    target.create()
    for key, checkpoint in merged.items():
        target.save_checkpoint(key, checkpoint)
    run = finish_run(target, manifest, analyses, merged)
    shown = merge_examples([read_examples(store.path) for store in stores])
    write_examples(target.path, shown)
    return replace(run, examples=shown)


def _join_passes(key: str, manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [m["passes"][key] for m in manifests if key in m["passes"]]
    return {
        **parts[0],
        "corpus": " + ".join(part["corpus"] for part in parts),
        "path": "",
        "digest": "+".join(part["digest"] for part in parts),
        "available": sum(part["available"] for part in parts),
        "examples": sum(part["examples"] for part in parts),
        "analyses": list(dict.fromkeys(name for part in parts for name in part["analyses"])),
    }


def _refuse_mismatch(folders: Sequence[str | Path], manifests: Sequence[Mapping[str, Any]]) -> None:
    """Runs that cannot be added: of other models or options, or over the same examples twice."""
    if len(manifests) < 2:
        raise OutputError("Only one run was given. Expected two or more folders to merge.")
    facts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "model weights": lambda m: [m["model"]["digest"], m["model"].get("weights")],
        "options": lambda m: {**m["options"], "batch_tokens": 0, "shard_examples": 0},
    }
    for name, fact in facts.items():
        if any(fact(manifest) != fact(manifests[0]) for manifest in manifests):
            raise OutputError(
                f"The runs in {', '.join(map(str, folders))} have different {name}. Expected runs "
                "that differ in their corpora alone; run them with the same model and options."
            )
    for key in {key for manifest in manifests for key in manifest["passes"]}:
        parts = [m["passes"][key]["digest"] for m in manifests if key in m["passes"]]
        digests = [digest for part in parts for digest in part.split("+")]
        if len(set(digests)) < len(digests):
            raise OutputError(
                "Two of the runs read the same corpus, so its examples would count twice. Expected "
                "runs over different corpora; leave one of them out."
            )
