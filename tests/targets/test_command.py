"""Commands that answer, misbehave and leave things behind; all of them real processes."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.model.cases import FileInput
from holodeck_action.suite.values import Case
from holodeck_action.targets.command import CommandAgent
from holodeck_action.targets.protocol import Reply, seed_of
from tests.tables import walk
from tests.targets.conversations import MAX_BYTES, answer, ask, converse, failure, make_case, run
from tests.workers.support import CODE

ONE = make_case("one")
TALK = make_case("talk", "first", "second", name="Talk")

MakeAgent = Callable[..., CommandAgent]

READ = "import json, os, signal, subprocess, sys, time\n"
ECHO = READ + "for line in sys.stdin:\n    print(json.dumps({'response': line}))\n"


@pytest.fixture
def agent(tmp_path: Path) -> MakeAgent:
    """Make an agent of a Python program's text, started as `python agent.py` in the suite's folder."""

    def make(
        program: str, *arguments: str, environ: Mapping[str, str] | None = None, max_bytes: int = MAX_BYTES
    ) -> CommandAgent:
        (tmp_path / "agent.py").write_text(program, "utf-8")
        command = shlex.join([sys.executable, "agent.py", *arguments])
        return CommandAgent(command, tmp_path, os.environ if environ is None else environ, max_bytes, str, code=CODE)

    return make


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended but is not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(pid: int) -> None:
    until = time.monotonic() + 60
    while alive(pid):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            pytest.fail(f"process {pid} was left behind")
        time.sleep(0.01)


# -- the exchange


def test_a_request_tells_the_whole_turn(agent: MakeAgent) -> None:
    case = Case(
        TALK.id,
        TALK.name,
        TALK.content_hash,
        TALK.mark,
        make_case(
            "talk",
            "first",
            "secönd",
            turn_config={"k": [1]},
            files=(FileInput(path="docs/a.pdf", type="pdf"), FileInput(url="https://example.org/b", type="text")),
        ).turns,
        multi_turn=True,
    )
    replies = ask(agent(ECHO), case, trial=3)
    first, second = (json.loads(reply.response) for reply in replies if isinstance(reply, Reply))
    assert isinstance(replies[0], Reply)
    said = replies[0].response
    common = {"case": "talk", "name": "Talk", "trial": 3, "files": ["docs/a.pdf", "https://example.org/b"]}
    common |= {"turn_config": {"k": [1]}, "tags": [], "session": first["session"], "seed": seed_of("talk", 3)}
    assert first == {"turn": 0, "input": "first", "messages": [{"role": "user", "content": "first"}], **common}
    messages = [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": said},
        {"role": "user", "content": "secönd"},
    ]
    assert second == {"turn": 1, "input": "secönd", "messages": messages, **common}


def test_one_process_holds_one_conversation(agent: MakeAgent) -> None:
    program = (
        READ + "print_ = lambda value: print(json.dumps(value))\nfor line in sys.stdin: print_(str(os.getpid()))\n"
    )

    async def two_conversations() -> list[Reply | AgentError]:
        shared = agent(program)
        first, second = await asyncio.gather(converse(shared, TALK), converse(shared, TALK))
        await shared.close()
        return [*first, *second]

    pids = [reply.response for reply in run(two_conversations()) if isinstance(reply, Reply)]
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_a_reply_may_be_a_mapping_text_or_the_unfinished_last_line(agent: MakeAgent) -> None:
    mapping = {"response": "7 days", "tool_invocations": [{"name": "search", "args": {"q": 1}, "result": "x"}]}
    program = READ + f"sys.stdin.readline(); print('\\n  \\n' + {json.dumps(mapping)!r})"
    assert answer(agent(program), ONE) == Reply("7 days", (ToolInvocation("search", {"q": 1}, "x", 1),))
    assert answer(agent(READ + "sys.stdin.readline(); sys.stdout.write('\"text\"')"), ONE) == Reply("text")


def test_the_process_runs_in_the_suite_folder_without_a_shell(agent: MakeAgent, tmp_path: Path) -> None:
    program = READ + "sys.stdin.readline(); print(json.dumps(os.getcwd() + '|' + '|'.join(sys.argv[1:])))"
    assert answer(agent(program, "a b", "$HOME;*"), ONE) == Reply(f"{tmp_path}|a b|$HOME;*")


def test_a_program_may_lie_in_the_suite_folder(tmp_path: Path) -> None:
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\nread line\necho '\"from a script\"'\n")
    program.chmod(0o755)
    assert answer(CommandAgent("./agent.sh", tmp_path, os.environ, MAX_BYTES, str, code=CODE), ONE) == Reply(
        "from a script"
    )


def test_the_process_sees_the_job_without_its_tokens(agent: MakeAgent) -> None:
    tokens = ["GITHUB_TOKEN", "GH_TOKEN", "INPUT_GITHUB-TOKEN", "INPUT_GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN"]
    tokens += ["ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"]
    environ = {"PATH": os.environ["PATH"], "AGENT_KEY": "kept", **dict.fromkeys(tokens, "secret")}
    program = READ + "sys.stdin.readline(); print(json.dumps({'response': dict(os.environ)}))"
    seen = json.loads(answer(agent(program, environ=environ), ONE).response)
    assert seen["AGENT_KEY"] == "kept"
    assert not seen.keys() & set(tokens)
    assert "secret" not in seen.values()


def test_long_requests_and_replies_do_not_block_each_other(agent: MakeAgent) -> None:
    # The program fills its output pipe before it reads, and its input is longer than a pipe holds.
    program = READ + "print(json.dumps('x' * 300_000)); sys.stdin.readline(); time.sleep(600)"
    assert answer(agent(program), make_case("long", "y" * 1_000_000)) == Reply("x" * 300_000)


def test_a_process_that_closes_its_input_may_still_answer(agent: MakeAgent) -> None:
    program = READ + "os.close(0)\nprint(json.dumps('deaf'), flush=True)\ntime.sleep(600)"
    replies = ask(agent(program), make_case("talk", "x" * 1_000_000))
    assert replies == [Reply("deaf")]


def test_a_conversation_ends_with_the_end_of_input(agent: MakeAgent, tmp_path: Path) -> None:
    program = ECHO + "print('x' * 10_000_000)\nopen('farewell', 'w').write('written after the last turn')\n"
    answer(agent(program), ONE)
    assert (tmp_path / "farewell").read_text() == "written after the last turn"


# -- processes that misbehave


def test_a_line_that_is_not_json_is_a_bad_reply(agent: MakeAgent) -> None:
    program = (
        READ
        + "print('why', file=sys.stderr)\nsys.stdin.readline()\nprint('Loading model\\x1b[2J… 50%')\ntime.sleep(600)"
    )
    error = failure(agent(program), ONE)
    assert (error.code, error.message) == (
        "bad_reply",
        "the command wrote a line that is not JSON (Expecting value at column 1): Loading model [2J… 50% "
        "(write logs to stderr)",
    )
    assert error.context == {"stderr": "why\n"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("\\xff\\xfe\\x00\\x01", "is not JSON"),
        ('{\\"response\\": NaN}', "NaN is not a JSON value"),
        ("[" * 100_000, "nested too deeply"),
        ('{\\"response\\": \\"a\\", \\"tools\\": []}', "unknown key `tools`"),
        ("null", "must be text or an object with `response`, not null"),
        ("x" * 500_000, "x…"),
    ],
)
def test_garbage_is_a_bad_reply_with_a_short_excerpt(agent: MakeAgent, line: str, reason: str) -> None:
    program = READ + f'sys.stdout.buffer.write(b"{line}\\n"); sys.stdout.flush(); time.sleep(600)'
    error = failure(agent(program), ONE)
    assert error.code == "bad_reply"
    assert reason in error.message
    assert len(error.message) < 400


def test_two_lines_for_one_turn_are_found_out(agent: MakeAgent) -> None:
    program = READ + 'sys.stdin.readline(); sys.stdout.write(\'"a"\\n"b"\\n\'); sys.stdout.flush(); time.sleep(600)'
    first, second = ask(agent(program), TALK)
    assert first == Reply("a")
    assert isinstance(second, AgentError)
    assert (second.code, second.message) == (
        "bad_reply",
        "the command answered the previous turn with more than one line",
    )


@pytest.mark.parametrize("flood", ["'x' * 65536", "'\\x00' * 65536"])
def test_a_flood_without_a_line_end_is_too_large(agent: MakeAgent, tmp_path: Path, flood: str) -> None:
    program = READ + f"open('pid', 'w').write(str(os.getpid()))\nwhile True: sys.stdout.write({flood})"
    error = failure(agent(program, max_bytes=10_000), ONE)
    assert (error.code, error.message) == (
        "too_large",
        "the command wrote a line of more than 60000 bytes (see limits.max_response_bytes); it was stopped",
    )
    wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_flood_of_answers_waits_in_its_own_pipe(agent: MakeAgent) -> None:
    program = READ + "sys.stdin.readline()\nwhile True: sys.stdout.write('\"more\"\\n' * 100_000)"
    first, second = ask(agent(program, max_bytes=1000), TALK)
    assert first == Reply("more")
    assert isinstance(second, AgentError)
    assert second.message == "the command answered the previous turn with more than one line"


def test_a_flood_on_stderr_neither_blocks_nor_fills_memory(agent: MakeAgent) -> None:
    program = READ + "sys.stderr.write('e' * 20_000_000 + 'the end'); sys.exit(1)"
    error = failure(agent(program), ONE)
    assert error.code == "crashed"
    kept = error.context["stderr"]
    assert isinstance(kept, str)
    assert kept.startswith("…e")
    assert kept.endswith("the end")
    assert len(kept) < 10_000


def test_a_reply_over_the_limit_is_too_large(agent: MakeAgent) -> None:
    program = READ + "sys.stdin.readline(); print(json.dumps('x' * 101))"
    assert failure(agent(program, max_bytes=100), ONE).code == "too_large"
    assert answer(agent(program, max_bytes=101), ONE) == Reply("x" * 101)


@pytest.mark.parametrize(
    ("end", "phrase", "exit_code"),
    [
        ("sys.exit(3)", "exited with code 3", 3),
        ("pass", "exited with code 0", 0),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV", -11),
        ("os.abort()", "was killed by SIGABRT", -6),
    ],
)
def test_a_process_that_ends_is_a_crash_with_its_last_words(
    agent: MakeAgent, end: str, phrase: str, exit_code: int
) -> None:
    program = READ + f"print('hint\\nreason', file=sys.stderr, flush=True)\nsys.stdin.readline()\n{end}"
    error = failure(agent(program), ONE)
    assert (error.code, error.message) == (
        "crashed",
        f"the command {phrase} without answering; its last line on stderr: reason",
    )
    assert error.context == {"exit_code": exit_code, "stderr": "hint\nreason\n"}


def test_a_process_that_answers_once_and_ends_fails_the_next_turn(agent: MakeAgent) -> None:
    first, second = ask(agent(READ + "sys.stdin.readline(); print(json.dumps('bye'))"), TALK)
    assert first == Reply("bye")
    assert isinstance(second, AgentError)
    assert second.message == "the command exited with code 0 without answering"


def test_a_process_that_closes_its_output_is_stopped(agent: MakeAgent, tmp_path: Path) -> None:
    program = READ + "open('pid', 'w').write(str(os.getpid()))\nos.close(1)\ntime.sleep(600)"
    error = failure(agent(program), ONE)
    assert (error.code, error.message) == (
        "crashed",
        "the command closed its output without answering; it was stopped",
    )
    wait_until_gone(int((tmp_path / "pid").read_text()))


def test_a_failed_conversation_stays_failed(agent: MakeAgent) -> None:
    program = READ + "print('garbage', flush=True)\nfor line in sys.stdin: print(json.dumps('fine'))"
    _, second = ask(agent(program), TALK)
    assert isinstance(second, AgentError)
    assert (second.code, second.message) == ("session_ended", "the command was stopped after an earlier turn failed")


# -- what is left behind

CHILD = "subprocess.Popen(['sleep', '1000']).pid"
DAEMON = "subprocess.Popen(['sleep', '1000'], start_new_session=True, stdout=subprocess.DEVNULL).pid"
QUIET = (
    "subprocess.Popen(['sleep', '1000'], start_new_session=True, stdin=subprocess.DEVNULL, "
    "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).pid"
)


@pytest.mark.parametrize("child", [CHILD, DAEMON, QUIET])
@pytest.mark.parametrize(
    "rest",
    [
        "print(json.dumps('done'))",
        "print(json.dumps('done')); sys.stdin.read()",
        "print('garbage'); time.sleep(1000)",
        "os._exit(1)",
    ],
    ids=["answers and ends", "answers and waits", "is stopped", "dies"],
)
def test_children_end_with_the_conversation(agent: MakeAgent, tmp_path: Path, child: str, rest: str) -> None:
    ask(agent(READ + f"open('pid', 'w').write(str({child}))\nsys.stdin.readline()\n{rest}"), ONE)
    wait_until_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.races
def test_a_deadline_ends_the_process_and_its_children_at_once(agent: MakeAgent, tmp_path: Path) -> None:
    program = (
        READ
        + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        + f"pids = [os.getpid(), {CHILD}, {DAEMON}]\n"
        + "open('pids.new', 'w').write(json.dumps(pids))\nos.rename('pids.new', 'pids')\nwhile True: time.sleep(1)"
    )

    async def cancelled_once_it_runs() -> AgentError | None:
        under_test = agent(program)
        session = await under_test.open(ONE, 0)
        sending = asyncio.create_task(session.send(ONE.turns[0]))
        while not (tmp_path / "pids").exists():  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        for pid in json.loads((tmp_path / "pids").read_text()):
            wait_until_gone(pid)
        try:
            await session.send(ONE.turns[0])
        except AgentError as error:
            return error
        finally:
            await session.close()
        return None

    error = run(cancelled_once_it_runs())
    assert error is not None
    assert error.code == "session_ended"


@pytest.mark.races
def test_a_process_that_ignores_the_end_of_input_and_sigterm_is_killed(agent: MakeAgent, tmp_path: Path) -> None:
    program = (
        READ
        + "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('pid', 'w').write(str(os.getpid()))\n"
        + "sys.stdin.readline()\nprint(json.dumps('yes'))\nwhile True: time.sleep(1)"
    )
    assert answer(agent(program), ONE) == Reply("yes")
    wait_until_gone(int((tmp_path / "pid").read_text()))


def test_no_descriptors_are_left_open(agent: MakeAgent) -> None:
    async def many() -> None:
        before = len(os.listdir("/proc/self/fd"))
        for program in (ECHO, "print('garbage')", "import os; os._exit(1)"):
            shared = agent(program)
            for _ in range(5):
                await converse(shared, ONE)
            # The event loop closes what belonged to an ended process a moment later; the bound of `run` ends this.
            while len(os.listdir("/proc/self/fd")) > before + 2:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.01)

    run(many())


# -- commands that cannot start


@walk(
    ("command", "message"),
    [
        ("", "the command is empty; write the program and its arguments"),
        ("  ", "the command is empty; write the program and its arguments"),
        ("agent 'a", "the command is wrongly quoted: no closing quotation"),
        ("no-such-program-here --x", "command not found: no-such-program-here (it is not on the PATH)"),
        (
            "./missing.sh",
            "command not found: ./missing.sh (the path, relative to the suite's folder, is not an executable file)",
        ),
        (
            "./plain.txt",
            "command not found: ./plain.txt (the path, relative to the suite's folder, is not an executable file)",
        ),
    ],
)
def test_a_command_that_cannot_be_run_is_a_configuration_error(tmp_path: Path, command: str, message: str) -> None:
    (tmp_path / "plain.txt").write_text("not executable")
    with pytest.raises(TargetError) as caught:
        CommandAgent(command, tmp_path, os.environ, MAX_BYTES, str, code=CODE)
    assert str(caught.value) == message


def test_a_program_that_does_not_start_is_the_error_of_the_case(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    error = failure(CommandAgent("./agent", tmp_path, os.environ, MAX_BYTES, str, code=CODE), ONE)
    assert (error.code, error.message) == (
        "cannot_start",
        "the command ./agent cannot be started: No such file or directory",
    )
