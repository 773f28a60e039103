"""What all models of the format share: strict keys, frozen values, and scalar types that refuse look-alikes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic_core import PydanticCustomError


class FormatModel(BaseModel):
    """A mapping of the format: unknown keys are errors, values are frozen, NaN and infinity are refused."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        validate_default=False,
        use_attribute_docstrings=True,
        # Several fields of the format are called model_…: they are not pydantic's.
        protected_namespaces=(),
    )


def _not_a_boolean(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("number_type", "must be a number, not true or false")
    return value


NonBlank = Annotated[str, StringConstraints(pattern=r"\S")]
"""Text with at least one character that is not white space."""

Integer = Annotated[int, BeforeValidator(_not_a_boolean)]
"""A whole number; `true` is not 1."""

Number = Annotated[float, BeforeValidator(_not_a_boolean)]
"""A finite number; `true` is not 1."""

UnitInterval = Annotated[Number, Field(ge=0.0, le=1.0)]
"""A number from 0 to 1."""
