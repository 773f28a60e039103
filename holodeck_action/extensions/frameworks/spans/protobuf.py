"""A reader of selected fields of Protocol Buffers messages, with limits that apply while reading.

The library protobuf reads a whole message at once, which blocks other threads and takes gigabytes of memory for a
message with millions of empty parts. Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5
"""Wire types."""
_LONGEST_VARINT = 10
_DEEPEST = 200
"""Largest depth of nested messages."""


class Field(Struct, frozen=True):
    """A field to read: its name, its wire type, the conversion of its value, and whether it is repeated."""

    name: str
    wire: int
    convert: Callable[[Any], Any]
    several: bool = False


class Message:
    """A message to read: the constructor of its value, and its fields by number."""

    def __init__(self, make_value: Callable[..., Any], fields: Mapping[int, Field | MessageField]) -> None:
        self.make = make_value
        self.fields = dict(fields)


class MessageField(Struct, frozen=True):
    """A field that contains a message; `message` is a function, so that a message can contain itself."""

    name: str
    message: Callable[[], Message]
    several: bool = False


def text_field(name: str) -> Field:
    """Return a field of type `string`."""
    return Field(name, LENGTH, lambda data: str(data, "utf-8"))


def hex_field(name: str) -> Field:
    """Return a field of type `bytes`, read as hexadecimal digits."""
    return Field(name, LENGTH, lambda data: data.hex())


def fixed64_field(name: str) -> Field:
    """Return a field of type `fixed64`."""
    return Field(name, FIXED_64, lambda data: int.from_bytes(data, "little"))


def double_field(name: str) -> Field:
    """Return a field of type `double`."""
    return Field(name, FIXED_64, lambda data: struct.unpack("<d", data)[0])


def int64_field(name: str) -> Field:
    """Return a field of type `int64` or `enum`."""
    return Field(name, VARINT, lambda number: number - (1 << 64) if number >> 63 else number)


def bool_field(name: str) -> Field:
    """Return a field of type `bool`."""
    return Field(name, VARINT, bool)


def read_message(message: Message, data: bytes, spend: Callable[[], None]) -> Any:
    """Return the value of a message.

    Args:
        message: description of the message to read.
        data: the encoded bytes of the message.
        spend: called for each field that is not a message; may raise to stop reading.

    Raises:
        ValueError: the bytes are not such a message, or the message is nested too deeply.
    """
    return _read_message(message, memoryview(data), spend, 0)


def _read_message(message: Message, data: memoryview, spend: Callable[[], None], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    found: dict[str, Any] = {}
    for number, wire, value in _read_fields(data):
        field = message.fields.get(number)
        if isinstance(field, MessageField):
            _check_wire(wire, LENGTH)
            made = _read_message(field.message(), value, spend, depth + 1)
        else:
            spend()
            if field is None:
                continue
            _check_wire(wire, field.wire)
            made = field.convert(value)
        if field.several:
            found.setdefault(field.name, []).append(made)
        else:
            found[field.name] = made
    return message.make(**found)


def _check_wire(wire: int, expected: int) -> None:
    if wire != expected:
        raise ValueError(f"a field of wire type {wire} instead of {expected}")


def _read_fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and content of each field; the content is an int for a varint, else bytes."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        # Most tags have one byte.
        tag, at = (tag, at + 1) if tag < 0x80 else _read_varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a field without a number")
        if wire == VARINT:
            value, at = _read_varint(data, at, end)
            yield number, wire, value
            continue
        if wire == LENGTH:
            size = data[at] if at < end else 0x80
            size, at = (size, at + 1) if size < 0x80 else _read_varint(data, at, end)
        elif wire in (FIXED_64, FIXED_32):
            size = 8 if wire == FIXED_64 else 4
        else:
            raise ValueError(f"a field of the unknown wire type {wire}")
        if size > end - at:
            raise ValueError("a field that ends after its message")
        yield number, wire, data[at : at + size]
        at += size


def _read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Return the varint at position `position`, and the position after it."""
    found = shift = 0
    for place in range(position, min(end, position + _LONGEST_VARINT)):
        byte = data[place]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & (1 << 64) - 1, place + 1
        shift += 7
    raise ValueError("a varint that does not end")
