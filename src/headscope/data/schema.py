"""The schemas of what a run's folder holds in JSON, checked whenever it is read.

What is not named here may be there too. Loads pydantic: import it where a file is read.
"""

import json
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

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


class PassRecord(Record):
    corpus: str
    role: str
    digest: str
    available: Count
    examples: Count
    analyses: list[str]
    repeats: str | None
    repeat: str | None


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
        place = shorten(".".join(map(str, first["loc"])))
        raise ValueError(f"{place}: {shorten(first['msg'])}") from error
