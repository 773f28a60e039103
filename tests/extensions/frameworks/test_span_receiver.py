"""Whatever is sent to the receiver of spans: it answers, holds little, and the run goes on beside it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holodeck_action.record.record import TurnRecord
from tests.commands.project import Project
from tests.extensions.frameworks.span_sender import SENDER

Sent = Callable[..., tuple[Any, TurnRecord]]


@pytest.fixture
def sent(project: Project, port: int) -> Iterator[Sent]:
    """Has the service send what one of its functions sends; returns what came of it, and the (last) turn."""
    project.write("sender.py", SENDER)
    process = subprocess.Popen(
        [sys.executable, "sender.py"],
        cwd=project.folder,
        env=project.environ(SPANS_PORT=str(port)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )

    def send(way: str, turns: int = 1) -> tuple[Any, TurnRecord]:
        project.suite([{"name": "a", "turns": [{"input": "?", "ground_truth": "x"}] * turns}])
        target = f"http://127.0.0.1:{address}/{way}"
        project.policy(target=target, spans={"port": port}, limits={"turn_timeout_s": 200, "case_timeout_s": 300})
        _, record = project.evaluate()
        *_, turn = record.turns
        assert all(each.error is None for each in record.turns)
        return json.loads(turn.response or ""), turn

    with process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield send
        process.kill()


def _tools(turn: TurnRecord) -> list[str]:
    return [call.name for call in turn.tool_invocations or ()]


def test_requests_of_another_shape_are_refused_in_one_line(sent: Sent) -> None:
    found, turn = sent("shapes")
    assert found == {"taken": [], "without a line": [], "good": "200", "nested": "200"}
    assert _tools(turn) == ["find_order"]


def test_only_requests_that_name_this_address_are_served(sent: Sent) -> None:
    found, turn = sent("hosts")
    # Else a page could send spans, whose own name leads here.
    assert found == {"own": ["200"] * 3, "others": ["421"] * 6, "none": "421", "in the address": "404"}
    assert _tools(turn) == ["find_order"]


@pytest.mark.full
def test_spans_of_no_conversation_push_out_none_that_is_wanted(sent: Sent) -> None:
    # The one that is wanted comes first, and the one that names its conversation last.
    found, turn = sent("strays")
    assert (found, _tools(turn)) == (["200"], ["find_order"])


def test_clients_that_send_nothing_keep_nobody_waiting(sent: Sent) -> None:
    found, turn = sent("idle")
    assert found == {"status": "200", "before they are given up": True, "given up": True}
    assert _tools(turn) == ["find_order"]


@pytest.mark.full
def test_bodies_that_wait_for_their_end_are_bounded_together(sent: Sent) -> None:
    found, turn = sent("bodies")
    assert found == {"statuses": ["200"] * 3, "most are closed": True}
    assert _tools(turn) == ["find_order"]


@pytest.mark.full
def test_whatever_a_client_does_gets_an_answer_and_an_end(sent: Sent) -> None:
    found, turn = sent("connections")
    assert found == {
        "chunks of one byte": "200",
        "a broken chunk": "400",
        "a bomb": "400",
        "a bomb of bombs": "400",
        "gzip": "200",
        "gzip that breaks off": "400",
        "gzip that goes on": "400",
        "no gzip": "400",
        "another coding": "400",
        "HTTP/1.0": "200",
        "half closed": "200",
        "breaks off in the body": "400",
        "breaks off in the head": "HTTP/1.1 400",
        "nothing": "",
        "no HTTP": "400",
        "a large head": "431",
        "a large body": "413",
        "a large body in chunks": "413",
        "two lengths": "400",
        "get": "405",
        "two at once": 2,
        "unread answers": "closed",
        "others wait": False,
        "after all of it": "200",
    }
    assert _tools(turn) == ["find_order"]


@pytest.mark.full
def test_large_requests_do_not_hold_up_what_else_the_run_does(sent: Sent) -> None:
    found, turn = sent("large")
    assert {name: answer for name, (answer, _) in found.items()} == {
        "protobuf": "200",
        "json": "200",
        "what nobody reads": "200",
        "empty resources": "400",
        "no resources": "400",
        "empty values": "400",
        "empty resources in protobuf": "400",
        "empty spans in protobuf": "400",
        "empty attributes in protobuf": "400",
    }
    assert not any(held for _, held in found.values())
    assert _tools(turn) == ["find_order"]


@pytest.mark.full
def test_reading_a_turn_of_many_spans_holds_nothing_up(sent: Sent) -> None:
    held, _ = sent("many", turns=2)
    assert held is False
