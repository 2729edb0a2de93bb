"""One measurement of memory, to be run in a process of its own: it prints peaks in bytes."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.importance import back_and_forth
from benchmarks.resident import Peak, peak_above, peak_of_process
from benchmarks.workload import (
    ANALYSES,
    bert_base,
    bert_base_with_head,
    build_analyses,
    encode_ahead,
    forward,
    make_segments,
    minilm,
)
from headscope.analyses.gradient import Gradient
from headscope.corpora.starter import STARTER
from headscope.corpora.text import TextCorpus
from headscope.data.attention import Gradients
from headscope.data.encoding import Batch
from headscope.engine.analyze import analyze
from headscope.engine.measure import measure_examples
from headscope.engine.probe import probe
from headscope.engine.sample import draw_sample
from headscope.models.gradients import GradientSource
from headscope.models.language import Task, build_task
from headscope.models.loaded import LoadedModel
from headscope.options import RunOptions

SHARD_EXAMPLES, SEGMENT_TOKENS = 16, 128  # even the short corpus has several shards
SAMPLED = 64
LINES_PER_DOCUMENT = 9


def analyze_segments(n_segments: int) -> Peak:
    """Peak above the model of a whole study over a text file of some segments."""
    return _study_segments(n_segments, ANALYSES)


def compare_heads(n_segments: int) -> Peak:
    """Peak above the model of distances between all heads over a text file of some segments."""
    return _study_segments(n_segments, ["distance"])


def _study_segments(n_segments: int, only: Sequence[str]) -> Peak:
    source = _warm(minilm())
    with _file() as path:
        segments = make_segments(n_segments, SEGMENT_TOKENS)
        path.write_text("".join(f"{e.text}\n{e.text_pair}\n\n" for e in segments))
        del segments
        return peak_above(
            lambda: analyze(
                source, text=path, only=only, shard_examples=SHARD_EXAMPLES, progress=False
            )
        )


def analyze_treebank(n_copies: int) -> Peak:
    """Peak above the model of looking for dependencies in some copies of the starter corpus.

    A shard is one copy, so that all shards are alike and only what is kept of them can grow.
    """
    source = _warm(minilm())
    with _file() as path:
        lines = STARTER.read_text().splitlines(keepends=True)
        copy = "".join(line for line in lines if not line.startswith("# sent_id"))
        treebank = path.with_suffix(".conllu")
        with treebank.open("w") as stream:
            for _ in range(n_copies):
                stream.write(f"{copy}\n")
        return peak_above(
            lambda: analyze(
                source, treebank=treebank, only=["dependency"], shard_examples=201, progress=False
            )
        )


def probe_treebank(n_sentences: int) -> Peak:
    """Peak of the whole process after both probes over attention learned from some sentences."""
    shared = Path(__file__).parents[2] / "shared"
    with TemporaryDirectory() as folder:
        probe(
            shared / "models/e5-small",
            train=shared / "data/treebanks/en_ewt-ud-train.conllu",
            test="starter",
            vectors=shared / "data/vectors/glove-100d.txt.gz",
            store=folder,
            sentences=n_sentences,
            only=["attention-only", "attention-and-words"],
            epochs=1,
            curve=False,
            progress=False,
        )
    return Peak(peak_of_process())


def bare_forward(n_tokens: int) -> Peak:
    """Peak above the model of the SDPA forward pass over one segment."""
    source = _warm(bert_base(n_tokens))
    inputs = [_encode_one(source, n_tokens)]
    return peak_above(lambda: forward(source, inputs, "sdpa"))


def tapped(n_tokens: int) -> Peak:
    """Peak above the model of measuring one segment."""
    source = _warm(bert_base(n_tokens))
    examples = make_segments(1, n_tokens)
    ready = encode_ahead(source, examples, n_tokens)
    options = RunOptions(max_tokens=n_tokens, batch_tokens=n_tokens)
    return peak_above(lambda: measure_examples(examples, ready, build_analyses(), options))


def all_maps(n_tokens: int) -> Peak:
    """Peak above the model of asking for all maps of one segment."""
    source = _warm(bert_base(n_tokens))
    inputs = _encode_one(source, n_tokens)
    source.model.set_attn_implementation("eager")
    with torch.inference_mode():
        return peak_above(lambda: source.model(**inputs, output_attentions=True))


def bare_backward(n_tokens: int) -> Peak:
    """Peak above the model of a bare pass forth and back over one segment."""
    task, batch = _language_task(n_tokens)
    return peak_above(lambda: back_and_forth(task, [batch]))


def gradients(n_tokens: int) -> Peak:
    """Peak above the model of measuring the gradients of one segment."""
    task, batch = _language_task(n_tokens)

    def measure() -> None:
        layers: list[Any] = []
        GradientSource(task).attend(batch, lambda layer: layers.append(layer.without_maps()))
        Gradient().measure(Gradients.join(layers[::-1]))

    return peak_above(measure)


def _language_task(n_tokens: int) -> tuple[Task, Batch]:
    task = build_task(_warm(bert_base_with_head(n_tokens)))
    back_and_forth(task, [_batch_of(task, 16)])
    GradientSource(task).attend(_batch_of(task, 16), lambda layer: None)
    return task, _batch_of(task, n_tokens)


def _batch_of(task: Task, n_tokens: int) -> Batch:
    return task.source.batch(task.source.encode(make_segments(1, n_tokens), n_tokens))


def survey(n_lines: int) -> Peak:
    """Peak of sampling a text file and reading the sample, above what was held before."""
    with _file() as path:
        with path.open("w") as stream:
            for number in range(1, n_lines + 1):
                is_text = number % (LINES_PER_DOCUMENT + 1)
                stream.write(f"This is line number {number}.\n" if is_text else "\n")
        return peak_above(lambda: sum(1 for _ in draw_sample(TextCorpus(path), SAMPLED, seed=0)))


CASES: dict[str, Callable[[int], Peak]] = {
    function.__name__: function
    for function in (
        analyze_segments,
        compare_heads,
        analyze_treebank,
        probe_treebank,
        bare_forward,
        tapped,
        all_maps,
        bare_backward,
        gradients,
        survey,
    )
}


def _warm(source: LoadedModel) -> LoadedModel:
    """The model after one short run by the tap and one bare, which load what code they need."""
    source.describe()  # asks for the layers, so a short run by the tap
    forward(source, [_encode_one(source, 16)], "sdpa")
    return source


def _encode_one(source: LoadedModel, n_tokens: int) -> dict[str, torch.Tensor]:
    return source.batch(source.encode(make_segments(1, n_tokens), n_tokens)).inputs


@contextmanager
def _file() -> Iterator[Path]:
    with TemporaryDirectory(prefix="headscope-benchmark-") as folder:
        yield Path(folder) / "corpus.txt"


if __name__ == "__main__":
    case, size, threads = sys.argv[1:]
    torch.set_num_threads(int(threads))
    print(json.dumps(CASES[case](int(size))._asdict()))
