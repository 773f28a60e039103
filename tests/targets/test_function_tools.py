"""Functions of the suite as tools: schemas, checks, state, trouble of every kind, and what is recorded."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.metrics.registry import built_in
from holodeck_action.record.record import RetrievedChunk, ToolInvocation
from holodeck_action.suite.errors import SourceMark, SuiteError
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.model.tools import FunctionTool
from holodeck_action.targets.own_model.functions import FunctionTools, load_functions
from holodeck_action.targets.own_model.toolbox import (
    ConversationTools,
    SuiteTools,
    ToolError,
    ToolResult,
    check_arguments,
)
from holodeck_action.workers.pool import WorkerPool
from tests.targets.conversations import run
from tests.workers.support import CODE, running, wait_until, write

MAX_BYTES = 1000


def entry(function: str, file: str = "shop.py", **fields: Any) -> FunctionTool:
    return FunctionTool(
        type="function",
        name=fields.pop("name", function),
        description="Does it",
        file=file,
        function=function,
        **fields,
    )


def one_worker(folder: Path, environ: Mapping[str, str] = os.environ) -> WorkerPool:
    return WorkerPool(folder, environ=environ, cwd=folder, size=1, code=CODE, redact=str)


def with_tools(
    folder: Path,
    entries: list[FunctionTool],
    work: Callable[[FunctionTools], Awaitable[Any]],
    environ: Mapping[str, str] = os.environ,
    clock: Callable[[], float] = time.monotonic,
) -> Any:
    async def bounded() -> Any:
        functions = await load_functions(entries, new_pool=partial(one_worker, folder, environ), clock=clock)
        try:
            return await work(functions)
        finally:
            await functions.close()

    return run(bounded())


def box(functions: FunctionTools, session: str = "one", timeout_s: float | None = 60.0) -> ConversationTools:
    return ConversationTools(
        SuiteTools(functions.tools),
        max_bytes=MAX_BYTES,
        timeout_s=timeout_s,
        clock=time.monotonic,
        session=session,
        redact=str,
    )


def once(
    folder: Path, function: str, timeout_s: float | None = 60.0, environ: Mapping[str, str] = os.environ, **args: Any
) -> tuple[str, ToolInvocation]:
    """Call a function of shop.py, then another one to see that the conversation goes on."""
    with (folder / "shop.py").open("a") as file:
        file.write("\ndef fine():\n    return 'fine'\n")

    async def work(functions: FunctionTools) -> tuple[str, ToolInvocation]:
        tools = box(functions, timeout_s=timeout_s)
        text = await tools.call(function, json.dumps(args))
        assert await tools.call("fine", "") == "fine"
        return text, tools.take_calls().invocations[0]

    answer: tuple[str, ToolInvocation] = with_tools(folder, [entry(function), entry("fine")], work, environ)
    return answer


def parameters(folder: Path, source: str, function: str = "act", **fields: Any) -> dict[str, Any]:
    write(folder, source, "shop")

    async def work(functions: FunctionTools) -> dict[str, Any]:
        return functions.tools[0].definition.parameters

    schema: dict[str, Any] = with_tools(folder, [entry(function, **fields)], work)
    return schema


def refused(folder: Path, *entries: Any, marks: Mapping[str, SourceMark] | None = None) -> list[str]:
    async def work() -> None:
        await load_functions(list(entries), new_pool=partial(one_worker, folder), clock=time.monotonic, marks=marks)

    with pytest.raises(SuiteError) as caught:
        run(work())
    return [str(problem) for problem in caught.value.problems]


def test_the_signature_is_the_schema(tmp_path: Path) -> None:
    schema = parameters(
        tmp_path,
        '''
        from __future__ import annotations
        import enum
        from typing import Annotated, Any, Literal, Optional, TypedDict

        class Colour(enum.Enum):
            RED = "red"
            BLUE = "blue"

        class Item(TypedDict):
            sku: str
            pieces: int

        def act(text: str, n: int, share: float, sure: bool, tags: list[str], extra: dict[str, int], bare,
                kind: Literal["a", "b"], colour: Colour, item: Item, anything: Any, other: Path,
                note: Optional[str] = None, either: int | str = 3, rest: list = (), *,
                many: Annotated[int, "How many"] = 2, odd: object = object()) -> str:
            """Do something.

            Args:
                text: What to say,
                    on two lines.
                n (int): How often.

            Returns:
                bare: not a parameter's description.
            """
        ''',
    )
    assert schema == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What to say, on two lines."},
            "n": {"type": "integer", "description": "How often."},
            "share": {"type": "number"},
            "sure": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "extra": {"type": "object", "additionalProperties": {"type": "integer"}},
            "bare": {"type": "string"},
            "kind": {"type": "string", "enum": ["a", "b"]},
            "colour": {"type": "string", "enum": ["red", "blue"]},
            "item": {
                "type": "object",
                "properties": {"sku": {"type": "string"}, "pieces": {"type": "integer"}},
                "required": ["pieces", "sku"],
                "additionalProperties": False,
            },
            "anything": {},
            "other": {"type": "string"},
            "note": {"type": ["string", "null"], "default": None},
            "either": {"type": ["integer", "string"], "default": 3},
            "rest": {"type": "array", "items": {}, "default": []},
            "many": {"type": "integer", "description": "How many", "default": 2},
            "odd": {},
        },
        "required": [
            *("text", "n", "share", "sure", "tags", "extra", "bare", "kind", "colour", "item", "anything", "other"),
        ],
        "additionalProperties": False,
    }


def test_an_unreadable_hint_makes_no_other_unreadable_function(tmp_path: Path) -> None:
    schema = parameters(tmp_path, "def act(a: 'Missing', b: int = 1, **more):\n    ':param str a: The first.'\n")
    assert schema["properties"]["a"] == {"type": "string", "description": "The first."}
    assert schema["additionalProperties"] is True


@pytest.mark.proves("FunctionTool: parameters")
def test_given_parameters_are_the_schema_and_all_required(tmp_path: Path) -> None:
    given = {"order": {"type": "string", "pattern": "^LF-"}, "n": {"type": "integer"}}
    source = "def act(order, n=1): return order * n"
    schema = parameters(tmp_path, source, parameters=given)
    assert schema == {
        "type": "object",
        "properties": given,
        "required": ["order", "n"],
        "additionalProperties": False,
    }
    whole = {"type": "object", "properties": given, "required": ["order"]}
    assert parameters(tmp_path, source, parameters=whole) == whole


def test_every_tool_that_cannot_be_called_is_named_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "def act(order): return order\nnumber = 3\n", "shop")
    write(tmp_path, "import json\njson.loads('x')\n", "broken")
    marks = {name: SourceMark("agent.yaml", line, 5) for line, name in enumerate("abcdefgh", start=10)}
    assert refused(
        tmp_path,
        entry("act", name="a", file="shap.py"),
        entry("acts", name="b"),
        entry("number", name="c"),
        entry("act", name="d", file="broken.py"),
        entry("act", name="e", parameters={"ordre": {"type": "string"}}),
        entry("act", name="f", parameters={}),
        entry("act", name="g", parameters={"order": {"type": "text"}}),
        entry("act", name="h", parameters={"order": "string"}),
        entry("act", name="fine"),
        marks=marks,
    ) == [
        "agent.yaml:10:5: tools[0].file: shap.py:act: the file does not exist (allowed: a path relative to agent.yaml)",
        "agent.yaml:11:5: tools[1].function: shop.py:acts: shop.py has no acts; did you mean act?",
        "agent.yaml:12:5: tools[2].function: shop.py:number: number in shop.py is of type int, not callable",
        "agent.yaml:13:5: tools[3].file: broken.py:act: importing broken.py raised JSONDecodeError: "
        "Expecting value: line 1 column 1 (char 0) (broken.py:2)",
        'agent.yaml:14:5: tools[4].parameters: the function act has no parameter "ordre" (it takes order)',
        'agent.yaml:15:5: tools[5].parameters: the function act needs "order", which `parameters` does not name; '
        "add it, or give the parameter a default",
        "agent.yaml:16:5: tools[6].parameters: properties.order.type: "
        "'text' is not valid under any of the given schemas",
        'agent.yaml:17:5: tools[7].parameters: "order" must be a JSON schema, such as {type: string}',
    ]


def test_the_line_is_the_one_of_agent_yaml(tmp_path: Path) -> None:
    write(tmp_path, "def act(order): return order\n", "shop")
    (tmp_path / "agent.yaml").write_text(
        dedent(
            """
            name: shop
            model: {provider: openai, name: gpt-4o-mini}
            instructions: {inline: Answer.}
            tools:
              - {type: function, name: act, description: Acts, file: shop.py, function: act}
              - type: function
                name: gone
                description: Is not there
                file: shop.py
                function: gone
            evaluations:
              metrics: [{type: standard, metric: equality}]
            test_cases: [{name: one, input: a, ground_truth: a}]
            """
        )
    )
    suite = load_suite(tmp_path / "agent.yaml", environ={}, home=tmp_path, metrics=built_in())
    assert refused(tmp_path, *(suite.agent.tools or ()), marks=suite.tool_marks) == [
        "agent.yaml:7:5: tools[1].function: shop.py:gone: shop.py has no gone"
    ]


def test_no_user_code_runs_in_our_process(tmp_path: Path) -> None:
    write(tmp_path, "import os\nPID = os.getpid()\ndef act(): return [PID, os.getpid()]\n", "shop")
    text, _ = once(tmp_path, "act")
    imported, called = json.loads(text)
    assert imported == called != os.getpid()


@pytest.mark.parametrize(
    ("returned", "text", "value", "size"),
    [
        ("'Köln'", "Köln", "Köln", 5),
        ("{'a': (1, None), 'ö': 0.5}", '{"a": [1, null], "ö": 0.5}', {"a": [1, None], "ö": 0.5}, 27),
        ("None", "null", None, 4),
        ("True", "true", True, 4),
        ("later()", "later", "later", 5),
        ("datetime.date(2025, 1, 2)", "2025-01-02", "2025-01-02", 10),
        ("{decimal.Decimal('1.10')}", '["1.10"]', ["1.10"], 8),
        ("Point(1, 2)", '{"x": 1, "y": 2}', {"x": 1, "y": 2}, 16),
        ("'\\ud800'", "\ufffd", "\ufffd", 1),
    ],
)
def test_what_comes_back(tmp_path: Path, returned: str, text: str, value: Any, size: int) -> None:
    write(
        tmp_path,
        f"""
        import dataclasses, datetime, decimal

        @dataclasses.dataclass
        class Point:
            x: int
            y: int

        async def later():
            return "later"

        def act(n: int = 1, /, *, m: int = 2):
            print("noise")
            assert n + m == 8
            return {returned}
        """,
        "shop",
    )
    shown, invocation = once(tmp_path, "act", n=3, m=5)
    assert (shown, invocation.name, invocation.args) == (text, "act", {"n": 3, "m": 5})
    assert (invocation.result, invocation.bytes, invocation.error) == (value, size, None)
    assert invocation.duration_ms is not None
    assert invocation.duration_ms > 0


@pytest.mark.parametrize(
    ("body", "shown", "recorded"),
    [
        ("raise ValueError('no such\\n order')", "ValueError: no such order", "it raised ValueError: no such order"),
        ("raise KeyError", "KeyError", "it raised KeyError (shop.py:"),
        ("sys.exit(3)", "the tool tried to end its process", "it called sys.exit(3)"),
        ("os._exit(3)", "the process of the tool ended before it finished", "its process exited with code 3"),
        ("os.kill(os.getpid(), 11)", "the process of the tool ended", "was killed by SIGSEGV"),
        ("return float('nan')", "the result is nan, which JSON cannot hold", "the result is nan"),
        ("return object()", "the result is of type object, which JSON cannot hold", "of type object"),
        ("a = []; a.append(a); return a", "levels deep or contains itself", "contains itself"),
        ("return 'x' * (1 << 27)", "it returned more than 67108864 bytes", "more than 67108864 bytes"),
        ("return (n for n in 'ab')", "the result is of type generator", "of type generator"),
        ("os.write(int(sys.orig_argv[3]), b'x' * 99); return 1", "it closed|its process sent|x", "shop.py:act: "),
    ],
)
def test_trouble_is_the_models_to_see(tmp_path: Path, body: str, shown: str, recorded: str) -> None:
    write(tmp_path, f"import os, sys\ndef act():\n    {body}\n", "shop")
    text, invocation = once(tmp_path, "act")
    assert text.startswith("Error: ")
    assert any(part in text for part in shown.split("|")), text
    assert "shop.py" not in text
    assert invocation.error is not None
    assert invocation.error.startswith("shop.py:act: ")
    assert recorded in invocation.error
    assert (invocation.result, invocation.bytes) == (None, None)


def test_a_hanging_tool_is_ended_with_what_it_started(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import subprocess, time

        def begin():
            return subprocess.Popen(["sleep", "600"], start_new_session=True).pid

        def act():
            time.sleep(600)
        """,
        "shop",
    )

    async def work(functions: FunctionTools) -> tuple[str, str, ToolInvocation]:
        patient, hasty = box(functions), box(functions, timeout_s=0.2)
        child = await patient.call("begin", "")
        text = await hasty.call("act", "")
        # The conversation goes on.
        assert (await patient.call("begin", "")).isdecimal()
        (invocation,) = hasty.take_calls().invocations
        return child, text, invocation

    child, text, invocation = with_tools(tmp_path, [entry("begin"), entry("act")], work)
    assert text == "Error: it took longer than 0.2 s; its process was ended"
    assert invocation.error == "shop.py:act: it took longer than 0.2 s; its process was ended"
    assert invocation.duration_ms is not None
    assert invocation.duration_ms >= 200
    assert wait_until(lambda: not running(int(child)), 60)


def test_a_cancelled_call_ends_its_process_and_is_recorded(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, pathlib, time

        def act():
            pathlib.Path(__file__).with_name("pid").write_text(str(os.getpid()))
            time.sleep(600)
        """,
        "shop",
    )

    async def work(functions: FunctionTools) -> ConversationTools:
        tools = box(functions)
        call = asyncio.create_task(tools.call("act", {}))
        note = tmp_path / "pid"
        assert await asyncio.to_thread(wait_until, lambda: note.exists() and note.read_text() != "", 60)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        assert not running(int((tmp_path / "pid").read_text()))
        return tools

    (invocation,) = with_tools(tmp_path, [entry("act")], work).take_calls().invocations
    assert invocation == ToolInvocation("act", error="it was stopped because the turn had ended")


def test_a_large_result_is_cut_and_its_size_recorded(tmp_path: Path) -> None:
    write(tmp_path, "def act(n: int): return 'é' * n\n", "shop")
    text, invocation = once(tmp_path, "act", n=5_000_000)
    assert invocation.result == "é" * (MAX_BYTES // 2) + "…"
    assert invocation.bytes == 10_000_000
    assert text == (
        f"{invocation.result}\n[The result was cut here: it has 10000000 bytes, of which {MAX_BYTES} are above.]"
    )
    assert once(tmp_path, "act", n=500)[1].result == "é" * 500


STATE = """
import os, pathlib, time
count = 0

def act(name: str = ""):
    global count
    count += 1
    return count

def pid():
    return os.getpid()

def hang():
    pathlib.Path(__file__).with_name("hanging").touch()
    time.sleep(600)
"""


def test_state_lasts_for_a_conversation_and_no_longer(tmp_path: Path) -> None:
    write(tmp_path, STATE, "shop")
    write(tmp_path, "import shop\ndef look(): return shop.count\n", "lib.other")

    async def work(functions: FunctionTools) -> list[str]:
        one, two = box(functions, "one"), box(functions, "two")
        seen = [await one.call("act", "{}"), await one.call("act", "{}"), await two.call("act", "{}")]
        seen.append(await one.call("look", "{}"))
        await functions.end("one")
        return [*seen, await box(functions, "one").call("act", "{}"), await two.call("act", "{}")]

    entries = [entry("act"), entry("look", "lib/other.py")]
    assert with_tools(tmp_path, entries, work) == ["1", "2", "1", "2", "1", "2"]


def test_after_a_killed_process_the_next_call_gets_a_new_one(tmp_path: Path) -> None:
    write(tmp_path, STATE, "shop")

    async def work(functions: FunctionTools) -> list[str]:
        patient, hasty = box(functions), box(functions, timeout_s=0.2)
        order = (patient, "act"), (patient, "pid"), (hasty, "hang"), (patient, "act"), (patient, "pid")
        return [await tools.call(name, "") for tools, name in order]

    first, old, _, second, new = with_tools(tmp_path, [entry(name) for name in ("act", "pid", "hang")], work)
    assert (first, second) == ("1", "1")
    assert old != new


def test_parallel_calls_keep_the_models_order(tmp_path: Path) -> None:
    write(tmp_path, STATE, "shop")

    async def work(functions: FunctionTools) -> tuple[list[str], ConversationTools]:
        tools = box(functions)
        calls = [tools.call("act", {"name": name}) for name in "abc"]
        return await asyncio.gather(*calls), tools

    # A clock that goes on by a second when it is looked at: at the start of a call, and at its end.
    clock = itertools.count().__next__
    texts, tools = with_tools(tmp_path, [entry("act")], work, clock=clock)
    assert texts == ["1", "2", "3"]
    invocations = tools.take_calls().invocations
    assert [(call.args["name"], call.result) for call in invocations] == [("a", 1), ("b", 2), ("c", 3)]
    # What it waited for the others is not its working time.
    assert [call.duration_ms for call in invocations] == [1000] * 3
    assert tools.take_calls().invocations == ()


def test_conversations_run_side_by_side(tmp_path: Path) -> None:
    """Two calls that wait for each other both end."""
    write(
        tmp_path,
        """
        import pathlib, time

        def act(mine: str, other: str):
            folder = pathlib.Path(__file__).parent
            (folder / mine).touch()
            while not (folder / other).exists():
                time.sleep(0.01)
            return "met"
        """,
        "shop",
    )

    async def work(functions: FunctionTools) -> list[str]:
        calls = [box(functions, mine).call("act", {"mine": mine, "other": other}) for mine, other in ("ab", "ba")]
        return await asyncio.gather(*calls)

    assert with_tools(tmp_path, [entry("act")], work) == ["met", "met"]


def test_the_end_leaves_no_process(tmp_path: Path) -> None:
    write(tmp_path, STATE, "shop")

    async def work(functions: FunctionTools) -> list[int]:
        pids = [int(await box(functions, session).call("pid", "")) for session in "abc"]
        hanging = asyncio.create_task(box(functions, "a", None).call("hang", ""))
        assert await asyncio.to_thread(wait_until, (tmp_path / "hanging").exists, 60)
        await functions.end("b")
        assert [running(pid) for pid in pids] == [True, False, True]
        await functions.close()
        assert await hanging == "Error: its process was ended before it finished, because the run ended"
        return pids

    pids = with_tools(tmp_path, [entry("pid"), entry("hang")], work)
    assert not any(running(pid) for pid in pids)


def test_functions_see_the_jobs_environment_without_its_tokens(tmp_path: Path) -> None:
    write(tmp_path, "import os\ndef act(): return [os.environ.get(n) for n in ('SHOP', 'GITHUB_TOKEN')]\n", "shop")
    environ = {**os.environ, "SHOP": "open", "GITHUB_TOKEN": "ghs_planted"}
    assert once(tmp_path, "act", environ=environ)[0] == '["open", null]'


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ("{}", "order is missing; n is missing"),
        ('{"order": "LF-1", "n": "2"}', "n must be of type integer, not text"),
        ('{"order": "LF-1", "n": 2, "ordre": 1}', "unknown key `ordre` (did you mean `order`?)"),
        ('{"order": "XX", "n": 2}', "order does not match ^LF-"),
        ('{"order": "LF-1", "n": 0}', "n breaks minimum 1"),
        ('{"order": "LF-1", "n": 2, "how": "x"}', "how must be one of 'a', 'b'"),
        ('{"order": "LF-1", "n": 2, "in": {"k": 1}}', "in.deep is missing; in: unknown key `k` (allowed: deep)"),
        ("[1]", "the arguments must be a JSON object, not a list"),
        ('{"order": ', 'the arguments are not JSON (Expecting value at column 11): {"order":'),
        ('{"n": NaN}', 'the arguments are not JSON (NaN is not a JSON value): {"n": NaN}'),
        ('{"n": ' + "[" * 90_000, "the arguments hold more than 1000 bytes"),
        ('{"n": ' + "[" * 400 + "]" * 400 + "}", "nested too deeply"),
        ('{"order": "' + "x" * 2000 + '"}', "the arguments hold more than 1000 bytes"),
    ],
)
def test_arguments_are_checked_before_the_call(tmp_path: Path, args: str, problem: str) -> None:
    write(tmp_path, "def act(**given):\n    raise AssertionError('called')\n", "shop")
    schema = {
        "type": "object",
        "properties": {
            "order": {"type": "string", "pattern": "^LF-"},
            "n": {"type": "integer", "minimum": 1},
            "how": {"enum": ["a", "b"]},
            "in": {
                "type": "object",
                "properties": {"deep": {}},
                "required": ["deep"],
                "additionalProperties": False,
            },
        },
        "required": ["order", "n"],
        "additionalProperties": False,
    }

    async def work(functions: FunctionTools) -> tuple[str, ToolInvocation]:
        tools = box(functions)
        return await tools.call("act", args), tools.take_calls().invocations[0]

    text, invocation = with_tools(tmp_path, [entry("act", parameters=schema)], work)
    assert text == f"Error: {invocation.error}"
    assert problem in text
    assert invocation.args == (json.loads(args) if "do not fit" in text else {})


def test_a_tool_that_is_not_there(tmp_path: Path) -> None:
    write(tmp_path, "def cancel_order(): pass\n", "shop")

    async def work(functions: FunctionTools) -> tuple[list[str], ConversationTools]:
        tools = box(functions)
        return [await tools.call(name, "{}") for name in ("cancle_order", "\x1b[2J" + "x" * 5000, "")], tools

    texts, tools = with_tools(tmp_path, [entry("cancel_order")], work)
    assert texts[0] == "Error: there is no tool `cancle_order` (did you mean `cancel_order`?)"
    names = [call.name for call in tools.take_calls().invocations]
    assert names[0] == "cancle_order"
    assert names[1].startswith("[2Jxxx")
    assert len(names[1]) < 300
    assert names[2] == "(no name)"


class Search:
    """A tool that is no function."""

    definition = ToolDefinition("search", "Finds", {"type": "object", "properties": {"n": {"type": "integer"}}})

    def __init__(self, is_retrieval: bool) -> None:
        self.is_retrieval = is_retrieval
        self.later_ended = asyncio.Event()

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        if args["n"] == 0:
            raise ToolError("the index is gone", "unavailable")
        # The last call ends first.
        if args["n"] == 4:
            self.later_ended.set()
        await self.later_ended.wait()
        found = [{"id": "a", "text": "A", "score": 0.5}, {"id": 7, "text": "B", "score": True}, "C", {"x": 1}]
        return ToolResult(found[: args["n"]], 1)


def searched(is_retrieval: bool) -> ConversationTools:
    async def work() -> ConversationTools:
        tools = ConversationTools(
            SuiteTools([Search(is_retrieval)]),
            max_bytes=MAX_BYTES,
            timeout_s=None,
            clock=time.monotonic,
            session="s",
            redact=str,
        )
        await asyncio.gather(*(tools.call("search", {"n": n}) for n in (1, 0, 4)))
        return tools

    tools: ConversationTools = run(work())
    return tools


def test_results_of_retrieval_are_context() -> None:
    calls = searched(is_retrieval=True).take_calls()
    assert calls.retrieved_chunks == (
        RetrievedChunk("a", "A", 0.5),
        RetrievedChunk("a", "A", 0.5),
        RetrievedChunk("7", "B"),
        RetrievedChunk("6b23c0d5f35d1b11", "C"),
        RetrievedChunk("613fe5aa65343dbb", '{"x": 1}'),
    )
    assert calls.retrieval_context == ("A", "A", "B", "C", '{"x": 1}')
    assert [call.error for call in calls.invocations] == [None, "the index is gone", None]


def test_other_results_are_not() -> None:
    calls = searched(is_retrieval=False).take_calls()
    assert (calls.retrieved_chunks, calls.retrieval_context) == (None, None)


@pytest.mark.full
def test_a_pattern_cannot_hold_up_the_run() -> None:
    schema = JsonSchema({"type": "object", "properties": {"a": {"pattern": "^(a|aa)+$"}}})
    with pytest.raises(ToolError, match="too long or too repetitive"):
        check_arguments(schema, {"a": "a" * 60 + "b"})


def test_a_schema_reads_nothing_from_elsewhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.0)
        schema = JsonSchema({"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"})
        with pytest.raises(ToolError, match="refers to an undefined definition"):
            check_arguments(schema, {})
        with pytest.raises(BlockingIOError):
            server.accept()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.full
@given(args=st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON))
def test_what_fits_the_schema_is_what_jsonschema_says(args: dict[str, Any]) -> None:
    from jsonschema import Draft202012Validator

    schema = {
        "type": "object",
        "properties": {"a": {"type": ["integer", "null"]}, "b": {"anyOf": [{"type": "string"}, {"type": "array"}]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    fits = Draft202012Validator(schema).is_valid(args)
    with nullcontext() if fits else pytest.raises(ToolError) as caught:
        check_arguments(JsonSchema(schema), args)
    assert fits or (caught is not None and caught.value.message.isprintable())
