"""Merging runs: their tallies add."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from headscope.errors import OutputError
from headscope.runs.results import Checkpoint, Run, RunFolder, finish_run, load_run
from headscope.runs.study import build_analysis

__all__ = ["merge_runs"]


def merge_runs(folders: Sequence[str | Path], out: str | Path) -> Run:
    """One run over the corpora of several: the same model, analyses and options, other examples."""
    target = RunFolder(Path(out))
    target.refuse_if_taken()
    stores = [RunFolder(Path(folder)) for folder in folders]
    manifests = [load_run(store.path).manifest for store in stores]
    _refuse_mismatch(folders, manifests)
    roles = dict.fromkeys(role for manifest in manifests for role in manifest["corpora"])
    merged = {
        role: Checkpoint(reduce(add, (s.load_checkpoint(role).result for s in stores)))
        for role in roles
    }
    analyses = {n: build_analysis(n, o) for m in manifests for n, o in m["analyses"].items()}
    manifest = {
        **manifests[0],
        "analyses": {name: o for m in manifests for name, o in m["analyses"].items()},
        "corpora": {role: _join_corpora(role, manifests) for role in roles},
        "merged_from": [str(folder) for folder in folders],
    }
    target.create()
    for role, checkpoint in merged.items():
        target.save_checkpoint(role, checkpoint)
    return finish_run(target, manifest, analyses, merged)


def _join_corpora(role: str, manifests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [m["corpora"][role] for m in manifests if role in m["corpora"]]
    return {
        "name": " + ".join(part["name"] for part in parts),
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
        "model weights": lambda m: m["model"]["digest"],
        "options": lambda m: {**m["options"], "batch_tokens": 0, "shard_examples": 0},
    }
    for name, fact in facts.items():
        if any(fact(manifest) != fact(manifests[0]) for manifest in manifests):
            raise OutputError(
                f"The runs in {', '.join(map(str, folders))} have different {name}. Expected runs "
                "that differ in their corpora alone; run them with the same model and options."
            )
    digests = [d for m in manifests for c in m["corpora"].values() for d in c["digest"].split("+")]
    roles = len({role for m in manifests for role in m["corpora"]})
    if len(set(digests)) * roles < len(digests):
        raise OutputError(
            "Two of the runs read the same corpus, so its examples would count twice. Expected "
            "runs over different corpora; leave one of them out."
        )
