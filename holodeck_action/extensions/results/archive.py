"""Reads the members of a zip file from outside, within bounds."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from holodeck_action.extensions.results.stored import FormatError
from holodeck_action.text.foreign import Foreign

_LOCAL_HEADER = struct.Struct("<26xHH")
_STORED, _DEFLATED, _ZSTANDARD = 0, 8, 93
_MOST_MEMBERS = 200_000
_INSTALL = "its members are compressed with Zstandard: install holodeck-action[parquet], or convert the file to JSON"


class Archive:
    """A zip file in memory, whose members may unpack to a limited size together."""

    def __init__(self, content: Foreign, max_bytes: int) -> None:
        """Read the list of members.

        Raises:
            ForeignError: the file is not a zip file.
            FormatError: it has too many members.
        """
        self._data: bytes = content.parse(bytes)
        self._left = max_bytes
        listed = content.parse(lambda data: zipfile.ZipFile(io.BytesIO(data)).infolist())
        if len(listed) > _MOST_MEMBERS:
            raise FormatError(f"has {len(listed):,} members; at most {_MOST_MEMBERS:,} are read")
        self._members = {each.filename: each for each in listed}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the members, in the order of the file."""
        return tuple(self._members)

    def read(self, name: str) -> Foreign:
        """Return the content of a member.

        Raises:
            FormatError: the members unpack to too many bytes, a member is damaged, or its compression is unknown.
        """
        member = self._members[name]
        self._left -= member.file_size
        if self._left < 0 or member.flag_bits & 0x1:
            raise FormatError("unpacks to too many bytes" if self._left < 0 else "is encrypted")
        start = member.header_offset
        header = self._data[start : start + _LOCAL_HEADER.size]
        if len(header) < _LOCAL_HEADER.size:
            raise FormatError(f"is damaged at {name!r}")
        start += _LOCAL_HEADER.size + sum(_LOCAL_HEADER.unpack(header))
        packed = self._data[start : start + member.compress_size]
        data = _unpacked(packed, member.compress_type, member.file_size)
        if len(data) != member.file_size or zlib.crc32(data) != member.CRC:
            raise FormatError(f"is damaged at {name!r}")
        return Foreign(data)


def _unpacked(packed: bytes, method: int, size: int) -> bytes:
    if method == _STORED:
        return packed
    if method == _DEFLATED:
        try:
            return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, size + 1)
        except zlib.error as error:
            raise FormatError(f"is damaged: {error}") from None
    if method != _ZSTANDARD:
        raise FormatError(f"has members in the unknown compression {method}")
    try:
        import pyarrow
    except ImportError:
        raise FormatError(_INSTALL) from None
    try:
        data: bytes = pyarrow.decompress(packed, size, codec="zstd", asbytes=True)
    except (pyarrow.ArrowException, ValueError) as error:
        raise FormatError(f"is damaged: {error}") from None
    return data
