"""The schemas of what a run's folder holds in JSON, checked whenever it is read.

What is not named here may be there too. Loads pydantic: import it where a file is read.
"""

import json
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headscope.errors import shorten

__all__ = ["ExamplesFile", "ManifestFile", "check_schema"]

Count = Annotated[int, Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[^/\\\x00]+$")]  # of a file in the folder


class Record(BaseModel):
    """A JSON object: types are not converted, other keys are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", protected_namespaces=())


class ModelRecord(Record):
    digest: str
    name: str
    weights: str = ""
    layers: Count = 0
    heads: Count = 0
    key_value_heads: Count = 0
    layer_numbers: list[Count] | None = None
    special_tokens: dict[str, str] = {}
    first: "ModelRecord | None" = None  # of two models
    second: "ModelRecord | None" = None


class PassRecord(Record):
    corpus: str
    role: Literal["text", "treebank", "coref"]
    digest: str
    path: str | None = None
    available: Count
    examples: Count
    analyses: list[str]
    attention: dict[str, list[str]] = {}
    window: Count | None = None
    cut: str | None = None
    repeats: str | None
    draw: Count | None = None
    skipped_files: dict[str, str] = {}


class TokenizationRecord(Record):
    words: Count
    split: Count = Field(alias="split words")
    pieces: Count
    unknown: Count = Field(alias="unknown pieces")
    single: Count = Field(alias="single-character pieces")


class CountsRecord(Record):
    """What became of the examples of a pass."""

    used: Count
    truncated: Count
    tokens: Count
    unaligned_words: Count
    skipped: dict[str, Count]
    skipped_ids: dict[str, list[str]]
    notes: dict[str, Count]
    tokenization: TokenizationRecord | Annotated[dict[str, int], Field(max_length=0)] = {}
    documents: Count = 0
    buckets: Count = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.skipped.keys() <= self.skipped_ids.keys():
            raise ValueError("a reason of skipped has no skipped_ids")
        return self


class ManifestFile(Record):
    """`manifest.json`."""

    status: Literal["running", "part", "partial", "complete"]
    model: ModelRecord
    options: dict[str, Any]
    versions: dict[str, str]
    analyses: dict[str, dict[str, Any]] = {}
    passes: dict[Name, PassRecord] = {}
    tables: list[Name] = []
    untrained_tables: list[Name] = []
    counts: dict[str, dict[str, Any]] = {}
    checksums: dict[str, str] = {}
    left_out: dict[str, str] = {}
    seconds: dict[str, dict[str, float]] = {}
    started: str = ""
    failed: list[dict[str, Any]] = []
    derived: dict[str, dict[str, Any]] = {}

    @model_validator(mode="after")
    def _check_passes(self) -> Self:
        """Counts of passes are whole; a pass repeats one that is there."""
        for key, record in self.passes.items():
            if key in self.counts:
                CountsRecord.model_validate(self.counts[key])
            if not {*record.analyses} <= self.analyses.keys():
                raise ValueError(f"pass {shorten(key)} has an analysis that is not described")
            if record.repeats is not None and record.repeats not in self.passes:
                raise ValueError(f"pass {shorten(key)} repeats one that is not there")
            if record.repeats and key in self.counts and record.repeats not in self.counts:
                raise ValueError(f"pass {shorten(key)} has counts without those of what it repeats")
        return self


class ViewRecord(Record):
    example: str
    layer: int
    head: int
    units: list[str]
    is_special: list[Literal[0, 1]]
    weights: list[tuple[Count, Count, int]]
    marked: list[tuple[Count, Count]]
    keys: list[str] | None = None
    special_keys: list[Literal[0, 1]] | None = None
    kind: str = ""


class ShownRecord(Record):
    model_config = ConfigDict(strict=True, extra="forbid")

    title: str
    end: str
    score: float
    says: str
    view: ViewRecord


class ExamplesFile(Record):
    """`examples.json`."""

    examples: list[ShownRecord]


Schema = TypeVar("Schema", bound=Record)


def check_schema(schema: type[Schema], values: dict[str, Any]) -> None:
    """ValueError, in a few words, for values that do not fit."""
    try:
        schema.model_validate_json(json.dumps(values))  # where a list may be a tuple
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = shorten(".".join(map(str, first["loc"])))
        raise ValueError(f"{path}: {shorten(first['msg'])}") from error
