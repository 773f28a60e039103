"""Record, replay and cache: what is found, what is not, what is stored, and what never is."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from holodeck_action.llm.calls import Call, CallContext, HttpRequest, Meter, WireError
from holodeck_action.llm.cassette.cassette import key_parts, make_key
from holodeck_action.llm.wire import WireSettings
from holodeck_action.text.redaction import Redactor
from tests.llm.models import KEY, Answer, FakeModels, Fault
from tests.llm.wiring import account, chat, opened, post, run, said
from tests.tables import walk


class Offline(httpx2.AsyncBaseTransport):
    """A network that must not be used."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        raise AssertionError(f"{request.url} was asked")


def stored(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def recorded(folder: Path) -> list[str]:
    return (folder / "cassette.jsonl").read_text().splitlines()


def _record(folder: Path) -> WireSettings:
    return WireSettings(mode="record", folder=folder)


def _replay(folder: Path) -> WireSettings:
    return WireSettings(mode="replay", folder=folder)


def _cache(folder: Path, ttl_s: float | None = None) -> WireSettings:
    return WireSettings(cache=folder, ttl_s=ttl_s)


@pytest.mark.parametrize("stream", [False, True])
def test_a_recorded_call_is_replayed_without_network_and_key(tmp_path: Path, stream: bool) -> None:
    async def work() -> None:
        with FakeModels() as models:
            url = models.openai_url
            models.answer(lambda _: Answer("Paris é", prompt_tokens=11, completion_tokens=2))
            first, second = Meter(), Meter()
            async with opened(_record(tmp_path), price=lambda *_: 0.25) as wire:
                live = await post(wire, account(url), chat(stream=stream), meter=first)
        async with opened(_replay(tmp_path), network=Offline(), price=lambda *_: 0.25) as wire:
            again = await post(wire, account(url, key=""), chat(stream=stream), meter=second)
            assert wire.counts.cached == 1
        if stream:
            assert again.content == live.content
        else:
            assert again.json() == live.json()
        (before,), (after,) = first.records, second.records
        assert (before.cached, after.cached, after.attempts) == (False, True, 0)
        assert (after.tokens, after.cost_usd, after.status) == (before.tokens, before.cost_usd, 200)
        assert after.latency_s == pytest.approx(before.latency_s, abs=1e-3)
        assert first.usage() == second.usage()

    run(work)


def test_what_only_looks_like_a_key_is_recorded_so_that_recordings_stay_valid(tmp_path: Path) -> None:
    """A version that knows more forms of keys must find the calls that an earlier one recorded."""
    question = "Is sk-ant-api03-Wd4Jx9Tb2Kq7Rv5Mf8Hc3Ly6Pg1Zn0 or password: hunter2 a key?"

    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer(f"It is: {question}"))
            async with opened(_record(tmp_path)) as wire:
                live = await post(wire, account(models.openai_url), chat(question))
                assert "hunter2" not in wire.redact(question)
        (line,) = recorded(tmp_path)
        entry = json.loads(line)
        assert entry["request"]["body"]["messages"][0]["content"] == question
        assert make_key(entry["request"]) == entry["key"]
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            assert (await post(wire, account(models.openai_url), chat(question))).json() == live.json()

    run(work)


@pytest.mark.full
def test_every_recording_of_this_repository_is_found_by_its_keys() -> None:
    root = Path(__file__).parents[2]
    count = 0
    for folder in ("examples", "tests/compatibility"):
        for cassette in (root / folder).rglob("cassette.jsonl"):
            for entry in map(json.loads, cassette.read_text(encoding="utf-8").splitlines()):
                count += 1
                assert make_key(Redactor(()).declared.value(entry["request"])) == entry["key"], cassette
    assert count > 300


def test_one_changed_character_is_a_miss_that_shows_the_difference(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            url = models.openai_url
            async with opened(_record(tmp_path)) as wire:
                await post(wire, account(url), chat("The quick brown fox jumps over the lazy dog, they said: why?"))
                await post(wire, account(url), chat("Something else"))
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            with pytest.raises(WireError) as caught:
                await post(wire, account(url), chat("The quick brown fox jumps over the lazy dog, they said: who?"))
        error = caught.value
        assert (error.code, error.retry_worthy) == ("cassette_miss", False)
        assert "body.messages[0].content" in error.message
        assert "why?" in error.message
        assert "who?" in error.message
        assert "\n" not in error.message
        assert "record again" in error.message

    run(work)


@walk(
    ("change", "found"),
    [
        ({"user": "bob"}, True),
        ({"metadata": {"run": "7"}}, True),
        ({"temperature": 0.1}, False),
        ({"max_tokens": 5}, False),
        ({"stream": True}, False),
        ({"tools": []}, False),
        ({"model": "gpt-4o-mini"}, False),
    ],
)
def test_the_key_covers_what_can_change_an_answer(tmp_path: Path, change: dict[str, object], found: bool) -> None:
    async def work() -> None:
        with FakeModels() as models:
            url = models.openai_url
            async with opened(_record(tmp_path)) as wire:
                await post(wire, account(url), chat(), headers={"x-trace": "1"})
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            if found:
                headers = {"x-trace": "2"}
                assert (await post(wire, account(url), {**chat(), **change}, headers=headers)).status_code == 200
            else:
                with pytest.raises(WireError, match="no recorded answer"):
                    await post(wire, account(url), {**chat(), **change})

    run(work)


@walk(
    ("url", "endpoint", "query"),
    [
        ("https://API.example.com:8443/v1/chat", "api.example.com/v1/chat", ""),
        ("http://127.0.0.1:9/v1/chat", "localhost/v1/chat", ""),
        ("http://[::1]:9/v1/chat", "localhost/v1/chat", ""),
        ("https://h/my%20dep/chat?api-version=2024-10-21%2B1", "h/my dep/chat", "api-version=2024-10-21%2B1"),
        ("https://xn--bcher-kva.example/v1/chat", "bücher.example/v1/chat", ""),
        ("https://bücher.example/ü/chat", "bücher.example/ü/chat", ""),
        ("https://h/v1/../v2/./chat", "h/v2/chat", ""),
    ],
)
def test_an_address_is_one_however_it_is_written(url: str, endpoint: str, query: str) -> None:
    """As recordings of earlier versions have it."""
    call = Call(account(url), HttpRequest(url, {}, b"{}", {}), CallContext("agent", 0, None, Meter()))
    parts = key_parts(call, Redactor(()))
    assert (parts["endpoint"], parts["query"]) == (endpoint, query)


def test_repeat_provider_and_endpoint_count_and_a_loopback_port_does_not(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            async with opened(_record(tmp_path)) as wire:
                await post(wire, account(models.openai_url), chat())
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            assert (await post(wire, account("http://localhost:9/v1"), chat())).status_code == 200
            for who, repeat in (
                (account("http://localhost:9/v1"), 1),
                (account("http://localhost:9/v1", "azure_openai"), 0),
                (account("https://models.example/v1"), 0),
                (account("http://localhost:9/v2"), 0),
            ):
                with pytest.raises(WireError, match="no recorded answer"):
                    await post(wire, who, chat(), repeat=repeat)

    run(work)


def test_ids_that_are_invented_at_random_do_not_count(tmp_path: Path) -> None:
    def history(first: str, second: str) -> dict[str, object]:
        calls = [
            {"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in (first, second)
        ]
        results = [{"role": "tool", "tool_call_id": name, "content": "1"} for name in (first, second)]
        return {"model": "m", "messages": [{"role": "assistant", "tool_calls": calls}, *results]}

    class Fixed(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            return httpx2.Response(200, json={"choices": []})

    async def work() -> None:
        who = account("https://models.example/v1")
        async with opened(_record(tmp_path), network=Fixed()) as wire:
            await post(wire, who, history("pyd_ai_" + "a" * 32, "pyd_ai_" + "b" * 32))
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            assert (await post(wire, who, history("pyd_ai_" + "c" * 32, "pyd_ai_" + "d" * 32))).status_code == 200
            with pytest.raises(WireError):  # the results in the other order are another conversation
                await post(wire, who, history("pyd_ai_" + "c" * 32, "pyd_ai_" + "c" * 32))

    run(work)


def test_a_call_repeated_in_a_recording_gets_the_first_answer(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.script(["one", "two"])
            async with opened(_record(tmp_path)) as wire:
                answers = [said(await post(wire, account(models.openai_url), chat())) for _ in range(2)]
            assert answers == ["one", "one"]
            # A new recording asks again and replaces what was there.
            async with opened(_record(tmp_path)) as wire:
                assert said(await post(wire, account(models.openai_url), chat())) == "two"
            assert len(recorded(tmp_path)) == 1

    run(work)


def test_errors_and_filtered_answers_are_never_stored(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            who = account(models.openai_url)
            async with opened(
                WireSettings("record", tmp_path, tmp_path / "cache", max_retries=0, rate_limit_wait_s=0)
            ) as wire:
                for fault in (
                    Fault("server_error"),
                    Fault("bad_key"),
                    Fault("content_filter"),
                    Fault(wire="malformed"),
                ):
                    models.fail(fault)
                    try:
                        assert (await post(wire, who, chat())).status_code >= 400
                    except WireError as error:
                        assert error.code == "malformed"  # noqa: PT017
                models.script([Answer("half", finish="content_filter")])
                await post(wire, who, chat())
            assert stored(tmp_path) == []

    run(work)


def test_a_refusal_of_the_responses_api_is_not_cached(tmp_path: Path) -> None:
    body = {"model": "gpt-4.1", "store": False, "input": [{"role": "user", "content": "Hi"}]}

    async def ask_twice(models: FakeModels) -> int:
        async with opened(WireSettings(cache=tmp_path)) as wire:
            for _ in range(2):
                await post(wire, account(models.openai_url), body, path="/responses")
        return len(models.requests)

    for answer, requests in ((Answer(refusal="No."), 2), (Answer("At", finish="content_filter"), 2), (Answer(), 1)):
        with FakeModels() as models:
            models.script([answer] * 2)
            assert asyncio.run(ask_twice(models)) == requests


def test_a_refusal_is_recorded_but_not_cached(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: Answer(refusal="I cannot help with that."))
            async with opened(WireSettings("record", tmp_path / "tape", tmp_path / "cache")) as wire:
                await post(wire, account(models.openai_url), chat())
                await post(wire, account(models.openai_url), chat(stream=True))
            assert len(recorded(tmp_path / "tape")) == 2
            assert stored(tmp_path / "cache") == []
            asked = len(models.requests)
            async with opened(WireSettings("replay", tmp_path / "tape")) as wire:
                replayed = await post(wire, account(models.openai_url), chat())
            assert replayed.json()["choices"][0]["message"]["refusal"] == "I cannot help with that."
            assert len(models.requests) == asked
            async with opened(WireSettings(cache=tmp_path / "cache")) as wire:
                await post(wire, account(models.openai_url), chat())
            assert len(models.requests) == asked + 1

    run(work)


def test_secrets_are_in_no_entry_and_another_secret_finds_it(tmp_path: Path) -> None:
    secret = "hunter2-hunter2"

    async def work() -> None:
        with FakeModels() as models:
            url = models.openai_url
            models.answer(lambda request: f"you said {request.text}")
            async with opened(_record(tmp_path), redactor=Redactor([secret, KEY])) as wire:
                await post(wire, account(url), chat(f"the password is {secret}"))
                await post(wire, account(url), chat(f"the password is {secret}", stream=True))
        assert len(recorded(tmp_path)) == 2
        (path,) = stored(tmp_path)
        assert secret not in path.read_text()
        assert KEY not in path.read_text()
        async with opened(_replay(tmp_path), network=Offline(), redactor=Redactor(["stand-in"])) as wire:
            assert said(await post(wire, account(url), chat("the password is stand-in"))).endswith("***")

    run(work)


def test_long_texts_are_stored_as_digest_but_count_whole(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            url = models.openai_url
            models.answer(lambda _: "ok")
            async with opened(_record(tmp_path)) as wire:
                await post(wire, account(url), chat("x" * 50_000))
        (path,) = stored(tmp_path)
        assert path.stat().st_size < 5_000
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            assert said(await post(wire, account(url), chat("x" * 50_000))) == "ok"
            with pytest.raises(WireError, match="sha256"):
                await post(wire, account(url), chat("x" * 49_999 + "y"))

    run(work)


def test_the_cache_asks_again_when_an_answer_is_old(tmp_path: Path) -> None:
    start = datetime(2026, 5, 1, tzinfo=UTC)
    later = {"by": timedelta()}

    async def work() -> None:
        with FakeModels() as models:
            models.script(["old", "new"])
            who = account(models.openai_url)
            async with opened(_cache(tmp_path, 3600), now=lambda: start + later["by"]) as wire:
                answers = []
                for seconds in (0, 3599, 3600, 7000):
                    later["by"] = timedelta(seconds=seconds)
                    answers.append(said(await post(wire, who, chat())))
            assert answers == ["old", "old", "new", "new"]
            assert wire.counts.cached == 2

    run(work)


ENDLESS = (
    '{"format": 1, "recorded_at": "2026-01-01T00:00:00+00:00", "request": {}, '
    f'"response": {{"status": 200, "latency_s": {"9" * 400}, "headers": {{}}, "json": {{}}}}}}'
)
"""A recorded call whose latency is larger than any number of the machine."""
BROKEN = pytest.mark.parametrize(
    "content",
    ["nonsense", "[]", "{}", '{"format": 2}', '{"format": 1, "response": {"status": 500}}', "[" * 100_000, ENDLESS],
    ids=["text", "list", "bare", "newer", "error", "deep", "endless"],
)


@BROKEN
@pytest.mark.parametrize("keyed", [False, True])
def test_a_broken_line_stops_a_replay_and_is_named(tmp_path: Path, content: str, keyed: bool) -> None:
    async def work() -> None:
        with FakeModels() as models:
            who = account(models.openai_url)
            async with opened(_record(tmp_path)) as wire:
                for text in ("one", "two", "three"):
                    await post(wire, who, chat(text))
            lines = recorded(tmp_path)
            at = next(number for number, line in enumerate(lines) if '"content":"two"' in line)
            key = json.loads(lines[at])["key"]
            lines[at] = f'{{"key":"{key}",{content.removeprefix("{")}' if keyed else content
            (tmp_path / "cassette.jsonl").write_text("\n".join(lines) + "\n")
            async with opened(_replay(tmp_path), network=Offline()) as wire:
                assert (await post(wire, who, chat("one"))).status_code == 200
                with pytest.raises(WireError, match="cannot be read") as caught:
                    await post(wire, who, chat("two"))
                assert caught.value.code == "cassette_unreadable"
                assert f"line {at + 1} of {tmp_path / 'cassette.jsonl'}" in caught.value.message

    run(work)


@BROKEN
def test_a_broken_file_of_an_earlier_version_stops_a_replay_and_one_of_a_cache_nothing(
    tmp_path: Path, content: str
) -> None:
    async def work() -> None:
        with FakeModels() as models:
            models.answer(lambda _: "fresh")
            who = account(models.openai_url)
            async with opened(_cache(tmp_path)) as wire:
                await post(wire, who, chat())
            (path,) = stored(tmp_path)
            # Recordings were files as those of a cache are.
            async with opened(_replay(tmp_path), network=Offline()) as wire:
                assert said(await post(wire, who, chat())) == "fresh"
            path.write_text(content)
            async with opened(_replay(tmp_path), network=Offline()) as wire:
                with pytest.raises(WireError, match="cannot be read") as caught:
                    await post(wire, who, chat())
                assert caught.value.code == "cassette_unreadable"
                assert path.name in caught.value.message
            async with opened(_cache(tmp_path)) as wire:
                assert said(await post(wire, who, chat())) == "fresh"
                assert len(wire.notices) == 1
            assert json.loads(path.read_text())["format"] == 1
            # A new recording takes its place.
            models.answer(lambda _: "again")
            async with opened(_record(tmp_path)) as wire:
                await post(wire, who, chat())
            assert [each.name for each in stored(tmp_path)] == ["cassette.jsonl"]
            async with opened(_replay(tmp_path), network=Offline()) as wire:
                assert said(await post(wire, who, chat())) == "again"

    run(work)


@pytest.mark.parametrize("place", ["cassette.jsonl", "KEY.json"])
def test_a_recording_that_is_a_pipe_is_not_waited_for(tmp_path: Path, place: str) -> None:
    async def work() -> None:
        with FakeModels() as models:
            who = account(models.openai_url)
            async with opened(_cache(tmp_path)) as wire:
                await post(wire, who, chat())
            (path,) = stored(tmp_path)
            path.unlink()
            pipe = tmp_path / place.replace("KEY", path.stem)
            os.mkfifo(pipe)
            async with opened(_replay(tmp_path), network=Offline()) as wire:
                with pytest.raises(WireError, match="it is not a regular file") as caught:
                    await post(wire, who, chat())
                assert caught.value.code == "cassette_unreadable"
            async with opened(_cache(tmp_path)) as wire:
                await post(wire, who, chat())
            assert len(models.requests) == 2
            assert path.is_file()

    run(work)


@pytest.mark.parametrize(("what", "reason"), [("pipe", "it is not a regular file"), ("link", "it is a link")])
def test_a_recording_is_not_written_elsewhere(tmp_path: Path, what: str, reason: str) -> None:
    tape, other = tmp_path / "tape" / "cassette.jsonl", tmp_path / "other"
    tape.parent.mkdir()
    if what == "pipe":
        os.mkfifo(tape)
    else:
        tape.symlink_to(other)

    async def work() -> None:
        with FakeModels() as models:
            async with opened(_record(tape.parent)) as wire:
                with pytest.raises(WireError, match=reason) as caught:
                    await post(wire, account(models.openai_url), chat())
        assert caught.value.code == "cassette_unwritable"

    run(work)
    assert not other.exists()


def test_a_recording_that_cannot_be_written_is_an_error_and_a_cache_is_not(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")

    async def work() -> None:
        with FakeModels() as models:
            who = account(models.openai_url)
            async with opened(_record(blocked / "tape")) as wire:
                with pytest.raises(WireError) as caught:
                    await post(wire, who, chat())
                assert caught.value.code.startswith("cassette_unwritable")
            async with opened(_cache(blocked / "cache")) as wire:
                assert (await post(wire, who, chat())).status_code == 200
                assert len(wire.notices) == 1

    run(work)


def test_an_empty_recording_and_many_misses_are_said_shortly(tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(_replay(tmp_path / "none"), network=Offline()) as wire:
            messages = []
            for index in range(25):
                with pytest.raises(WireError) as caught:
                    await post(wire, account("http://localhost:1/v1"), chat(f"{index} \x1b[31m"))
                messages.append(caught.value.message)
            assert "which is empty" in messages[0]
            assert "which is empty" not in messages[-1]

    run(work)


def test_control_characters_of_prompts_do_not_reach_a_miss(tmp_path: Path) -> None:
    async def work() -> None:
        with FakeModels() as models:
            url = models.openai_url
            async with opened(_record(tmp_path)) as wire:
                await post(wire, account(url), chat("safe"))
        async with opened(_replay(tmp_path), network=Offline()) as wire:
            with pytest.raises(WireError) as caught:
                await post(wire, account(url), chat("\x1b[31m\u202e\nevil"))
        assert caught.value.message.isprintable()

    run(work)
