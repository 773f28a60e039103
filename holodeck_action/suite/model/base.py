"""What all models of the format share: strict keys, frozen values, and scalar types that refuse look-alikes."""

from __future__ import annotations

import re
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SecretStr,
    StringConstraints,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import (
    definitions_schema,
    no_info_before_validator_function,
    with_info_plain_validator_function,
)

from holodeck_action.seam.registry import resolve, sections

T = TypeVar("T")

# Quoted "${VAR}" values arrive as text; only plain notation counts as a number or a flag.
NUMBER_TEXT = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
INTEGER_TEXT = r"[-+]?[0-9]{1,18}"
FLAG_TEXT = r"[Tt]rue|TRUE|[Yy]es|YES|[Oo]n|ON|[Ff]alse|FALSE|[Nn]o|NO|[Oo]ff|OFF"


class FormatModel(BaseModel):
    """A mapping of the format: unknown keys are errors, values are frozen, NaN and infinity are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        validate_default=False,
        # Several fields of the format are called model_…: they are not pydantic's.
        protected_namespaces=(),
        # Only the roots that are used get a validator: start-up is paid for by every run.
        defer_build=True,
    )

    SCHEMA_RULES: ClassVar[tuple[dict[str, Any], ...]] = ()
    """What the validators of the whole mapping demand, as JSON Schema."""
    UNUSED: ClassVar[tuple[str, ...]] = ()
    """Keys that are checked and have no effect, which a notice names."""


def given(*names: str) -> dict[str, Any]:
    """Return as JSON Schema that a mapping gives values under these keys."""
    return {"required": list(names), "properties": {name: {"not": {"enum": [None, ""]}} for name in names}}


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number, not true or false")
    if isinstance(value, str):
        if not re.fullmatch(NUMBER_TEXT, value):
            raise PydanticCustomError("number_type", "must be a number")
        return float(value)
    return value


def _integer(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("integer_type", "must be a whole number, not true or false")
    if isinstance(value, str):
        if not re.fullmatch(INTEGER_TEXT, value):
            raise PydanticCustomError("integer_type", "must be a whole number")
        return int(value)
    return value


def _flag(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(FLAG_TEXT, value):
        return value.lower() in ("true", "yes", "on")
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        return bool(value)
    raise PydanticCustomError("flag_type", "must be true or false")


class NoneAs:
    """Annotation: null means this empty value, as for a section whose entries are all commented out."""

    def __init__(self, empty: Any) -> None:
        self._empty = empty

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(
            lambda value: self._empty if value is None else value, schema=handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


class EmptyAsNone:
    """Annotation of what may be None: empty text means not given, such as `${VARIABLE}` of an empty variable."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(
            lambda value: None if isinstance(value, str) and not value else value, schema=handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [*handler(schema)["anyOf"], {"const": ""}]}


LATER = "later"
"""Key of a `Section` in the metadata of core schemas."""


class Elsewhere:
    """A type that is imported when it is first needed."""

    def __init__(self, module: str, name: str) -> None:
        """Take the module and the name of the type in it."""
        self._module, self._name = module, name

    def imported(self) -> Any:
        """Return the type."""
        return getattr(import_module(self._module), self._name)


class OfExtension(Elsewhere):
    """The type of a section that an extension reads; without the extension it is not used and may be of another one."""

    def __init__(self, key: str, otherwise: Any) -> None:
        """Take the key of the section, and its type without the extension."""
        self._key, self._otherwise = key, otherwise

    def imported(self) -> Any:
        """Return the type."""
        found = sections().get(self._key)
        return self._otherwise if found is None else resolve(found.to)


class Section:
    """Annotation of a section of a file: what validates it is made ready with the first one that is given."""

    def __init__(self, kind: Any) -> None:
        """Take the type that it must be of, annotations included, or where that is."""
        self._given = kind

    @cached_property
    def kind(self) -> Any:
        """The type that it must be of."""
        return self._given.imported() if isinstance(self._given, Elsewhere) else self._given

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """What validates it."""
        return TypeAdapter(self.kind)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return with_info_plain_validator_function(self._validated, metadata={LATER: self})

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole: dict[str, Any] = {**self.adapter.core_schema}
        if whole["type"] == "model":
            # By its name it becomes a definition, as every model does that is not the root.
            whole.setdefault("ref", f"{self.kind.__module__}.{self.kind.__qualname__}")
        return handler(definitions_schema(whole, []))

    def _validated(self, value: Any, info: ValidationInfo) -> Any:
        return self.adapter.validate_python(value, context=info.context)


if TYPE_CHECKING:
    Later = Annotated[T, ...]
    """A section that most files leave out: to make all of them ready takes as long as to run a small suite."""
else:

    class Later:
        """A section that most files leave out: to make all of them ready takes as long as to run a small suite."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return Annotated[Any if isinstance(kind, Elsewhere) else kind, Section(kind)]


NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
"""Text with at least one character that is not white space."""

MaybeText = Annotated[NonBlank | None, EmptyAsNone()]
"""Text that may be omitted; an empty one is omitted too."""

Integer = Annotated[int, BeforeValidator(_integer)]
"""A whole number, or its digits as quoted text; `true` is not 1."""

Number = Annotated[float, BeforeValidator(_number)]
"""A finite number, or its decimal notation as quoted text; `true` is not 1."""

Flag = Annotated[bool, BeforeValidator(_flag)]
"""True or false, also as 0 and 1 and as the quoted words of YAML."""

UnitInterval = Annotated[Number, Field(ge=0.0, le=1.0)]
"""A number from 0 to 1."""

_WRITTEN: dict[str, Any] = {"type": ["string", "number", "boolean"]}

WrittenText = Annotated[str, WithJsonSchema(_WRITTEN)]
"""Text kept as it is written in the file, even when it looks like a number (see `suite.reading`)."""

WrittenId = Annotated[str, StringConstraints(min_length=1), WithJsonSchema({**_WRITTEN, "minLength": 1})]
"""An id, kept as it is written; not empty."""

SecretText = Annotated[SecretStr, WithJsonSchema({**_WRITTEN, "writeOnly": True})]
"""A secret, kept as it is written and never shown."""
