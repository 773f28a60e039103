"""Messages in the wire format of Protocol Buffers, as far as they are asked for, and bounded while they are read.

The library of protobuf reads a whole message in one go, in which nothing else runs, and makes gigabytes of one with
millions of empty parts. Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

VARINT, FIXED_64, LENGTH, FIXED_32 = 0, 1, 2, 5
"""Kinds of fields on the wire."""
_LONGEST_VARINT = 10
_DEEPEST = 200
"""Messages in one another that are read."""


class Field(Struct, frozen=True):
    """A field that is read: its name, its kind on the wire, what is made of it, and whether there may be several."""

    name: str
    wire: int
    convert: Callable[[Any], Any]
    several: bool = False


class Message:
    """A message that is read: what is made of its fields, which are found by their numbers."""

    def __init__(self, make: Callable[..., Any], fields: Mapping[int, Field | Nested]) -> None:
        self.make = make
        self.fields = dict(fields)


class Nested(Struct, frozen=True):
    """A field with a message in it; `message` is a function so that a message can hold itself."""

    name: str
    message: Callable[[], Message]
    several: bool = False


def text(name: str) -> Field:
    """Return a field that is UTF-8 text."""
    return Field(name, LENGTH, lambda data: str(data, "utf-8"))


def hexadecimal(name: str) -> Field:
    """Return a field of bytes, which become hexadecimal digits."""
    return Field(name, LENGTH, lambda data: data.hex())


def fixed_64(name: str) -> Field:
    """Return a field of type `fixed64`."""
    return Field(name, FIXED_64, lambda data: int.from_bytes(data, "little"))


def double(name: str) -> Field:
    """Return a field of type `double`."""
    return Field(name, FIXED_64, lambda data: struct.unpack("<d", data)[0])


def signed(name: str) -> Field:
    """Return a field of type `int64` or `enum`."""
    return Field(name, VARINT, lambda number: number - (1 << 64) if number >> 63 else number)


def boolean(name: str) -> Field:
    """Return a field of type `bool`."""
    return Field(name, VARINT, bool)


def read(message: Message, data: bytes, spend: Callable[[], None]) -> Any:
    """Return what a message makes of its fields.

    Args:
        message: what is read of it.
        data: its bytes.
        spend: called for each field that is no message, so that it can end the reading by raising.

    Raises:
        ValueError: the bytes are no such message, or one that is nested too deeply.
    """
    return _read(message, memoryview(data), spend, 0)


def _read(message: Message, data: memoryview, spend: Callable[[], None], depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    found: dict[str, Any] = {}
    for number, wire, value in _fields(data):
        field = message.fields.get(number)
        if isinstance(field, Nested):
            _check(wire, LENGTH)
            made = _read(field.message(), value, spend, depth + 1)
        else:
            spend()
            if field is None:
                continue
            _check(wire, field.wire)
            made = field.convert(value)
        if field.several:
            found.setdefault(field.name, []).append(made)
        else:
            found[field.name] = made
    return message.make(**found)


def _check(wire: int, expected: int) -> None:
    if wire != expected:
        raise ValueError(f"a field of kind {wire} in the place of one of kind {expected}")


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield number, kind and content of the fields: a number of a varint, bytes of all others."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]
        # Most numbers have one byte.
        tag, at = (tag, at + 1) if tag < 0x80 else _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise ValueError("a field without a number")
        if wire == VARINT:
            value, at = _varint(data, at, end)
            yield number, wire, value
            continue
        if wire == LENGTH:
            size = data[at] if at < end else 0x80
            size, at = (size, at + 1) if size < 0x80 else _varint(data, at, end)
        elif wire in (FIXED_64, FIXED_32):
            size = 8 if wire == FIXED_64 else 4
        else:
            raise ValueError(f"a field of kind {wire}, which is none")
        if size > end - at:
            raise ValueError("a field that ends behind its message")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    found = shift = 0
    for place in range(at, min(end, at + _LONGEST_VARINT)):
        byte = data[place]
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return found & (1 << 64) - 1, place + 1
        shift += 7
    raise ValueError("a number without an end")
