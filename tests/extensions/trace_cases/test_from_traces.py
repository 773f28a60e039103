"""Conversations of traces become cases that a suite loads, and `run` asks the agent again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.commands.project import Finished, Project
from tests.extensions.traces.spans import exchange, request, span, value
from tests.extensions.traces.test_exported_traces import EXPORT, phoenix
from tests.llm.models import KEY, FakeModels

NIGHT = "night.jsonl"
ECHO = "def answer(messages):\n    return 'You said: ' + messages[-1]['content']\n"


def trace(number: int) -> str:
    return f"{number:032x}"


def write_traces(project: Project, *exchanges: Iterable[Mapping[str, Any]], name: str = NIGHT) -> None:
    project.write(name, "".join(f"{json.dumps(request(spans))}\n" for spans in exchanges))


def failed(number: int, question: str, reason: str, **more: Any) -> list[dict[str, Any]]:
    """An exchange that ends in an error."""
    spans = exchange(trace(number), question, "", **more)
    for each in spans:
        each["attributes"] = [kept for kept in each["attributes"] if kept["key"] != "gen_ai.output.messages"]
        each["status"] = {"code": 2, "message": reason}
    return spans


def make(project: Project, *arguments: str, output: str = "cases.yaml", code: int = 0) -> Finished:
    finished = project.run("cases", "from-traces", NIGHT, "-o", output, *arguments)
    assert finished.code == code, finished.stdout + finished.stderr
    return finished


def cases(project: Project, name: str = "cases.yaml") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((project.folder / name).read_text(encoding="utf-8"))["test_cases"]
    return found


def suite_of(project: Project, *files: str, **case: Any) -> None:
    """A suite with the written cases, answered by an agent that echoes."""
    project.suite([], [{"type": "length", "min_words": 1}], test_cases=None, test_cases_file=files[0])
    project.policy(target="python:agent:answer", ground_truth="unused")
    project.write("agent.py", ECHO)


def night(project: Project) -> None:
    """Ten conversations: one of two turns, one with an error, one disliked, one with a low score."""
    write_traces(
        project,
        exchange(trace(1), "Where is my parcel?", "In Leeds.", tool="find_order", at=1),
        exchange(trace(2), "And the other one?", "In York.", session="s-1", at=3),
        exchange(trace(3), "Where are my two parcels?", "Which ones?", session="s-1", at=2),
        failed(4, "Cancel order A-17.", "the shop is closed", at=4),
        exchange(trace(5), "Can I pay by card?", "No.", attributes={"user.rating": "Down"}, at=5),
        exchange(trace(6), "Do you ship to Norway?", "Perhaps.", attributes={"quality": 0.2}, at=6),
        *(exchange(trace(10 + at), f"What is {at}?", f"It is {at}.", at=10 + at) for at in range(4)),
    )


@pytest.mark.full
def test_cases_of_a_night_are_valid_and_run(project: Project) -> None:
    night(project)
    finished = make(project, "--thumbs-down", "user.rating=down", "--low-score", "quality=0.5")
    assert finished.stdout.startswith(
        "wrote 9 cases of 9 conversations to cases.yaml: 1 for an error, 1 for a low score, 1 for a thumbs down, "
    )
    text = (project.folder / "cases.yaml").read_text(encoding="utf-8")
    for line in (
        f"  # trace {trace(4)}, 2026-09-21 14:13 UTC, openai/gpt-4o-mini; picked for an error",
        "  # decide: what is the right answer? There was an error: the shop is closed",
        "  # decide: what is the right answer? It was: No.",
        "  # decide: which tools must be called? These were: find_order",
        f"  # trace {trace(3)}, {trace(2)}, session s-1, ",
        "  # turn 2: decide: what is the right answer? It was: In York.",
    ):
        assert line in text, text
    [conversation] = [case for case in cases(project) if "turns" in case]
    assert conversation == {
        "name": "Where are my two parcels?",
        "turns": [{"input": "Where are my two parcels?"}, {"input": "And the other one?"}],
    }
    suite_of(project, "cases.yaml")
    assert project.run("validate").stdout.startswith("agent.yaml: valid: 9 cases, 10 turns")
    ran, record = project.evaluate()
    assert ran.code == 0, ran.stdout
    said = [turn.response for case in record.cases for trial in case.trials for turn in trial.turns]
    assert "You said: And the other one?" in said


@pytest.mark.proves("cases from-traces: --pick --thumbs-down --low-score")
@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (("--pick", "errors"), ["Cancel order A-17."]),
        (("--pick", "thumbs-down", "--thumbs-down", "user.rating=down"), ["Can I pay by card?"]),
        (("--pick", "low-scores", "--low-score", "quality=0.5"), ["Do you ship to Norway?"]),
        (
            ("--pick", "errors", "--pick", "longest", "--limit", "2"),
            ["Where are my two parcels?", "Cancel order A-17."],
        ),
    ],
)
def test_reasons_choose(project: Project, flags: tuple[str, ...], names: list[str]) -> None:
    night(project)
    make(project, *flags)
    assert [case["name"] for case in cases(project)] == names


def annotation(number: int, name: str, **result: Any) -> dict[str, Any]:
    """An annotation of a span, as `SpanAnnotation` of the package arize-phoenix-client 3.5.0."""
    return {
        "id": f"U3Bhbjo{number}",
        "created_at": "2026-09-21T15:10:00+00:00",
        "updated_at": "2026-09-21T15:10:00+00:00",
        "source": "APP",
        "user_id": None,
        "name": name,
        "annotator_kind": "HUMAN",
        "span_id": f"{number:016x}",
        "result": result,
        "identifier": "",
        "metadata": {},
    }


def evaluated(number: int, question: str, **values: object) -> list[dict[str, Any]]:
    """An exchange with the event of an evaluation in OpenTelemetry's conventions."""
    spans = exchange(trace(number), question, "Yes.", at=number)
    told = [{"key": f"gen_ai.evaluation.{key.replace('_', '.')}", "value": value(each)} for key, each in values.items()]
    spans[-1]["events"] = [{"name": "gen_ai.evaluation.result", "attributes": told}]
    return spans


@pytest.mark.parametrize("form", ["list", "page", "lines"])
def test_annotations_of_phoenix_and_events_of_evaluations_choose(project: Project, form: str) -> None:
    shipping = phoenix(8, None, "AGENT", **{"input.value": "Do you ship?", "output.value": "No."})
    paying = phoenix(9, None, "AGENT", **{"input.value": "Can I pay?", "output.value": "Perhaps."})
    paying["context"] = {**paying["context"], "trace_id": trace(2)}
    annotations = [annotation(8, "user", label="Down", explanation="rude"), annotation(9, "quality", score=0.25)]
    annotations += [annotation(7, "user", label="Down"), {"annotator_kind": "LLM", "span_id": 5, "name": None}]
    content = {
        "list": json.dumps(annotations, indent=1),
        "page": json.dumps({"data": annotations, "next_cursor": None}),
        "lines": "".join(f"{json.dumps(each)}\n" for each in annotations),
    }[form]
    # Annotations are in any file, before or after the spans.
    project.write("night/a.json", content)
    project.write("night/b.json", json.dumps([shipping, paying]))
    write_traces(
        project,
        evaluated(3, "Is it late?", name="quality", score_value=0.5),
        evaluated(4, "Is it lost?", name="user", score_label="down", score_value=1.0),
        name="night/c.jsonl",
    )
    flags = ("--thumbs-down", "score.user.label=down", "--low-score", "score.quality=0.5")
    finished = project.run(
        "cases", "from-traces", "night", "-o", "c.yaml", "--pick", "thumbs-down", "--pick", "low-scores", *flags
    )
    assert finished.code == 0, finished.stderr
    assert {case["input"] for case in cases(project, "c.yaml")} == {"Do you ship?", "Can I pay?", "Is it lost?"}
    assert "cannot be read" not in finished.stderr
    assert "spans without" not in finished.stderr


@pytest.mark.parametrize(
    "flags",
    [
        ("thumbs-down", "--thumbs-down", "score.feedback.label=down"),
        ("low-scores", "--low-score", "score.quality=0.5"),
        ("thumbs-down", "--thumbs-down", "score.solved=0"),
    ],
)
def test_scores_of_langfuse_choose(project: Project, flags: tuple[str, ...]) -> None:
    """`langfuse_scores.json` was written as `langfuse.json`: what `langfuse.api.score_v_2.get()` returns."""
    for name in ("langfuse.json", "langfuse_scores.json"):
        project.write(f"night/{name}", (EXPORT.parent / name).read_bytes())
    finished = project.run("cases", "from-traces", "night", "-o", "c.yaml", "--pick", *flags)
    assert (finished.code, finished.stderr) == (0, "")
    assert [case["input"] for case in cases(project, "c.yaml")] == ["Where is A-17?"]
    # Scores leave nothing of their trace unknown.
    assert "which tools must be called? These were: find_order" in (project.folder / "c.yaml").read_text()


def test_a_score_at_the_bound_is_not_low_and_other_values_are_not_disliked(project: Project) -> None:
    night(project)
    for flags in (
        ("--pick", "low-scores", "--low-score", "quality=0.2"),
        ("--pick", "thumbs-down", "--thumbs-down", "user.rating=up"),
    ):
        finished = make(project, *flags, code=2)
        assert "no conversation of night.jsonl is left to be written" in finished.stderr
        assert not (project.folder / "cases.yaml").exists()


@pytest.mark.proves("cases from-traces: --limit --seed")
def test_the_same_seed_chooses_the_same(project: Project) -> None:
    write_traces(project, *(exchange(trace(at), f"Is {at} a number?", "Yes.", at=at) for at in range(1, 60)))

    def chosen(seed: int, name: str) -> list[str]:
        make(project, "--limit", "4", "--pick", "unlike", "--seed", str(seed), output=name)
        found = [case["name"] for case in cases(project, name)]
        assert len(found) == 4
        return found

    first = chosen(1, "a.yaml")
    assert chosen(1, "b.yaml") == first
    assert any(chosen(seed, f"{seed}.yaml") != first for seed in range(2, 6))


@pytest.mark.proves("cases from-traces: --suite")
def test_what_the_suite_asks_already_is_reported_and_not_written(project: Project) -> None:
    project.suite(
        [{"name": "norway", "input": "do you ship to  NORWAY", "ground_truth": "Yes."}],
    )
    night(project)
    write_traces(
        project,
        exchange(trace(1), "Do you ship to Norway?", "Yes.", at=1),
        exchange(trace(2), "Opening hours", "At nine.", at=2),
        failed(3, "Opening hours?", "closed", at=3),
        exchange(trace(4), "Is there a discount for students?", "No.", at=4),
    )
    finished = make(project, "--suite", "agent.yaml")
    assert "skipped 1 conversation whose inputs are in the suite already: norway (1)\n" in finished.stdout
    assert "skipped 1 conversation with the same inputs as another conversation\n" in finished.stdout
    # Of two equal ones, the one in which something went wrong is written.
    assert [case["input"] for case in cases(project)] == ["Opening hours?", "Is there a discount for students?"]
    make(project, output="all.yaml")
    assert len(cases(project, "all.yaml")) == 3


def test_a_suite_may_have_no_case_yet(project: Project) -> None:
    night(project)
    make(project, output="alone.yaml")
    project.suite([])
    make(project, "--suite", "agent.yaml")
    assert cases(project) == cases(project, "alone.yaml")


def test_the_most_unlike_the_cases_come_first(project: Project) -> None:
    project.suite(
        [{"name": str(at), "input": f"Where is my parcel number {at}?", "ground_truth": "x"} for at in range(5)]
    )
    write_traces(
        project,
        *(exchange(trace(at), f"Where is my parcel number {at}?", "x", at=at) for at in range(7, 20)),
        exchange(trace(30), "Please delete all data about me", "Done.", at=30),
    )
    make(project, "--suite", "agent.yaml", "--pick", "unlike", "--limit", "1")
    assert [case["input"] for case in cases(project)] == ["Please delete all data about me"]


@pytest.mark.proves("cases from-traces: --embed --max-tokens")
def test_the_embedding_model_of_the_suite_decides_what_is_unlike(project: Project, models: FakeModels) -> None:
    project.suite([{"name": "norway", "input": "Do you ship to Norway?", "ground_truth": "Yes."}])
    write_traces(
        project,
        exchange(trace(1), "Is a parcel to Oslo possible? mail ada@mail.example", "Yes.", at=1),
        exchange(trace(2), "Do you ship to Mars?", "No.", at=2),
    )
    flags = ("--suite", "agent.yaml", "--pick", "unlike", "--limit", "1")
    called = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": models.openai_url}

    def written(output: str, *more: str) -> Finished:
        return project.run("cases", "from-traces", NIGHT, "-o", output, *flags, *more, **called)

    assert written("words.yaml").code == 0
    assert models.requests == []
    finished = written("meant.yaml", "--embed")
    assert finished.code == 0, finished.stderr
    [sent] = models.requests
    assert sent.path.endswith("/embeddings")
    assert "[email]" in str(sent.body)
    assert "ada@" not in str(sent.body)
    assert len(cases(project, "meant.yaml")) == 1
    for more, code, said in (
        (("--max-tokens", "1"), 3, "nothing was written"),
        ((), 3, "refused the key"),
    ):
        if not more:
            called["OPENAI_API_KEY"] = "sk-wrong-83a1"
        stopped = written("none.yaml", "--embed", *more)
        assert (stopped.code, said in stopped.stderr) == (code, True), stopped.stderr
        assert not (project.folder / "none.yaml").exists()
    called["OPENAI_API_KEY"] = ""
    assert "--embed" in project.run("cases", "from-traces", NIGHT, "-o", "c.yaml", "--embed").stderr
    called.pop("OPENAI_BASE_URL")
    keyless = written("none.yaml", "--embed")
    assert (keyless.code, "OPENAI_API_KEY" in keyless.stderr) == (2, True)


@pytest.mark.proves("cases from-traces: --accept")
def test_answers_are_expected_only_if_they_are_accepted(project: Project) -> None:
    night(project)
    make(project)
    assert not any("ground_truth" in json.dumps(case) for case in cases(project))
    make(project, "--accept", output="accepted.yaml")
    found = {case["name"]: case for case in cases(project, "accepted.yaml")}
    assert found["Can I pay by card?"]["ground_truth"] == "No."
    assert [turn["ground_truth"] for turn in found["Where are my two parcels?"]["turns"]] == ["Which ones?", "In York."]
    # An error is no answer.
    assert "ground_truth" not in found["Cancel order A-17."]


@pytest.mark.proves("cases from-traces: --names --output FILES")
def test_personal_data_are_masked_and_counted(project: Project) -> None:
    question = (
        "I am Ada Lovelace, ada.l+x@mail.example.com, call +44 20 7946 0958 or 030/1234567. Pay to "
        "GB82 WEST 1234 5698 7654 32 or 4111 1111 1111 1111, I am at 203.0.113.9 and 2001:db8::1."
    )
    write_traces(project, exchange(trace(1), question, "Thanks, ada lovelace.", attributes={"user": "ada"}))
    project.write("names.txt", "\nAda Lovelace\nGrace Hopper\n")
    finished = make(project, "--names", "names.txt", "--accept")
    [case] = cases(project)
    assert case["input"] == (
        "I am [name], [email], call [phone] or [phone]. Pay to [iban] or [card], I am at [ip] and [ip]."
    )
    assert case["ground_truth"] == "Thanks, [name]."
    said = "1 e-mail address, 1 IBAN, 1 card number, 2 IP addresses, 2 phone numbers, 2 names; this is no anonymisation"
    assert f"masked {said}" in finished.stdout
    text = (project.folder / "cases.yaml").read_text(encoding="utf-8")
    assert f"# Masked: {said}" in text
    assert "lovelace" not in text.lower()


ORDER = (
    "order 123456789012, 1.25 or 0.12345678, 2026-11-28 12:30:45, version 1.2.3, GB83 WEST 1234 5698 7654 32, std::map"
)


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        # What has the form but not the check digits, and numbers of daily life.
        (ORDER, ORDER),
        ("4111111111111112", "4111111111111112"),
        ("4111111111111111.", "[card]."),
        ("American 3782 822463 10005!", "American [card]!"),
        ("12 4111-1111-1111-1111 34", "12 [card] 34"),
        ("de89370400440532013000, ES91 2100 0418 4502 0005 1332 2024", "[iban], [iban] 2024"),
        ("at 10.0.0.300 and 10.0.0.3.", "at 10.0.0.300 and [ip]."),
        ("fe80::1ff:fe23:4567:890a or ::ffff:10.0.0.3", "[ip] or [ip]"),
        ("(030) 123 45 67 and 555-123-4567 and +1 (555) 123-4567", "[phone] and [phone] and [phone]"),
        ("Ünal.Ö@bücher.example, not a@b", "[email], not a@b"),
        ("<mailto:a@b.example>", "<mailto:[email]>"),
        ("Grace  hopper's, Grace and Hopperton", "[name]'s, Grace and Hopperton"),
        # Spaces and hyphens of typography, escapes, decomposed letters, and the last name first.
        ("DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000", "[iban]"),
        ("4111\u202f1111\u202f1111\u202f1111, 4111\u20111111\u20111111\u20111111", "[card], [card]"),
        ("+44\u00a020\u00a07946\u00a00958", "[phone]"),
        ("mailto:a.b%40example.com or a.b&#64;example.com", "mailto:[email] or [email]"),
        ("Hopper, Grace and Ju\u0308rgen Mu\u0308ller, M\u00fcller J\u00fcrgen", "[name] and [name], [name]"),
        ("password: hunter2, Authorization: Bearer abc-123", "password: ***, Authorization: Bearer ***"),
    ],
)
def test_what_is_masked(project: Project, text: str, masked: str) -> None:
    write_traces(project, exchange(trace(1), text, "ok"))
    project.write("names.txt", "Grace Hopper\nJ\u00fcrgen M\u00fcller")
    make(project, "--names", "names.txt")
    assert cases(project)[0]["input"] == masked


@pytest.mark.full
def test_masking_takes_no_time_of_its_choice(project: Project) -> None:
    """Texts that would let a careless pattern try everything; the limit is that of the test."""
    pieces = ["4 ", "411 ", "a.", "b@", "GB82 ", "AB12 3456 ", "0 (", "12.", ":", "::1 ", "token=abcdefg1&", "Grace "]
    long = [piece * (90_000 // len(piece)) for piece in pieces]
    write_traces(project, *(exchange(trace(at + 1), text, "ok", at=at) for at, text in enumerate(long)))
    project.write("names.txt", "Grace Hopper\nGrace Kelly\n")
    make(project, "--names", "names.txt")
    assert len(cases(project)) == len(pieces)


@pytest.mark.proves("cases from-traces: --env-file")
def test_secrets_are_in_no_file_and_no_output(project: Project) -> None:
    secret = "sk-planted-4f9d2c7b1e"
    project.suite([{"name": "x", "input": "x", "ground_truth": "x"}])
    project.write("mine.env", "SHOP_KEY=sk-other-81c0ffee9a2\n")
    write_traces(
        project,
        exchange(trace(1), f"My key is {secret} and sk-other-81c0ffee9a2", f"{secret}!", session=f"s-{secret}"),
        exchange(trace(2), "See https://joe:hunter2hunter2@shop.example/x", "ok", at=2),
    )
    flags = ("--accept", "--suite", "agent.yaml", "--env-file", "mine.env")
    finished = project.run("cases", "from-traces", NIGHT, "-o", "cases.yaml", *flags, OPENAI_API_KEY=secret)
    assert finished.code == 0, finished.stderr
    shown = finished.stdout + finished.stderr + (project.folder / "cases.yaml").read_text(encoding="utf-8")
    for part in ("planted", "4f9d2c7b1e", "81c0ffee9a2", "hunter2"):
        assert part not in shown
    assert [case["input"] for case in cases(project)] == ["My key is *** and ***", "See https://***@shop.example/x"]


HOSTILE = [
    "${HOME} and $${HOME}",
    "- name: x\n  input: y\n# no comment",
    "a: b\t\x1b]0;owned\x07\x1b[31mred",
    "<script>alert(1)</script> | `x` ::error::y",
    "\u202egnp.exe\u202c and \u2066x\u2069\u200b",
    "'\"\\ \x00 \x85 \u2028 end \ud800",
    "&anchor *alias !!python/object:os.system [x]",
    "---\n...\n%YAML 1.1",
    "true",
    "null",
    "1.10",
    "  leading and trailing  ",
    "\n\n",
    "x" * 200_000,
]


@pytest.mark.full
def test_hostile_texts_are_data(project: Project) -> None:
    # A lone surrogate cannot be in JSON as UTF-8, but can be escaped.
    write_traces(
        project, *(exchange(trace(at + 1), text, text, at=at, session=text[:60]) for at, text in enumerate(HOSTILE))
    )
    finished = make(project, "--accept", "--limit", "100")
    assert "skipped 1 conversation whose input is unknown or blank" in finished.stdout
    assert "skipped 1 conversation whose inputs are too long" in finished.stdout
    raw = (project.folder / "cases.yaml").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u202a-\u202e\u2066-\u2069\u200b]", raw)
    assert "\x1b" not in finished.stdout + finished.stderr
    suite_of(project, "cases.yaml")
    ran, record = project.evaluate(HOME_OF_NOBODY="x")
    assert ran.code == 0, ran.stdout + ran.stderr
    asked = [case.trials[0].turns[0].input for case in record.cases]
    assert len(asked) == 12
    for text in ("- name: x\n  input: y\n# no comment", "true", "1.10", "${HOME} and $${HOME}", "---\n...\n%YAML 1.1"):
        assert text in asked


@pytest.mark.full
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=60))
def test_any_text_is_read_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    project = Project(tmp_path_factory.mktemp("any"))
    write_traces(project, exchange(trace(1), f"Say {text}", "ok"))
    make(project)
    [case] = cases(project)
    assert case["input"].startswith("Say")


def test_what_a_trace_does_not_tell_is_no_case(project: Project) -> None:
    agent = span(trace(1), 1, 0, "invoke_agent shop", 0, {"gen_ai.operation.name": "invoke_agent"})
    write_traces(project, [agent], exchange(trace(2), "Hello?", "Hi.", at=2))
    assert "skipped 1 conversation whose input is unknown or blank" in make(project).stdout
    assert [case["input"] for case in cases(project)] == ["Hello?"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gone.jsonl", "-o", "cases.yaml"), "traces gone.jsonl: there is no such file or folder"),
        ((NIGHT, "-o", "there.yaml"), "there.yaml: already exists, and nothing was written; give another file with -o"),
        ((NIGHT, "-o", "c.yaml", "--suite", "gone.yaml"), "gone.yaml: no such suite"),
        ((NIGHT, "-o", "c.yaml", "--names", "gone.txt"), "gone.txt: cannot be read"),
        ((NIGHT, "-o", "c.yaml", "--thumbs-down", "rating"), "allowed: ATTRIBUTE=VALUE, such as user.rating=down"),
        ((NIGHT, "-o", "c.yaml", "--low-score", "q=nan"), "allowed: ATTRIBUTE=NUMBER, such as user.score=0.5"),
        ((NIGHT, "-o", "c.yaml", "--pick", "thumbs-down"), "--pick thumbs-down needs --thumbs-down ATTRIBUTE=VALUE"),
        ((NIGHT, "-o", "there.yaml/c.yaml"), "there.yaml/c.yaml: cannot be written: "),
    ],
)
def test_what_cannot_be_used_is_one_sentence(project: Project, arguments: tuple[str, ...], said: str) -> None:
    night(project)
    project.write("there.yaml", "kept")
    finished = project.run("cases", "from-traces", *arguments)
    assert (finished.code, said in finished.stderr) == (2, True), finished.stderr
    assert (project.folder / "there.yaml").read_text() == "kept"
    assert not (project.folder / "c.yaml").exists()


@pytest.mark.proves("cases from-traces: --allow-path --allow-plain-http")
@pytest.mark.parametrize(
    ("target", "flags", "refused"),
    [
        ("recorded:{outside}/answers.jsonl", ("--allow-path", "{outside}"), "the file is outside the checkout"),
        (
            {"type": "http", "url": "http://agent.example/", "headers": {"authorization": "Bearer x"}},
            ("--allow-plain-http",),
            "unencrypted to agent.example",
        ),
    ],
)
def test_the_suite_is_loaded_with_the_permissions_of_its_run(
    project: Project, tmp_path_factory: pytest.TempPathFactory, target: Any, flags: tuple[str, ...], refused: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "answers.jsonl").write_text("{}")
    night(project)
    project.suite([{"name": "a", "input": "hi", "ground_truth": "hi"}])
    project.policy(target=target.format(outside=outside) if isinstance(target, str) else target)
    given = [flag.format(outside=outside) for flag in flags]
    assert refused in make(project, "--suite", "agent.yaml", code=2).stderr
    make(project, "--suite", "agent.yaml", *given)


def test_a_folder_of_traces_is_read(project: Project) -> None:
    write_traces(project, exchange(trace(1), "Hello?", "Hi."), name="night/1.jsonl")
    write_traces(project, exchange(trace(2), "Who?", "Me."), name="night/2.jsonl")
    assert project.run("cases", "from-traces", "night", "-o", "new/cases.yaml").code == 0
    assert len(cases(project, "new/cases.yaml")) == 2
    assert Path(project.folder / "new").is_dir()
