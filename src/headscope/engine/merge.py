"""Merging runs: their tallies add."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from logging import getLogger
from operator import add
from pathlib import Path
from typing import Any

from headscope.arguments import checked
from headscope.data.table import KIND
from headscope.engine.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from headscope.engine.examples import merge_examples, write_examples
from headscope.engine.finish import finish_run
from headscope.engine.parts import join_parts, part_in
from headscope.engine.resolve import restore_analysis
from headscope.errors import OutputError
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import numbers_of
from headscope.runs.run import Run, load_run

__all__ = ["merge_runs"]

log = getLogger("headscope")

Manifests = Sequence[Mapping[str, Any]]


@checked
def merge_runs(folders: Sequence[str | Path], out: str | Path) -> Run:
    """One run over the corpora of several: the same model, analyses and options, other examples."""
    target = RunFolder(Path(out))
    target.refuse_if_taken()
    stores = [RunFolder(Path(folder)) for folder in folders]
    manifests = [store.read_manifest() for store in stores]
    if any(part_in(manifest) for manifest in manifests):
        return _merge_parts(stores, manifests, target)
    runs = [load_run(store.path) for store in stores]
    _refuse_mismatch(folders, manifests)
    described = {n: o for manifest in manifests for n, o in manifest["analyses"].items()}
    analyses = {name: restore_analysis(name, options) for name, options in described.items()}
    _refuse_not_mergeable(analyses, manifests)
    keys = dict.fromkeys(key for manifest in manifests for key in manifest["passes"])
    merged = {
        key: Checkpoint(
            reduce(
                add,
                (
                    _load(s, key)
                    for s, m in zip(stores, manifests, strict=True)
                    if key in m["passes"]
                ),
            )
        )
        for key in keys
    }
    manifest = {
        **manifests[0],
        "analyses": described,
        "passes": {key: _join_passes(key, manifests) for key in keys},
        "merged_from": [str(folder) for folder in folders],
    }
    run = _write(target, manifest, analyses, merged)
    shown = merge_examples([run.examples for run in runs])
    write_examples(target.path, shown)
    return replace(run, examples=shown)


def _merge_parts(stores: Sequence[RunFolder], manifests: Manifests, target: RunFolder) -> Run:
    """The run that was measured in parts: its tables are those of one job, to the last bit."""
    manifest, merged = join_parts([store.path for store in stores], manifests)
    described = manifest["analyses"]
    analyses = {name: restore_analysis(name, options) for name, options in described.items()}
    return _write(target, manifest, analyses, merged)


def _write(
    target: RunFolder,
    manifest: Mapping[str, Any],
    analyses: Mapping[str, Any],
    merged: Mapping[str, Checkpoint],
) -> Run:
    with _write_sums(target, merged):
        return finish_run(target, manifest, analyses, merged)


@contextmanager
def _write_sums(target: RunFolder, merged: Mapping[str, Checkpoint]) -> Iterator[None]:
    """Write the sums of all passes; no other command writes there until the block ends."""
    target.create()
    with target.locked():
        target.refuse_if_taken()
        for key, checkpoint in merged.items():
            write_checkpoint(target.tally_path(key), checkpoint)
        yield


def _load(store: RunFolder, key: str) -> Any:
    path = store.tally_path(key)
    if not path.exists():
        raise OutputError(
            f"{path} is gone: without it the examples of {key} would be left out. Expected the "
            "sums that the run wrote; run the analysis again with --resume."
        )
    return read_checkpoint(path).result


def _join_passes(key: str, manifests: Manifests) -> dict[str, Any]:
    parts = [m["passes"][key] for m in manifests if key in m["passes"]]
    return {
        **parts[0],
        "corpus": " + ".join(part["corpus"] for part in parts),
        "path": "",
        "digest": "+".join(part["digest"] for part in parts),
        "available": sum(part["available"] for part in parts),
        "examples": sum(part["examples"] for part in parts),
        "analyses": list(dict.fromkeys(name for part in parts for name in part["analyses"])),
        KIND: {
            kind: list(dict.fromkeys(name for part in parts for name in part[KIND].get(kind, ())))
            for kind in parts[0].get(KIND, {})
        },
    }


def _refuse_mismatch(folders: Sequence[str | Path], manifests: Manifests) -> None:
    """Runs that cannot be added: of other models or options, or over the same examples twice."""
    if len(manifests) < 2:
        raise OutputError(
            "Only one run was given. Expected two or more; name all folders to merge."
        )
    facts: dict[str, Callable[[Mapping[str, Any]], Any]] = {
        "model weights": lambda m: [m["model"]["digest"], m["model"].get("weights")],
        "tokenizers": lambda m: m["model"].get("tokenizer"),
        "options": lambda m: numbers_of(m["options"]),
    }
    found = {name: [fact(manifest) for manifest in manifests] for name, fact in facts.items()}
    for name in dict.fromkeys(name for m in manifests for name in m["analyses"]):
        own = [m["analyses"][name] for m in manifests if name in m["analyses"]]
        found[f"options of {name}"] = own
    for name, values in found.items():
        if any(value != values[0] for value in values):
            raise OutputError(
                f"The runs in {', '.join(map(str, folders))} have different {name}. Expected runs "
                f"that differ only in their corpora; run them with the same model and options."
            )
    for key in {key for manifest in manifests for key in manifest["passes"]}:
        parts = [m["passes"][key]["digest"] for m in manifests if key in m["passes"]]
        digests = [digest for part in parts for digest in part.split("+")]
        if len(set(digests)) < len(digests):
            raise OutputError(
                "Two of the runs read the same corpus, so its examples would count twice. Expected "
                "runs over different corpora; leave one of them out."
            )


def _refuse_not_mergeable(analyses: Mapping[str, Any], manifests: Manifests) -> None:
    """What does not add over corpora, if more than one run has it."""
    for name, analysis in analyses.items():
        reason = analysis.not_mergeable
        if reason and sum(name in m["analyses"] for m in manifests) > 1:
            raise OutputError(
                f"Runs with the analysis {name!r} cannot be merged: {reason}. Expected runs "
                "without it; run it once over all the text, and the other analyses separately."
            )
