"""The resources as JSON: Confluent's v3 names and nesting. A list is {kind, metadata, data}."""

from __future__ import annotations

from typing import Annotated, Generic, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, FailFast, Field, model_validator

Data = TypeVar("Data")


def _utf8(text: str) -> str:
    text.encode()  # JSON can say half a surrogate pair, Kafka's protocol cannot: a ValueError
    return text


Int16 = Annotated[int, Field(ge=-(2**15), lt=2**15)]
Int32 = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Text = Annotated[str, AfterValidator(_utf8)]
Row = TypeVar("Row")
# What a client sends: the first problem is the answer, so no more of them are looked for.
Rows: TypeAlias = Annotated[list[Row], FailFast()]


class Wanted(BaseModel):
    """What a client sends. A field that does not exist is refused: what it should have done would not be done.

    null for a field that may be left out is as if it was left out, as in Confluent's server.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        return {name: value for name, value in given.items() if value is not None or name not in optional}


class Link(BaseModel):
    """Where something related is."""

    related: str


class Metadata(BaseModel):
    """Where this is, and what it is called."""

    self_: str = Field(serialization_alias="self")
    resource_name: str | None = None


class ListMetadata(BaseModel):
    """Where this list is; nothing is paged."""

    self_: str = Field(serialization_alias="self")
    next: str | None = None


class Listing(BaseModel, Generic[Data]):
    """A list of resources."""

    kind: str
    metadata: ListMetadata
    data: list[Data]
