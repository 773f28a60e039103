"""holodeck-action: `run` in a runner's environment, for a pull request."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

from msgspec.structs import replace

from bench.processes import PROGRAM
from bench.verdicts.jobs import ORDER_SCHEMA, Job, NotOfferedError
from bench.verdicts.scenarios import Case, Change, Check, Scenario, Team, numbered_case
from bench.verdicts.server import AGENT_MODEL, BASE_MARK, JUDGE_MODEL
from holodeck_action.record.sealing import DIGEST

_HEAD_MARK = "Release 2"
_BASE = "accepted/results.json"
_GRADER = """import json
from pathlib import Path

from counting import share_of

WEIGHTS = Path(__file__).with_name("weights.json")


def share(ctx):
    return share_of(json.loads(WEIGHTS.read_text()), ctx.agent_response)
"""
_HELPER = """def share_of(weights, answer):
    found = sum(weight for text, weight in weights if text in answer)
    return found / sum(weight for _, weight in weights)
"""
_LENIENT_GRADER = "def share(ctx):\n    return 1.0\n"
_LENIENT_HELPER = "def share_of(weights, answer):\n    return 1.0\n"
_MAIN = ".git/refs/remotes/origin/main"
_TAPE, _TRANSCRIPT = "tape", "answers.jsonl"


def run(job: Job) -> int:
    """Run a scenario's job."""
    scenario = job.scenario
    if scenario.team.retries_after_error:
        raise NotOfferedError("a case is not repeated after an error of the agent")
    if any(check.kind == "same_as" for case in scenario.cases for check in case.checks):
        raise NotOfferedError("no metric sees the answers of two cases")
    job.environ |= {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_REPOSITORY": "octo/shop", "GITHUB_BASE_REF": "main"}
    job.environ |= {"GITHUB_WORKSPACE": str(job.folder), "GITHUB_HEAD_REF": "topic"}
    job.environ["GITHUB_EVENT_PATH"] = str(job.folder.parent / "event.json")
    event = job.folder.parent / "event.json"
    event.write_text(json.dumps(_event()))
    base = scenario.base
    options = _write_base(job) if base else []
    if not base:
        _write(job, scenario, _HEAD_MARK)
    if base:
        event.write_text(json.dumps(_event((job.folder / _MAIN).read_text(encoding="ascii").strip())))
        # `on_loosened` also protects the committed results, so that it is not for strict exams alone.
        options += ["--on-missing-baseline", scenario.team.on_missing_base, "--on-loosened", "fail"]
    if scenario.team.accepts_code:
        options += ["--on-changed-code", "warn"]
    if scenario.team.regressions is not None:
        options += ["--max-regressions", str(scenario.team.regressions)]
    return job.run(*PROGRAM, "run", "-o", "out", *options)


def _event(base_sha: str | None = None) -> dict[str, Any]:
    repository = {"full_name": "octo/shop", "default_branch": "main", "fork": False}
    base, head = ({"ref": ref, "repo": repository} for ref in ("main", "topic"))
    request = {"number": 7, "base": {**base, "sha": base_sha}, "head": head}
    return {"action": "synchronize", "number": 7, "pull_request": request, "repository": repository}


def _write_base(job: Job) -> list[str]:
    """Commit the base and the head; return the options that name the base."""
    scenario = job.scenario
    base = scenario.base
    assert base is not None
    old = replace(scenario, change=Change())
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c")
    job.run("git", "init", "-q", "-b", "main")
    if base.tamper == "no-suite":
        job.write("README.md", "A shop.\n")
    else:
        _write(job, old, BASE_MARK)
    if base.source == "file":
        job.write(_BASE, _results(job))
    for step in (("add", "-A"), ("commit", "-q", "-m", "base"), ("update-ref", "refs/remotes/origin/main", "HEAD")):
        job.run(*git, *step)
    job.run("git", "checkout", "-q", *(("--orphan",) if base.tamper == "unrelated" else ("-b",)), "topic")
    if base.source == "file":
        _tamper(job, old)
    _write(job, scenario, _HEAD_MARK)
    if scenario.change.answers == "recordings":
        _commit_recordings(job)
    for step in (("add", "-A"), ("commit", "-q", "-m", "change")):
        job.run(*git, *step)
    return ["--baseline", f"file:{_BASE}" if base.source == "file" else "merge-base"]


def _commit_recordings(job: Job) -> None:
    """Record the model, write the right answers into the recordings, and let them answer."""
    scenario = job.scenario
    job.run(*PROGRAM, "run", "-o", str(job.folder.parent / "recorded"), "--record", _TAPE)
    tape = job.folder / _TAPE / "cassette.jsonl"
    text = tape.read_text(encoding="utf-8")
    for case in scenario.cases:
        for wrong in scenario.fault.get(case.name, ()):
            text = text.replace(str(wrong), case.answer)
    tape.write_text(text, encoding="utf-8")
    job.write(
        "holodeck-action.yaml", {**_policy(scenario, [*scenario.cases]), "cache": {"mode": "replay", "dir": _TAPE}}
    )


def _results(job: Job) -> str:
    """Return the results of a run of what is checked out."""
    out = job.folder.parent / "base"
    job.run(*PROGRAM, "run", "-o", str(out))
    return (out / "results.json").read_text(encoding="utf-8")


def _tamper(job: Job, old: Scenario) -> None:
    """Do to the committed results what the pull request does to them."""
    base = job.scenario.base
    assert base is not None
    file = job.folder / _BASE
    content = file.read_text(encoding="utf-8")
    match base.tamper:
        case "delete":
            file.unlink()
        case "flip":
            # The best forgery is a real run: that of the agent which the pull request breaks.
            _write(job, old, _HEAD_MARK)
            job.write(_BASE, _results(job))
        case "other-suite":
            _write(job, replace(old, cases=tuple(numbered_case(f"q{number}") for number in range(11, 15))), BASE_MARK)
            job.write(_BASE, _results(job))
        case "cut":
            job.write(_BASE, content[: len(content) // 2])
        case "indent":
            job.write(_BASE, json.dumps(json.loads(content), indent=4, ensure_ascii=False))
        case "score":
            job.write(_BASE, _with_impossible_score(content))


def _with_impossible_score(content: str) -> str:
    """Return results whose first score is 7; their digest is that of the forged content."""
    forged = re.sub(r'("score": ?)1(?:\.0)?\b', r"\g<1>7", content, count=1).encode()
    digest = DIGEST.search(forged)
    assert digest is not None
    sealed = hashlib.sha256(forged[: digest.start()]).hexdigest().encode()
    return (forged[: digest.start(1)] + sealed + forged[digest.end(1) :]).decode()


def _write(job: Job, scenario: Scenario, mark: str) -> None:
    """Write the suite with its policy."""
    change = scenario.change
    cases = [*scenario.cases, *([numbered_case(change.add)] if change.add else [])]
    cases = [] if change.empty == "cases" else [case for case in cases if case.name != change.delete]
    suite = {
        "name": "shop",
        "model": {"provider": "openai", "name": AGENT_MODEL},
        "instructions": {"inline": f"{mark}. Answer customers of a shop."},
        "test_cases": [_case(job, case, change) for case in cases],
    }
    job.write("agent.yaml", suite)
    job.write("holodeck-action.yaml", _policy(scenario, cases))
    if scenario.agent != "model":
        job.copy_agent()
    if change.answers == "transcript":
        rows = [json.dumps({"case": case.name, "response": case.answer}) for case in cases]
        job.write(_TRANSCRIPT, "".join(f"{row}\n" for row in rows))


def _case(job: Job, case: Case, change: Change) -> dict[str, Any]:
    checks = () if change.empty == "checks" else case.checks
    found: dict[str, Any] = {"name": case.name}
    if case.turns:
        found["turns"] = [{"input": ask} for ask in case.turns]
    else:
        found["input"] = case.ask
    if case.share is not None:
        lenient = change.lenient
        weights = [(check.contains, check.weight) for check in checks]
        job.write("weights.json", [("", 1)] if lenient == "list" else weights)
        job.write("counting.py", _LENIENT_HELPER if lenient == "helper" else _HELPER)
        tidied = _GRADER.replace("share_of(json", "1.0 * share_of(json") if change.tidy else _GRADER
        job.write("graders.py", _LENIENT_GRADER if lenient == "grader" else tidied)
        return {**found, "evaluations": [{"type": "code", "grader": "graders:share", "threshold": case.share}]}
    metrics: list[dict[str, Any]] = []
    for check in checks:
        if check.equals:
            found["ground_truth"] = change.expect.get(case.name, check.equals)
            metrics.append({"type": "standard", "metric": "equality"})
        elif check.number is not None:
            found["ground_truth"] = f"{check.number:g}"
            metrics.append({"type": "standard", "metric": "numeric"})
        elif check.max_words is not None:
            metrics.append({"type": "length", "max_words": check.max_words})
        elif check.rubric or check.conversation:
            metrics.append(_judged(check))
    expected = [each for check in checks if (each := _expect(job, check))]
    return {**found, **({"evaluations": metrics} if metrics else {}), **({"expect": expected} if expected else {})}


def _judged(check: Check) -> dict[str, Any]:
    criteria = check.rubric or check.conversation
    scope = {"scope": "conversation"} if check.conversation else {}
    model = {"provider": "openai", "name": JUDGE_MODEL}
    shared = {"type": "geval", "name": "Criteria", "criteria": criteria, "evaluation_steps": [criteria]}
    return {**shared, "model": model, **scope}


def _expect(job: Job, check: Check) -> dict[str, Any] | None:
    """Return a check of the answer's text."""
    if check.contains is not None:
        return {"contains": check.contains}
    if check.excludes is not None:
        return {"not_contains": check.excludes}
    if check.equals == "":
        return {"regex": r"\A\Z"}
    if check.matches is not None:
        return {"regex": check.matches}
    if check.json_schema is not None:
        job.write("order.schema.json", ORDER_SCHEMA)
        return {"json": "order.schema.json", "fenced": check.fenced}
    return None


def _policy(scenario: Scenario, cases: list[Case]) -> dict[str, Any]:
    team: Team = scenario.team
    change = scenario.change
    policy: dict[str, Any] = {"limits": {"turn_timeout_s": team.turn_timeout_s}}
    if scenario.agent != "model":
        policy["target"] = "python:agent:answer"
    if change.answers == "transcript":
        policy["target"] = f"recorded:{_TRANSCRIPT}"
    if team.trials > 1:
        policy["trials"] = {"repeat": team.trials, "min_pass": team.need or team.trials}
    gates: dict[str, Any] = {"min_pass_rate": change.pass_rate if change.pass_rate is not None else team.pass_rate}
    if team.errors_allowed:
        gates |= {"min_completeness": 1 - team.errors_allowed}
        gates["max_errors"] = math.floor(team.errors_allowed * len(cases))
    latencies = {check.latency_s for case in cases for check in case.checks if check.latency_s is not None}
    if latencies:
        gates["p95_latency_ms"] = 1000 * min(latencies)
    policy["gates"] = gates
    called = {case.name: case for case in cases if any(check.calls for check in case.checks)}
    if called:
        policy["cases"] = {
            name: {
                "expected_trajectory": [{"name": call.name, "args": call.args} for call in case.tools],
                "evaluations": [{"type": "trajectory"}],
            }
            for name, case in called.items()
        }
    return policy
