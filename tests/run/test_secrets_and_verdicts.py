"""Taking secrets out of a record changes no verdict, whatever the secrets read."""

from __future__ import annotations

import pytest

from tests.commands.project import Project


@pytest.mark.parametrize("secret", ["passed", "failed", "completed", "pass", "score", "0.40", "code"])
def test_a_variable_that_reads_like_a_part_of_the_record(project: Project, secret: str) -> None:
    project.write(
        "checks.py",
        "from holodeck.lib.test_runner.code_grader import GraderResult\n"
        "def unsure(context):\n    return GraderResult(score=0.4, passed=False, reason='the score 0.40 has failed')\n"
        "def broken(context):\n    raise ValueError('failed')\n",
    )
    evaluations = [{"type": "code", "grader": f"checks:{name}"} for name in ("unsure", "broken")]
    project.suite([{"name": "a", "input": "${WORD}", "evaluations": evaluations}])
    project.answers([{"case": "a", "response": "anything"}])
    project.policy(target="recorded:answers.jsonl")
    finished, record = project.evaluate(WORD=secret)
    assert finished.code == 1, finished.stdout
    unsure, broken = record.cases[0].trials[0].turns[0].evaluations
    assert (unsure.status, unsure.metadata["passed"]) == ("completed", False)
    assert broken.status == "failed"
    # A variable's value is a secret in every text of the record.
    assert record.cases[0].trials[0].turns[0].input == "***"


def test_digests_of_ours_stay_although_a_secret_reads_like_them(project: Project) -> None:
    project.suite([{"name": "a", "input": "is it ${WORD}?", "ground_truth": "yes"}])
    project.answers([{"case": "a", "response": "yes"}])
    project.policy(target="recorded:answers.jsonl")
    _, first = project.evaluate(WORD="something else")
    again = {"WORD": "something else", "A_KEY": first.cases[0].content_hash, "B_KEY": first.suite.digest}
    finished, record = project.evaluate(**again)
    assert finished.code == 0, finished.stderr
    assert (record.cases[0].id, record.cases[0].content_hash) == (first.cases[0].id, first.cases[0].content_hash)
    assert (record.suite.digest, record.chosen) == (first.suite.digest, first.chosen)
