"""The base of all models of the format: strict keys, frozen values, and strict scalar types."""

import re
from collections.abc import Callable
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
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import (
    definitions_schema,
    no_info_before_validator_function,
    with_info_plain_validator_function,
)

from holodeck_action.seam.registry import resolve
from holodeck_action.suite.model.schema_marks import LAZY

T = TypeVar("T")

# Quoted "${VAR}" values arrive as text; only plain notation counts as a number or a flag.
NUMBER_TEXT = r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?"
INTEGER_TEXT = r"[-+]?[0-9]{1,18}"
FLAG_TEXT = r"[Tt]rue|TRUE|[Yy]es|YES|[Oo]n|ON|[Ff]alse|FALSE|[Nn]o|NO|[Oo]ff|OFF"


if TYPE_CHECKING:
    _BaseModel = BaseModel
else:

    class _ArgumentErrorMeta(type(BaseModel)):
        """Makes constructors report invalid arguments in Python with the sentences of the command line."""

        def __call__(cls, *arguments: Any, **given: Any) -> Any:
            try:
                return super().__call__(*arguments, **given)
            except ValidationError as error:
                from holodeck_action.suite.validation import argument_errors

                # The arguments may select a subclass (`Metric.of`).
                model = cls.of(given) if hasattr(cls, "of") else cls
                raise ArgumentError(argument_errors(model, given, error)) from None

    class _BaseModel(BaseModel, metaclass=_ArgumentErrorMeta, defer_build=True):
        pass


class ArgumentError(ValueError):
    """A constructor received invalid arguments; the message names each of them."""


class FormatModel(_BaseModel):
    """A mapping of the format: unknown keys are errors, values are frozen, NaN and infinity are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        validate_default=False,
        # Several fields of the format begin with model_, which pydantic reserves.
        protected_namespaces=(),
        # Validators are built on first use, which keeps start-up fast.
        defer_build=True,
    )

    SCHEMA_RULES: ClassVar[tuple[dict[str, Any], ...]] = ()
    """JSON Schema rules that correspond to the validators of the whole mapping."""
    UNUSED: ClassVar[tuple[str, ...]] = ()
    """Keys that are checked but have no effect; a notice names them."""


def with_values(*names: str) -> dict[str, Any]:
    """Return the JSON Schema of a mapping that has a value, neither null nor empty, under each of these keys."""
    return {"required": list(names), "properties": {name: {"not": {"enum": [None, ""]}} for name in names}}


def _parse_number(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number, not true or false")
    if isinstance(value, str):
        if not re.fullmatch(NUMBER_TEXT, value):
            raise PydanticCustomError("number_type", "must be a number")
        return float(value)
    return value


def _parse_integer(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("integer_type", "must be a whole number, not true or false")
    if isinstance(value, str):
        if not re.fullmatch(INTEGER_TEXT, value):
            raise PydanticCustomError("integer_type", "must be a whole number")
        return int(value)
    return value


def _parse_flag(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(FLAG_TEXT, value):
        return value.lower() in ("true", "yes", "on")
    if isinstance(value, bool) or (isinstance(value, int | float) and value in (0, 1)):
        return bool(value)
    raise PydanticCustomError("flag_type", "must be true or false")


class NoneAs:
    """Annotation of a value: null is read as the empty value `empty`, because a section with only comments is null in
    YAML."""

    def __init__(self, empty_value: Any) -> None:
        self._empty = empty_value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(
            lambda value: self._empty if value is None else value, schema=handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"type": "null"}]}


def text_or_mapping(value: Any) -> str:
    """Return the tag of the form that a value has, where a file may give text or a mapping."""
    return "text" if isinstance(value, str) else "mapping"


def list_or_mapping(value: Any) -> str:
    """Return the tag of the form that a value has, where a file may give a list or a mapping."""
    return "mapping" if isinstance(value, dict) else "list"


class EmptyAsNone:
    """Annotation of an optional value: an empty string, such as from an empty `${VARIABLE}`, is read as None."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(
            lambda value: None if isinstance(value, str) and not value else value, schema=handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [*handler(schema)["anyOf"], {"const": ""}]}


class LazyType:
    """A type that is imported on first use."""

    def __init__(self, module: str, name: str) -> None:
        """Set the module and the name of the type."""
        self._module, self._name = module, name

    def load(self) -> Any:
        """Return the type."""
        return getattr(import_module(self._module), self._name)


class ExtensionType(LazyType):
    """The type of a section that an extension reads, or `fallback` if the extension is not installed."""

    def __init__(self, find_reference: Callable[[], str | None], fallback: Any) -> None:
        """Set `find_reference`, which returns the reference to the extension's type, or None if the extension is not
        installed. In that case the type `fallback` is used."""
        self._find, self._fallback = find_reference, fallback

    def load(self) -> Any:
        """Return the type."""
        found = self._find()
        return self._fallback if found is None else resolve(found)


class Section:
    """Annotation of a section of a file whose validator is built on first use."""

    def __init__(self, kind: Any) -> None:
        """Set the type of the section with its annotations, or a `LazyType` that loads the type."""
        self._given = kind

    @cached_property
    def kind(self) -> Any:
        """The type of the section."""
        return self._given.load() if isinstance(self._given, LazyType) else self._given

    @cached_property
    def adapter(self) -> TypeAdapter[Any]:
        """The validator of the section."""
        return TypeAdapter(self.kind)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return with_info_plain_validator_function(self._validate, metadata={LAZY: self})

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        whole: dict[str, Any] = {**self.adapter.core_schema}
        if whole["type"] == "model":
            # With a name it becomes a definition, like every model except the root.
            whole.setdefault("ref", f"{self.kind.__module__}.{self.kind.__qualname__}")
        return handler(definitions_schema(whole, []))

    def _validate(self, value: Any, info: ValidationInfo) -> Any:
        return self.adapter.validate_python(value, context=info.context)


if TYPE_CHECKING:
    LazySection = Annotated[T, ...]
    """Annotation of a section that most files omit; building all such validators takes as long as a small suite."""
else:

    class LazySection:
        """Annotation of a section that most files omit; building all such validators takes as long as a small suite."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return Annotated[Any if isinstance(kind, LazyType) else kind, Section(kind)]


NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
"""Text with at least one character that is not white space."""

MaybeText = Annotated[NonBlank | None, EmptyAsNone()]
"""Text that may be omitted; empty text counts as omitted."""

Integer = Annotated[int, BeforeValidator(_parse_integer)]
"""A whole number, or its digits as quoted text; `true` is not 1."""

Number = Annotated[float, BeforeValidator(_parse_number)]
"""A finite number, or its decimal notation as quoted text; `true` is not 1."""

Flag = Annotated[bool, BeforeValidator(_parse_flag)]
"""True or false, also as 0 and 1 and as the quoted words of YAML."""

UnitInterval = Annotated[Number, Field(ge=0.0, le=1.0)]
"""A number from 0 to 1."""

_WRITTEN: dict[str, Any] = {"type": ["string", "number", "boolean"]}

WrittenText = Annotated[str, WithJsonSchema(_WRITTEN)]
"""Text as it is written in the file, even if it looks like a number (see `suite.yaml.reading`)."""

WrittenId = Annotated[str, StringConstraints(min_length=1), WithJsonSchema({**_WRITTEN, "minLength": 1})]
"""An id as it is written; not empty."""

SecretText = Annotated[SecretStr, WithJsonSchema({**_WRITTEN, "writeOnly": True})]
"""A secret as it is written; never shown."""
