"""Recordings as lines of one file: their order, broken ends, several writers, and files of earlier versions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from holodeck_action.llm.cassette.documents import DamagedLineError, JsonFiles, JsonLinesFile, parse_document
from holodeck_action.text.foreign import Foreign


def tape(folder: Path) -> JsonLinesFile:
    return JsonLinesFile(folder / "tape.jsonl", folder / "earlier")


def all_of(folder: Path, *numbers: int) -> list[str]:
    with closing(tape(folder)) as found:
        return [content(found.read(key(number))) for number in numbers]


def document(number: int) -> str:
    return json.dumps({"format": 1, "said": f"é \u2028 \ud800 {number}"}, separators=(",", ":"))


def key(number: int) -> str:
    return f"{number * 7919 % 1000:040x}"


def content(found: Foreign | None) -> str:
    assert found is not None
    said = found.parse(parse_document)
    said.pop("key", None)
    return json.dumps(said, separators=(",", ":"))


def test_equal_recordings_have_equal_bytes_whatever_came_first(tmp_path: Path) -> None:
    contents = set()
    for seed in range(3):
        numbers = [*range(20), *range(5)]
        Random(seed).shuffle(numbers)
        folder = tmp_path / str(seed)
        written = tape(folder)
        for number in numbers:
            written.write(key(number), document(number))
            assert content(written.read(key(number))) == document(number)
        written.close()
        contents.add((folder / "tape.jsonl").read_bytes())
    (only,) = contents
    lines = only.splitlines()
    assert lines == sorted(lines)
    assert len(lines) == 20


def test_the_last_line_of_a_key_counts(tmp_path: Path) -> None:
    first = tape(tmp_path)
    first.write(key(1), document(1))
    first.close()
    again = tape(tmp_path)
    assert content(again.read(key(1))) == document(1)
    again.write(key(1), document(2))
    assert content(again.read(key(1))) == document(2)
    assert all_of(tmp_path, 1) == [document(2)]
    again.close()
    assert (tmp_path / "tape.jsonl").read_bytes().count(b"\n") == 1


def test_what_breaks_off_anywhere_in_the_last_line_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    written = tape(tmp_path)
    for number in range(3):
        written.write(key(number), document(number))
    written.close()
    path = tmp_path / "tape.jsonl"
    whole = path.read_bytes()
    numbers = sorted(range(3), key=key)
    last = whole.splitlines(keepends=True)[-1]
    for missing in range(1, len(last)):
        path.write_bytes(whole[:-missing])
        with closing(tape(tmp_path)) as found:
            assert [content(found.read(key(number))) for number in numbers[:2]] == [document(n) for n in numbers[:2]]
            # Without its end alone it is whole.
            assert (found.read(key(numbers[2])) is not None) == (missing == 1)
            found.write(key(3), document(3))
        assert all_of(tmp_path, 3) == [document(3)]
        assert path.read_bytes().count(b"\n") == 3 + (missing == 1)


def test_a_damaged_line_is_named_where_it_may_be_the_one(tmp_path: Path) -> None:
    written = tape(tmp_path)
    for number in range(3):
        written.write(key(number), document(number))
    written.close()
    path = tmp_path / "tape.jsonl"
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1].replace(b'{"key"', b'{"kye"')
    path.write_bytes(b"\n".join(lines))
    numbers = sorted(range(3), key=key)
    assert all_of(tmp_path, numbers[2]) == [document(numbers[2])]
    with pytest.raises(DamagedLineError, match=f"line 2 of {path}"):
        all_of(tmp_path, numbers[1])
    # Written otherwise, but whole.
    lines[1] = json.dumps({"key": key(numbers[1]), **json.loads(document(numbers[1]))}, indent=None).encode()
    path.write_bytes(b"\n".join(lines))
    assert all_of(tmp_path, numbers[1]) == [document(numbers[1])]


def test_files_of_earlier_versions_are_read_beside_lines(tmp_path: Path) -> None:
    files = JsonFiles(tmp_path / "earlier")
    for number in range(3):
        files.write(key(number), document(number))
    both = tape(tmp_path)
    both.write(key(1), document(11))
    both.write(key(3), document(3))
    assert [content(both.read(key(number))) for number in range(4)] == [document(n) for n in (0, 11, 2, 3)]
    assert [*both.keys()] == sorted(map(key, range(4)))
    both.close()
    assert sorted(path.stem for path in (tmp_path / "earlier").iterdir()) == sorted([key(0), key(2)])
    assert all_of(tmp_path, *range(4)) == [document(n) for n in (0, 11, 2, 3)]


WRITER = """
import sys
from pathlib import Path
from tests.llm.test_documents import document, key, tape
written = tape(Path(sys.argv[1]))
print("up", flush=True)
sys.stdin.readline()
for number in range(*map(int, sys.argv[2:])):
    written.write(key(number), document(number))
    if number % 10 == 0:
        assert written.read(key(number)) is not None
written.close()
"""


@pytest.mark.full
@pytest.mark.races
def test_several_processes_record_at_a_time_and_one_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(start), str(end)],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        # The last one never comes to its end.
        for start, end in ((0, 100), (100, 200), (200, 300), (300, 10**9))
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdin is not None
        writer.stdout.readline()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    path = tmp_path / "tape.jsonl"
    while not path.exists():
        pass
    os.kill(writers[3].pid, signal.SIGKILL)
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0, -signal.SIGKILL]
    for writer in writers:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.close()
        writer.stdout.close()
    assert all_of(tmp_path, *range(300)) == [document(n) for n in range(300)]
    # The killed one may have left a file half sorted: the next that writes removes it.
    (tmp_path / ".tape.jsonl.half").write_bytes(b"{")
    after = tape(tmp_path)
    after.write(key(0), document(0))
    after.close()
    assert not [*tmp_path.glob(".*")]
    assert all_of(tmp_path, *range(300)) == [document(n) for n in range(300)]
