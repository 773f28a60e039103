"""Transcripts: JSON lines and YAML, whole and broken."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.record.record import RetrievedChunk, ToolInvocation
from holodeck_action.suite.values import Case
from holodeck_action.targets.protocol import Reply
from holodeck_action.targets.recorded import RecordedAgent
from tests.tables import walk
from tests.targets.conversations import MAX_BYTES, answer, ask, failure, make_case, run

ALPHA = make_case("alpha", name="Alpha")
BETA = make_case("beta", name="Beta")
TALK = make_case("talk", "one", "two", name="Talk")
CASES = (ALPHA, BETA, TALK)

OpenAgent = Callable[..., RecordedAgent]


@pytest.fixture
def transcript(tmp_path: Path) -> Iterator[OpenAgent]:
    """Write a transcript and open it: rows as values, or as the text of a line."""
    opened: list[RecordedAgent] = []

    def write(*rows: object, cases: tuple[Case, ...] = CASES, max_bytes: int = MAX_BYTES) -> RecordedAgent:
        path = tmp_path / "t.jsonl"
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        opened.append(RecordedAgent(path, "t.jsonl", cases, max_bytes))
        return opened[-1]

    yield write
    for agent in opened:
        run(agent.close())


@pytest.fixture
def yaml_transcript(tmp_path: Path) -> OpenAgent:
    def write(text: str, cases: tuple[Case, ...] = CASES) -> RecordedAgent:
        path = tmp_path / "t.yaml"
        path.write_text(text, "utf-8")
        return RecordedAgent(path, "t.yaml", cases, MAX_BYTES)

    return write


def row(case: str, response: object = "r", **entries: object) -> dict[str, object]:
    return {"case": case, "response": response, **entries}


# -- reading


def test_rows_answer_cases_by_id_and_by_name(transcript: OpenAgent) -> None:
    agent = transcript(
        row("alpha", "by id"), row("Beta", "by name"), row("talk", "first"), row("Talk", "second", turn=1)
    )
    assert agent.notices == ()
    assert answer(agent, ALPHA) == Reply("by id")
    agent = transcript(
        row("alpha", "by id"), row("Beta", "by name"), row("talk", "first"), row("Talk", "second", turn=1)
    )
    assert ask(agent, TALK) == [Reply("first"), Reply("second")]


def test_the_trial_must_be_recorded_itself(transcript: OpenAgent) -> None:
    rows = (row("alpha", "zero"), row("alpha", "two", trial=2))
    assert answer(transcript(*rows), ALPHA) == Reply("zero")
    assert answer(transcript(*rows), ALPHA, trial=2) == Reply("two")
    error = failure(transcript(*rows), ALPHA, trial=1)
    assert error.code == "missing_transcript"
    assert error.message == "t.jsonl has no answer for case Alpha, turn 0, trial 1"


def test_every_entry_of_a_row_is_read(transcript: OpenAgent) -> None:
    agent = transcript(
        row(
            "alpha",
            tool_invocations=[{"name": "search", "args": {"q": "x"}, "result": "ok"}],
            retrieval_context=["text"],
            retrieved_chunks=[{"id": "c", "text": "chunk", "score": 1}],
        )
    )
    assert answer(agent, ALPHA) == Reply(
        "r", (ToolInvocation("search", {"q": "x"}, "ok", 2),), ("text",), (RetrievedChunk("c", "chunk", 1.0),)
    )


def test_blank_lines_line_ends_and_a_byte_order_mark_are_no_matter(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf"
        + json.dumps(row("alpha", "one")).encode()
        + b"\r\n\r\n  \n"
        + json.dumps(row("beta", "é")).encode()
    )
    agent = RecordedAgent(path, "t.jsonl", CASES, MAX_BYTES)
    assert agent.notices == ()
    replies = ask(agent, ALPHA)
    assert replies == [Reply("one")]
    assert answer(RecordedAgent(path, "t.jsonl", CASES, MAX_BYTES), BETA) == Reply("é")


def test_yaml_rows_are_read_as_json_would_have_them(yaml_transcript: OpenAgent) -> None:
    text = """
- case: alpha
  response: |
    two
    lines
  tool_invocations:
    - {name: book, args: {day: 2026-01-31, seats: 2, vip: true}, result: null}
- {case: Beta, turn: 0, trial: 0, response: {total: 1.5}}
"""
    assert answer(yaml_transcript(text), ALPHA) == Reply(
        "two\nlines\n", (ToolInvocation("book", {"day": "2026-01-31", "seats": 2, "vip": True}),)
    )
    assert answer(yaml_transcript(text), BETA) == Reply('{"total": 1.5}')


# -- rows that cannot be used


GOOD = row("beta", "unharmed")


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        ('{"case": "alpha", "turn": 0, "response": "cut of', "the line is not JSON"),
        ('{"response": "x", "case": "alpha", }', "the line is not JSON"),
        ('{"tool_invocations": [{"case": "beta"}], "case": "alpha", "response": NaN}', "NaN is not a JSON value"),
        ('{"case": "alpha", "response": "a" "b"}', "the line is not JSON"),
        ('{"case": "alpha", "response": ' + "[" * 100_000, "nested too deeply"),
        ('{"case": "alpha", "response": ' + "9" * 5000 + "}", "a number too long to read"),
        ({"case": "alpha", "response": "x", "tunr": 0}, "unknown key `tunr` (did you mean `turn`?)"),
        ({"case": "alpha", "response": "x", "turn": "0"}, "`turn` must be a whole number of at least 0"),
        ({"case": "alpha", "response": "x", "trial": -1}, "`trial` must be a whole number of at least 0"),
        ({"case": "alpha", "response": "x", "turn": True}, "`turn` must be a whole number of at least 0"),
        ({"case": "alpha", "response": "x", "turn": 1.0}, "`turn` must be a whole number of at least 0"),
    ],
)
def test_a_broken_row_is_the_error_of_the_case_it_names(transcript: OpenAgent, broken: object, problem: str) -> None:
    agent = transcript(broken, GOOD)
    assert agent.notices == ()
    error = failure(agent, ALPHA)
    assert error.code == "bad_transcript"
    assert error.message.startswith("t.jsonl:1: the row of case Alpha cannot be used: ")
    assert problem in error.message
    assert answer(transcript(broken, GOOD), BETA) == Reply("unharmed")


@pytest.mark.parametrize(
    ("broken", "code", "message"),
    [
        ({"case": "alpha"}, "bad_reply", "t.jsonl:1: the reply has no `response`"),
        (row("alpha", 42), "bad_reply", "t.jsonl:1: response must be text, an object or a list, not a number"),
        (
            row("alpha", tool_invocations=[{"name": 1}]),
            "bad_reply",
            "t.jsonl:1: tool_invocations[0].name must be text, not a number",
        ),
        (
            row("alpha", "x" * 1001),
            "too_large",
            "t.jsonl:1: the reply holds more than 1000 bytes, the most that limits.max_response_bytes allows; "
            "it overflows at response",
        ),
    ],
)
def test_a_broken_reply_is_the_error_of_its_case(
    transcript: OpenAgent, broken: object, code: str, message: str
) -> None:
    error = failure(transcript(broken, GOOD, max_bytes=1000), ALPHA)
    assert (error.code, error.message) == (code, message)
    assert answer(transcript(broken, GOOD, max_bytes=1000), BETA) == Reply("unharmed")


def test_a_line_of_fifty_megabytes_is_the_error_of_its_case_and_is_never_held(
    transcript: OpenAgent, tmp_path: Path
) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("wb") as file:
        file.write(b'{"case": "alpha", "response": "')
        for _ in range(50):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + json.dumps(GOOD).encode() + b"\n")
    tracemalloc.start()
    agent = RecordedAgent(path, "big.jsonl", CASES, MAX_BYTES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    error = failure(agent, ALPHA)
    assert error.code == "bad_transcript"
    assert "the line is longer than 6065536 bytes (see limits.max_response_bytes)" in error.message
    assert answer(RecordedAgent(path, "big.jsonl", CASES, MAX_BYTES), BETA) == Reply("unharmed")
    assert peak < 30_000_000


@pytest.mark.parametrize(
    ("unusable", "notice"),
    [
        ("not JSON at all", "the line is not JSON (Expecting value at column 1)"),
        ('{"response": "unfinished, "case": "alpha"}', "the line is not JSON (Expecting ',' delimiter at column 28)"),
        ("[1, 2]", "the row is not an object"),
        ('"text"', "the row is not an object"),
        ({"response": "x"}, "no case is named"),
        (row(3), "`case` must be text, not a number"),  # type: ignore[arg-type]
        (row("Alpah"), "the suite has no case Alpah (did you mean Alpha?)"),
        (row("x" * 500), f"the suite has no case {'x' * 80}…"),
        (row("alpha", turn=3), "case Alpha has 1 turn, so turn 3 is never run"),
        (row("talk", turn=2), "case Talk has 2 turns, so turn 2 is never run"),
    ],
)
def test_a_row_that_serves_no_case_is_told(transcript: OpenAgent, unusable: object, notice: str) -> None:
    # A good row comes first: a file that starts with a list is refused as a whole.
    agent = transcript(GOOD, unusable)
    assert agent.notices == (f"t.jsonl:2: the row cannot be used: {notice}",)
    assert answer(agent, BETA) == Reply("unharmed")


def test_many_unusable_rows_are_counted(transcript: OpenAgent) -> None:
    agent = transcript(GOOD, *[row(f"nobody {index}") for index in range(2000)])
    assert len(agent.notices) == 11
    assert agent.notices[-1] == "t.jsonl: 1990 more rows cannot be used"


def test_a_broken_row_of_one_turn_leaves_the_other_turns(transcript: OpenAgent) -> None:
    agent = transcript(row("talk", "first"), '{"case": "talk", "turn": 1, "response": "cut')
    first, second = ask(agent, TALK)
    assert first == Reply("first")
    assert isinstance(second, AgentError)
    assert second.message.startswith("t.jsonl:2: the row of case Talk cannot be used: the line is not JSON")


def test_a_broken_row_whose_turn_is_lost_is_the_error_of_the_whole_case(transcript: OpenAgent) -> None:
    rows = ('{"case": "talk", "response": "cut', row("talk", "first"), row("talk", "second", turn=1))
    (error,) = ask(transcript(*rows), TALK)
    assert isinstance(error, AgentError)
    assert error.message.startswith("t.jsonl:1: the row of case Talk cannot be used: the line is not JSON")


def test_two_rows_for_one_answer_are_an_error_of_that_answer(transcript: OpenAgent) -> None:
    rows = (row("talk", "a"), row("talk", "b", turn=1), row("Talk", "c"), GOOD)
    first, second = ask(transcript(*rows), TALK)
    assert isinstance(first, AgentError)
    assert first.code == "duplicate_transcript"
    assert first.message == "t.jsonl: lines 1 and 3 both answer case Talk, turn 0, trial 0"
    assert second == Reply("b")
    assert answer(transcript(*rows), BETA) == Reply("unharmed")


def test_a_name_that_two_cases_share_names_neither(transcript: OpenAgent) -> None:
    twins = (make_case("twin-1", name="Twin"), make_case("twin-2", name="Twin"), BETA)
    rows = (row("Twin", "whose?"), row("twin-2", "mine"), GOOD)
    error = failure(transcript(*rows, cases=twins), twins[0])
    assert error.code == "ambiguous_transcript"
    assert error.message == "t.jsonl:1: several cases are named Twin; name one by its id: twin-1, twin-2"
    assert answer(transcript(*rows, cases=twins), twins[1]) == Reply("mine")
    assert answer(transcript(*rows, cases=twins), BETA) == Reply("unharmed")


def test_an_id_comes_before_a_name(transcript: OpenAgent) -> None:
    cases = (make_case("b", name="a"), make_case("a", name="c"))
    assert answer(transcript(row("a", "the id"), cases=cases), cases[1]) == Reply("the id")
    assert failure(transcript(row("a", "the id"), cases=cases), cases[0]).code == "missing_transcript"


def test_a_yaml_value_that_cannot_be_built_breaks_its_own_row_only(yaml_transcript: OpenAgent) -> None:
    text = """
- {case: alpha, response: !!python/object/apply:os.getcwd []}
- {case: beta, response: unharmed}
- {case: talk, turn: 1, response: !secret x}
- {case: talk, response: first}
"""
    error = failure(yaml_transcript(text), ALPHA)
    assert error.code == "bad_transcript"
    assert error.message.startswith("t.yaml:2: the row of case Alpha cannot be used: a value cannot be read (")
    assert answer(yaml_transcript(text), BETA) == Reply("unharmed")
    first, second = ask(yaml_transcript(text), TALK)
    assert first == Reply("first")
    assert isinstance(second, AgentError)


@pytest.mark.full
def test_yaml_parts_that_repeat_or_contain_themselves_are_bounded(yaml_transcript: OpenAgent) -> None:
    bomb = "- &l0 {case: alpha, response: [x]}\n" + "".join(
        f"- &l{level} [{', '.join([f'*l{level - 1}'] * 10)}]\n" for level in range(1, 30)
    )
    text = f"{bomb}- {{case: beta, response: *l29}}\n- &self {{case: talk, response: [*self]}}\n"
    assert answer(yaml_transcript(text), ALPHA) == Reply('["x"]')
    assert failure(yaml_transcript(text), BETA).code in ("too_large", "bad_reply")
    assert failure(yaml_transcript(text), TALK).code == "bad_reply"


# -- files that cannot be used at all


@walk(
    ("name", "content", "message"),
    [
        ("empty.jsonl", b"", "transcript empty.jsonl is empty; it needs a row for every case"),
        ("blank.jsonl", b"\n  \r\n\n", "transcript blank.jsonl is empty; it needs a row for every case"),
        ("empty.yaml", b"# nothing\n", "transcript empty.yaml is empty; it needs a row for every case"),
        ("none.yaml", b"[]", "transcript none.yaml is empty; it needs a row for every case"),
        (
            "list.json",
            b'\n[{"case": "alpha"}]',
            "transcript list.json holds a JSON list; write one JSON object per line, or name the file .yaml",
        ),
        ("map.yml", b"case: alpha\n", "transcript map.yml must be a YAML list of rows"),
        (
            "broken.yaml",
            b"- case: alpha\n  response: [a\n",
            "transcript broken.yaml:3:1 is not YAML: did not find expected ',' or ']'",
        ),
        ("deep.yaml", b"[" * 200_000, "transcript deep.yaml is nested more than 200 levels deep"),
    ],
)
def test_a_file_that_is_no_transcript_is_refused(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TargetError) as caught:
        RecordedAgent(tmp_path / name, name, CASES, MAX_BYTES)
    assert str(caught.value) == message


@walk(
    ("path", "message"),
    [
        ("missing.jsonl", "transcript T does not exist"),
        ("missing.yaml", "transcript T does not exist"),
        (".", "transcript T is not a regular file"),
        ("/dev/zero", "transcript T is not a regular file (a pipe, a device or a socket)"),
        ("x" * 300, "transcript T cannot be read: File name too long"),
        ("nul\0.yaml", "transcript T is not a path of a file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, path: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        RecordedAgent(tmp_path / path, "T", CASES, MAX_BYTES)
    assert str(caught.value) == message


def test_bytes_that_are_not_utf8_break_their_row_only(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"case": "alpha", "response": "\xff"}\n' + json.dumps(GOOD).encode())
    assert failure(RecordedAgent(path, "t.jsonl", CASES, MAX_BYTES), ALPHA).code == "bad_transcript"
    assert answer(RecordedAgent(path, "t.jsonl", CASES, MAX_BYTES), BETA) == Reply("unharmed")


def test_a_transcript_that_changes_during_the_run_is_an_error(transcript: OpenAgent, tmp_path: Path) -> None:
    agent = transcript(row("alpha", "x" * 50), GOOD)
    (tmp_path / "t.jsonl").write_text("\n" * 400)
    error = failure(agent, ALPHA)
    assert (error.code, error.message) == (
        "bad_transcript",
        "t.jsonl:1: the transcript was changed while it was read",
    )


@pytest.mark.full
def test_memory_does_not_grow_with_the_answers(tmp_path: Path) -> None:
    cases = tuple(make_case(f"case-{index}") for index in range(10_000))
    peaks = []
    for size in (10, 5000):
        path = tmp_path / f"{size}.jsonl"
        with path.open("w") as file:
            file.writelines(json.dumps(row(case.id, "x" * size)) + "\n" for case in cases)
        tracemalloc.start()
        agent = RecordedAgent(path, "t.jsonl", cases, MAX_BYTES)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert answer(agent, cases[-1]).response == "x" * size
    assert peaks[1] < 1.5 * peaks[0]
