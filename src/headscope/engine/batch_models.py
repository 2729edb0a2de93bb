"""The same study of many models, one folder each; one that fails does not stop the others."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from headscope.corpora.lines import read_lines
from headscope.engine.analyze import analyze
from headscope.engine.cluster import open_pool
from headscope.engine.work import locate, package_facts
from headscope.errors import HeadscopeError, InputError, shorten
from headscope.options import ClusterOptions, collect_options
from headscope.runs.folder import RunFolder

__all__ = ["analyze_models", "read_models"]

CORPORA = ("text", "treebank", "coref")


def read_models(path: Path) -> list[str]:
    """The models that a file names, one a line; what follows a # is a comment."""
    lines = (line for _, line in read_lines(path))
    names = [name for line in lines if (name := line.partition("#")[0].strip())]
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count != 1:
        problem = f"names {shorten(name)} twice" if names else "names no model"
        raise InputError(f"{path} {problem}. Expected each model once, one per line; fix the file.")
    return names


def analyze_models(
    folders: Mapping[str, Path], resume: bool = False, progress: bool = True, **options: Any
) -> Iterator[tuple[str, str]]:
    """Analyze each model into its folder; gives each one's name and, if it failed, why.

    On a cluster (`ray`) each worker takes a model, side by side. `options` are those of `analyze`.
    """
    of_cluster = collect_options(ClusterOptions)
    cluster = ClusterOptions(**{n: v for n, v in options.items() if n in of_cluster})
    study = {n: v for n, v in options.items() if n not in of_cluster}
    if cluster.ray is None:
        worker = _ModelsWorker(study, resume, progress)
        for name, folder in folders.items():
            yield name, worker.analyze(name, folder)
        return
    for folder in () if resume else folders.values():
        RunFolder(folder).refuse_if_taken()
    for name in CORPORA:
        items = study.get(name)
        study[name] = [locate(item) for item in items] if isinstance(items, list) else locate(items)
    # A worker that dies is replaced, and the next one goes on with its model.
    recipe, names = partial(_ModelsWorker, study, resume=True, progress=False), list(folders)
    waiting = iter([(locate(name), folders[name].absolute()) for name in names])
    with open_pool(cluster, recipe, package_facts()) as pool:
        for number, reason in pool.run("analyze", lambda: next(waiting, None)):
            yield names[number], reason


@dataclass(frozen=True)
class _ModelsWorker:
    study: Mapping[str, Any]
    resume: bool
    progress: bool

    def facts(self) -> dict[str, str]:
        return package_facts()

    def analyze(self, name: str, folder: Path) -> str:
        """Why the model could not be analyzed; "" if it was."""
        try:
            analyze(name, out=folder, resume=self.resume, progress=self.progress, **self.study)
        except Exception as error:  # whatever is wrong with one model is no reason to stop
            is_known = isinstance(error, HeadscopeError)
            return str(error) if is_known else f"{type(error).__name__}: {error}"
        return ""
