"""The one way in: files that are opened, and bytes that become text or values."""

from __future__ import annotations

import gzip
import os
import random
import stat
import tracemalloc
import zlib
from pathlib import Path

import pytest

from holodeck_action.text.foreign import Foreign, ForeignError, OpenFolder, RefusedFileError, open_file, read_file
from tests.tables import walk

NOT_REGULAR = "is not a regular file (a pipe, a device or a socket)"


def special(folder: Path, what: str) -> Path:
    place = folder / "place"
    match what:
        case "pipe":
            os.mkfifo(place)
        case "device":
            return Path("/dev/zero")
        case "socket":
            # A socket cannot be bound where the path is long.
            os.mknod(place, stat.S_IFSOCK | 0o600)
        case "link to a pipe":
            os.mkfifo(folder / "pipe")
            place.symlink_to("pipe")
    return place


@walk("what", ["pipe", "device", "socket", "link to a pipe"])
def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path, what: str) -> None:
    with pytest.raises(RefusedFileError) as refused:
        read_file(special(tmp_path, what))
    assert (refused.value.clause, refused.value.strerror) == (NOT_REGULAR, f"it {NOT_REGULAR}")


def test_a_link_is_followed_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    assert read_file(tmp_path / "link").text() == "content"
    with pytest.raises(RefusedFileError, match="it is a link, which is not followed"):
        open_file(tmp_path / "link", follow_links=False)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(RefusedFileError, match="it has 1,099,511,627,776 bytes; at most 9 are read"):
        read_file(path, 9)


def test_a_name_that_is_no_path_is_refused() -> None:
    with pytest.raises(RefusedFileError, match="it is not a path of a file"):
        open_file("a\0b")


def test_a_folder_is_read_where_it_went(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"content")
    (tmp_path / "folder" / "link").symlink_to("file")
    folder = OpenFolder(tmp_path / "folder")
    (tmp_path / "folder").rename(tmp_path / "moved")
    with folder.open("file") as file:
        assert file.read() == b"content"
    assert sorted(folder.names()) == ["file", "link"]
    with pytest.raises(RefusedFileError, match="it is a link"):
        folder.open("link")


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_packed_bytes_unpack(pack: object) -> None:
    content = random.Random(1).randbytes(1000)
    packed = zlib.compress(content) if pack is zlib.compress else gzip.compress(content)
    assert Foreign(packed).unpack(1000).digest() == Foreign(content).digest()
    for damaged in (packed[:-1], packed[:500], packed[:-4] + b"1234", packed + b"more", b"content", b""):
        with pytest.raises(ForeignError, match="is damaged: "):
            Foreign(damaged).unpack(1000)


def test_what_unpacks_to_too_much_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    tracemalloc.start()
    with pytest.raises(ForeignError, match="unpacks to more than 1,000,000 bytes"):
        Foreign(bomb).unpack(1_000_000)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
