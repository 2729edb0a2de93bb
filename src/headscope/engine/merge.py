"""Runs in parts (`--shard 3/64`), one a job of any scheduler; and merging: sums add.

Parts of one run make that run, to the last bit. Runs over different corpora make one over all.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

from headscope.arguments import checked
from headscope.data.head_view import write_examples
from headscope.data.table import KIND
from headscope.engine.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from headscope.engine.examples import merge_examples
from headscope.engine.finish import describe_counts, finish_run
from headscope.engine.resolve import restore_analysis
from headscope.engine.sample import Part
from headscope.errors import OutputError, StudyError
from headscope.runs.folder import RunFolder
from headscope.runs.manifest import find_difference, numbers_of
from headscope.runs.run import Run, load_run

__all__ = ["SHARDS", "finish_part", "merge_runs", "name_numbers"]

Manifests = Sequence[Mapping[str, Any]]

SHARDS = "shards"  # how many each pass has, in the manifest of a part
PART = "part"  # the status of one that is done


def name_numbers(numbers: Collection[int]) -> str:
    """Numbers as one writes them, neighbours together.

    >>> name_numbers([7, 1, 2, 3])
    '1-3, 7'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return ", ".join("-".join(map(str, run)) for run in runs)


def finish_part(
    folder: RunFolder,
    manifest: Mapping[str, Any],
    checkpoints: Mapping[str, Checkpoint],
    failed: Sequence[Mapping[str, Any]],
) -> Run:
    """Mark a part as done. It has sums and no tables: these are of all parts together."""
    if failed:
        raise StudyError(
            f"{len(failed)} shards of the part could not be measured: {failed[0]['reason']} "
            f"Expected all of them; the others are kept in {folder.path}. Fix what is "
            "wrong, and repeat the command with --resume."
        )
    done = {**manifest, "status": PART, "tables": [], **describe_counts(checkpoints)}
    folder.write_manifest(done)
    return Run({}, done, folder.path)


def _part_in(manifest: Mapping[str, Any]) -> Part | None:
    """Which part of a run a manifest is of; None: of no part."""
    shard = manifest.get("options", {}).get("shard")
    return Part.parse(shard) if shard else None


def _join_parts(
    folders: Sequence[RunFolder], manifests: Manifests
) -> tuple[dict[str, Any], dict[str, Checkpoint]]:
    """The manifest of the run that these are the parts of, and the sums of each pass over all.

    Parts that are missing, doubled, not done, or of another run are told.
    """
    parts = _refuse_foreign(folders, manifests)
    _refuse_wrong_count(folders, parts)
    for folder, part, manifest in zip(folders, parts, manifests, strict=True):
        if manifest["status"] != PART:
            raise OutputError(
                f"Part {part} in {folder.path} is not finished. Expected all parts to be "
                "done; repeat its command with --resume."
            )
    merged: dict[str, Checkpoint] = {}
    for key, n_shards in manifests[0][SHARDS].items():
        paths = [folder.tally_path(key) for folder in folders]
        read = [read_checkpoint(path) if path.exists() else Checkpoint() for path in paths]
        shards = sorted(shard for checkpoint in read for shard in checkpoint.shards)
        if shards != list(range(n_shards)):
            raise OutputError(
                f"The parts hold {len(set(shards))} of the {n_shards} shards of {key}, "
                f"{len(shards)} in all. Expected each of them once; repeat the parts' commands "
                "with --resume."
            )
        merged[key] = Checkpoint(reduce(add, (part.result for part in read)), tuple(shards))
    return _whole_of(manifests[0]), merged


def _whole_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    options = {**manifest["options"], "shard": None}
    return {name: v for name, v in manifest.items() if name != SHARDS} | {"options": options}


def _refuse_foreign(folders: Sequence[RunFolder], manifests: Manifests) -> list[Part]:
    """An error for what is not a part of the same run as the first; else the parts."""
    parts = []
    for folder, manifest in zip(folders, manifests, strict=True):
        part = _part_in(manifest)
        if part is None:
            raise OutputError(
                f"{folder.path} is a whole run, and others are parts of one. Expected only parts; "
                "merge the parts first, and then whole runs."
            )
        difference = find_difference(_whole_of(manifests[0]), _whole_of(manifest))
        if not difference and manifests[0][SHARDS] != manifest[SHARDS]:
            difference = "shards differ"
        if difference:
            raise OutputError(
                f"{folder.path} is not a part of the same run as {folders[0].path}: its "
                f"{difference}. Expected parts that differ only in --shard; leave it out, or run "
                "it again."
            )
        parts.append(part)
    return parts


def _refuse_wrong_count(folders: Sequence[RunFolder], parts: Sequence[Part]) -> None:
    of = {part.of for part in parts}
    if len(of) > 1:
        raise OutputError(
            f"The parts are of runs in {' and '.join(map(str, sorted(of)))} parts. Expected parts "
            f"of one run; choose the parts of one of them."
        )
    n_parts = of.pop()
    counts = Counter(part.number for part in parts)
    doubled = [number for number, n in counts.items() if n > 1]
    problems = []
    if missing := set(range(1, n_parts + 1)) - set(counts):
        one = f"part {min(missing)} of {n_parts} is missing"
        several = f"parts {name_numbers(missing)} of {n_parts} are missing"
        problems.append(one if len(missing) == 1 else several)
    if doubled:
        pairs = zip(folders, parts, strict=True)
        paths = ", ".join(str(folder.path) for folder, part in pairs if part.number in doubled)
        problems.append(f"{name_numbers(doubled)} are given twice ({paths})")
    if problems:
        raise OutputError(
            f"The parts do not make a whole: {', and '.join(problems)}. Expected each of the "
            f"{n_parts} parts once; run what is missing with --shard NUMBER/{n_parts}, and leave "
            f"out what is repeated."
        )


@checked
def merge_runs(folders: Sequence[str | Path], out: str | Path) -> Run:
    """One run over the corpora of several: the same model, analyses and options, other examples."""
    target = RunFolder(Path(out))
    target.refuse_if_taken()
    stores = [RunFolder(Path(folder)) for folder in folders]
    manifests = [store.read_manifest() for store in stores]
    if any(_part_in(manifest) for manifest in manifests):
        return _write(target, *_join_parts(stores, manifests))
    runs = [load_run(store.path) for store in stores]
    _refuse_other_study(folders, manifests)
    described = {n: o for manifest in manifests for n, o in manifest["analyses"].items()}
    analyses = {name: restore_analysis(name, options) for name, options in described.items()}
    for name, analysis in analyses.items():  # what does not add over corpora
        reason = analysis.not_mergeable
        if reason and sum(name in manifest["analyses"] for manifest in manifests) > 1:
            raise OutputError(
                f"Runs with the analysis {name!r} cannot be merged: {reason}. Expected runs "
                "without it; run it once over all the text, and the other analyses separately."
            )
    merged: dict[str, Checkpoint] = {}
    passes: dict[str, dict[str, Any]] = {}
    made_up = [corpus for a in analyses.values() if (corpus := a.make_corpus(None)) is not None]
    same = {corpus.digest() for corpus in made_up}
    for key in dict.fromkeys(key for manifest in manifests for key in manifest["passes"]):
        parts = _find_parts(key, stores, manifests, same)
        paths = [store.tally_path(key) for store, _ in parts]
        for path in paths:
            if not path.exists():
                raise OutputError(
                    f"{path} is gone: without it the examples of {key} would be left out. Expected "
                    "the sums that the run wrote; run the analysis again with --resume."
                )
        merged[key] = Checkpoint(reduce(add, (read_checkpoint(path).result for path in paths)))
        passes[key] = _join_passes([entry for _, entry in parts])
    manifest = {
        **manifests[0],
        "analyses": described,
        "passes": passes,
        "merged_from": [str(folder) for folder in folders],
    }
    run = _write(target, manifest, merged)
    shown = merge_examples([run.examples for run in runs])
    write_examples(target.path, shown)
    return replace(run, examples=shown)


def _write(target: RunFolder, manifest: Mapping[str, Any], merged: Mapping[str, Checkpoint]) -> Run:
    """The run with these sums; no other command writes to its folder meanwhile."""
    described = manifest["analyses"]
    analyses = {name: restore_analysis(name, options) for name, options in described.items()}
    target.create()
    with target.locked():
        target.refuse_if_taken()
        for key, checkpoint in merged.items():
            write_checkpoint(target.tally_path(key), checkpoint)
        return finish_run(target, manifest, analyses, merged)


def _find_parts(
    key: str, stores: Sequence[RunFolder], manifests: Manifests, same: Collection[str]
) -> list[tuple[RunFolder, Mapping[str, Any]]]:
    """The runs whose sums of a pass add, each with what the pass read.

    Of a made-up corpus that is the `same` in every run, by its digest, one run counts.
    """
    pairs = zip(stores, manifests, strict=True)
    parts = [(store, m["passes"][key]) for store, m in pairs if key in m["passes"]]
    first = parts[0][1]
    if first["digest"] in same:
        return parts[:1]
    digests = [digest for _, entry in parts for digest in entry["digest"].split("+")]
    if len(set(digests)) < len(digests):
        raise OutputError(
            f"Two of the runs read the same corpus ({first['corpus']}), so its examples would "
            "count twice. Expected runs over different corpora; leave one of them out."
        )
    return parts


def _join_passes(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
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


def _refuse_other_study(folders: Sequence[str | Path], manifests: Manifests) -> None:
    if len(manifests) < 2:
        raise OutputError(
            "Only one run was given. Expected two or more; name all folders to merge."
        )
    models = [manifest["model"] for manifest in manifests]
    compared: dict[str, list[Any]] = {
        "model weights": [(model["digest"], model.get("weights")) for model in models],
        "tokenizers": [model.get("tokenizer") for model in models],
        "options": [numbers_of(manifest["options"]) for manifest in manifests],
    }
    for name in dict.fromkeys(name for m in manifests for name in m["analyses"]):
        options = [m["analyses"][name] for m in manifests if name in m["analyses"]]
        compared[f"options of {name}"] = options
    for name, values in compared.items():
        if any(value != values[0] for value in values):
            raise OutputError(
                f"The runs in {', '.join(map(str, folders))} have different {name}. Expected runs "
                f"that differ only in their corpora; run them with the same model and options."
            )
