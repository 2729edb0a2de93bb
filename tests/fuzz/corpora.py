"""Cases of bad corpora: read to the end, refused in a few words, or refuted by the oracle."""

import gzip
from pathlib import Path
from random import Random

from headscope.contracts import Corpus, CorpusRole
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.engine.sample import draw_sample
from headscope.errors import HeadscopeError
from tests.fuzz.mutate import mutate
from tests.fuzz.oracle import find_loss
from tests.fuzz.seeds import SEEDS, Seed

__all__ = ["ACCEPTED", "REFUSED", "check_message", "read_all", "try_corpus", "try_folder"]

ACCEPTED, REFUSED = "accepted", "refused"
LONGEST_ECHO = 200
PACKED = 0.1  # how many files are .gz
LONGEST_MESSAGE = 1200


class Failure(AssertionError):
    """What may not happen: a loss, or a message that is too long."""


def try_corpus(rng: Random, folder: Path, seed: Seed | None = None) -> str:
    """Read a bad file; gives what became of it."""
    name, role, good = seed or rng.choice(SEEDS)
    content = mutate(rng, good.encode())
    path = folder / name
    if rng.random() < PACKED:  # one that is damaged before or after it is compressed
        path, packed = folder / f"{name}.gz", gzip.compress(content, mtime=0)
        path.write_bytes(mutate(rng, packed) if rng.random() < 0.5 else packed)
    else:
        path.write_bytes(content)
    try:
        examples = read_all(open_corpus(path, role))
    except HeadscopeError as error:
        check_message(str(error), path, content)
        return REFUSED
    if path.suffix == ".gz":
        content = gzip.decompress(path.read_bytes())
    if loss := find_loss(name, role, content, examples):
        raise Failure(f"silent loss: {loss}")
    return ACCEPTED


def try_folder(rng: Random, folder: Path) -> str:
    """Read a folder with good, bad and odd files in it: all of the good ones, or a refusal."""
    role = rng.choice(list(CorpusRole))
    seeds = [seed for seed in SEEDS if seed.role is role]
    n_bad, contents = 0, {}
    for number in range(rng.randint(1, 4)):
        name, _, good = rng.choice(seeds)
        odd = rng.choice(["good", "good", "bad", "empty", "dangling", "capital", "other"])
        stem, _, ending = name.rpartition(".")
        name = f"{stem}{number}.{ending.upper() if odd == 'capital' else ending}"
        path = folder / (f"{name}.md" if odd == "other" else name)
        content = mutate(rng, good.encode()) if odd == "bad" else good.encode()
        if odd == "dangling":
            path.symlink_to(folder / "nowhere")
        else:
            path.write_bytes(b"" if odd == "empty" else content)
        n_bad += odd in ("empty", "dangling")
        if odd != "other":
            contents[name] = content
    try:
        corpus = open_corpus(folder, role)
        provided, examples = corpus.provides, read_all(corpus)
    except HeadscopeError as error:
        check_message(str(error), folder, b"\n".join(contents.values()))
        return REFUSED
    if n_bad:
        raise Failure("silent loss: an empty file or a link that leads nowhere was not told")
    members = {e.id.partition("/")[0] for e in examples}
    if members != set(contents):
        raise Failure(f"silent loss: {set(contents) - members} were not read")
    if any(provided - open_corpus(folder / name, role).provides for name in contents):
        raise Failure("the folder promises what not all its files have")
    return ACCEPTED


def read_all(corpus: Corpus) -> list[Example]:
    """As a run does: what it provides, its examples twice, and its digest."""
    _ = corpus.provides
    sample = draw_sample(corpus, None, seed=0)
    shards = sample.read(sample.shards(2))
    examples = [example for _, in_shard in shards for example in in_shard]
    if [e.id for e in corpus] != [e.id for e in examples]:
        raise Failure("two readings differ")
    corpus.digest()
    return examples


def check_message(message: str, path: Path, content: bytes) -> None:
    """A message is short, names the file, and echoes little of it."""
    if path.name not in message:
        raise Failure(f"the message does not name the file: {message}")
    plain = message.replace(str(path), "")
    if len(plain) > LONGEST_MESSAGE * max(1, plain.count("\n") // 2):
        raise Failure(f"a message of {len(plain)} characters: {plain[:300]}")
    text = content.decode(errors="replace")
    for start in range(max(0, len(plain) - LONGEST_ECHO)):
        if plain[start : start + LONGEST_ECHO + 1] in text:
            raise Failure(f"the message echoes much of the file: {plain[:300]}")
