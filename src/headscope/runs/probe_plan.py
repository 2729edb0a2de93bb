"""What a run of probes will do, checked before any work."""

import json
import platform
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from logging import getLogger
from typing import Any

from headscope.contracts import AttentionSource
from headscope.errors import OutputError, StudyError
from headscope.probes.suite import NULL_PREFIX, PROBES, WITH_VECTORS
from headscope.probes.train import Plan
from headscope.registry import suggest
from headscope.runs.results import RunFolder
from headscope.runs.sample import Sample
from headscope.runs.study import Options

__all__ = ["choose_probes", "describe_probes", "open_folder", "warn_of_other_labels"]

UNSEEN_SHARE = 0.05  # of words whose relation the training treebank lacks: above it, a warning
NOT_COMPARED = (
    "started",
    "versions",
    "status",
    "tables",
    "counts",
    "coverage",
    "left_out",
    "format",
)

log = getLogger("headscope")


def choose_probes(
    only: Collection[str] | None, has_vectors: bool, can_be_random: bool
) -> tuple[list[str], dict[str, str]]:
    """The probes to run, and those left out with the reason; an error for what was asked for."""
    for name in only or ():
        if name not in PROBES:
            known = ", ".join(PROBES)
            raise StudyError(f"No probe named {name!r}.{suggest(name, PROBES)} Known: {known}.")
    names, left_out = [], {}
    for name in PROBES:
        if only is not None and name not in only:
            continue
        if not has_vectors and name.removeprefix(NULL_PREFIX) in WITH_VECTORS:
            left_out[name] = f"Probe {name!r} needs word vectors: pass --vectors FILE (GloVe text)."
        elif not can_be_random and name.startswith(NULL_PREFIX):
            left_out[name] = f"Probe {name!r} needs a transformers model, to draw its weights anew."
        else:
            names.append(name)
    if only is not None and left_out:
        raise StudyError(" ".join(left_out.values()))
    for reason in left_out.values():
        log.info("Left out: %s", reason)
    return names, left_out


def warn_of_other_labels(train: Sample, test: Sample) -> None:
    """Say where the two treebanks seem to be annotated by different schemes."""
    known = {r for example in train for r in (example.tree.relations if example.tree else ())}
    counts = Counter(
        r for example in test for r in (example.tree.relations if example.tree else ())
    )
    unseen = {relation: n for relation, n in counts.items() if relation not in known}
    share = sum(unseen.values()) / max(sum(counts.values()), 1)
    if share > UNSEEN_SHARE:
        named = ", ".join(sorted(unseen, key=lambda relation: -unseen[relation])[:5])
        log.warning(
            "%.0f %% of the words of %s have a relation that %s does not use (%s). The two may be "
            "annotated by different schemes, and then their scores mean little; give treebanks of "
            "one scheme.",
            100 * share,
            test.corpus.name,
            train.corpus.name,
            named,
        )


def describe_probes(
    source: AttentionSource,
    samples: Mapping[str, Sample],
    options: Options,
    plan: Plan,
    names: Sequence[str],
    left_out: Mapping[str, str],
) -> dict[str, Any]:
    """Everything about a run of probes that is known before it starts."""
    return {
        "model": source.describe(),
        "treebanks": {
            role: {
                "corpus": sample.corpus.name,
                "path": str(getattr(sample.corpus, "path", "")),
                "digest": sample.corpus.digest(),
                "available": sample.n_available,
                "sentences": sample.n_examples,
            }
            for role, sample in samples.items()
        },
        "probes": list(names),
        "left_out": dict(left_out),
        "options": asdict(options) | asdict(plan),
        "versions": {
            **{name: version(name) for name in ("headscope", "torch", "transformers", "numpy")},
            "python": platform.python_version(),
        },
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def open_folder(folder: RunFolder, manifest: Mapping[str, Any], resume: bool) -> None:
    """Begin a run in its folder, or go on with the same one."""
    if resume and (folder.path / "manifest.json").exists():
        begun = folder.read_manifest()
        now = json.loads(json.dumps(manifest))
        now["options"]["batch_tokens"] = begun["options"]["batch_tokens"]  # a matter of memory
        for name in sorted({*begun, *now} - {*NOT_COMPARED}):
            if begun.get(name) != now.get(name):
                raise OutputError(
                    f"{folder.path} holds another run: its {name} differ ({begun.get(name)} there, "
                    f"{now.get(name)} now). Expected the same command as before; repeat it, or "
                    "choose another --out."
                )
    else:
        folder.refuse_if_taken()
        folder.create()
    folder.write_manifest({**manifest, "status": "running"})
