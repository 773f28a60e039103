"""Metric classes of a suite by `type: deepeval`: they run in a worker, and ask the suite's judge."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

from holodeck_action.record.canonical import canonical_json
from tests.commands.project import Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels, Request
from tests.workers.installing import bare_python

QUICK = """
from holodeck_action.extensions.deepeval.stand_ins import stand_ins

with stand_ins("anthropic", "openai"):
    import deepeval.metrics
"""
"""Imports DeepEval without its clients of models, which no class here uses, in a third of the time."""
TONE = '''
from typing import List, Literal, Optional

from deepeval.metrics import BaseMetric
from deepeval.models import DeepEvalBaseLLM
from deepeval.test_case import LLMTestCase, SingleTurnParams
from pydantic import BaseModel


class Verdict(BaseModel):
    reason: str
    verdict: Literal["yes", "no"]


class Base(BaseMetric):
    _required_params = [SingleTurnParams.INPUT, SingleTurnParams.ACTUAL_OUTPUT]

    def __init__(
        self, words: List[str], style: Literal["warm", "cool"] = "warm", threshold: Optional[float] = 0.6,
        model: Optional[DeepEvalBaseLLM] = None, callback=None,
    ):
        self.words, self.style, self.threshold, self.model = words, style, threshold, model

    def is_successful(self):
        return self.score >= self.threshold


class Tone(Base):
    """Asks twice: by a schema, and in words."""

    def measure(self, test_case: LLMTestCase):
        raise NotImplementedError

    async def a_measure(self, test_case: LLMTestCase):
        print("measuring", self.style)
        verdict = await self.model.a_generate(f"{self.style}: {test_case.actual_output}?", schema=Verdict)
        words = self.model.generate("Name the words of " + ", ".join(self.words))
        self.score = 1.0 if verdict.verdict == "yes" else 0.2
        self.reason = f"{verdict.reason}; {words}"
        return self.score
'''


def judge(request: Request) -> Answer:
    return Answer(json.dumps({"reason": "so it is", "verdict": "yes"}) if request.schema else "warm words")


@pytest.fixture
def suite(project: Project, models: FakeModels) -> Callable[..., None]:
    """Write a suite with own metrics of `my_metrics`, one case, and its recorded answer."""

    def write(*metrics: dict[str, Any], code: str = TONE, quick: bool = True, **row: Any) -> None:
        model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "api_key": KEY}
        case: dict[str, Any] = {"name": "one", "input": "Can I return it?"}
        listed = [{"type": "deepeval", **each} for each in metrics]
        project.suite([case], evaluations={"model": model, "metrics": listed})
        # One worker imports DeepEval for all classes.
        project.policy(target="recorded:answers.jsonl", limits={"concurrency": 1})
        project.answers([{"case": "one", "response": "Gladly, any time.", **row}])
        project.write("my_metrics.py", QUICK + code if quick else code)

    return write


OWN = {"metric": "my_metrics:Tone", "options": {"words": ["glad"]}}


@pytest.mark.full
@pytest.mark.proves("DeepEvalClassMetric: metric options threshold required_params")
@pytest.mark.models(answer=judge)
def test_an_own_class_asks_the_judge_and_is_replayed_byte_for_byte(
    project: Project, models: FakeModels, suite: Any
) -> None:
    cool = {"name": "cool", "options": {"words": ["glad"], "style": "cool"}, "threshold": 0.9}
    suite(OWN, {**OWN, **cool, "required_params": ["actual_output"]})
    finished, record = project.evaluate("--record", "tape")
    assert finished.code == 0, finished.stderr
    found, other = evaluations(record)
    assert (found.evaluator_name, found.score, found.explanation) == ("Tone", 1, "so it is; warm words")
    assert (found.criteria.kind, found.criteria.metric, found.criteria.threshold) == (
        "deepeval",
        "my_metrics:Tone",
        0.6,
    )
    assert re.fullmatch(rf"1.0.0, code [0-9a-f]{{12}}, deepeval {version('deepeval')}", found.evaluator_version or "")
    assert (found.metadata["judge"], found.metadata["output"]) == ("openai/gpt-4o", "measuring warm\n")
    assert (other.evaluator_name, other.criteria.threshold, other.metadata["output"]) == (
        "cool",
        0.9,
        "measuring cool\n",
    )
    assert sorted(request.text for request in models.requests) == [
        "Name the words of glad",
        "cool: Gladly, any time.?",
        "warm: Gladly, any time.?",
    ]
    assert [[*request.schema["properties"]] for request in models.requests if request.schema] == [
        ["reason", "verdict"],
        ["reason", "verdict"],
    ]
    again, repeated = project.evaluate("--replay", "tape")
    assert (again.code, len(models.requests)) == (0, 3)
    assert canonical_json(repeated) == canonical_json(record)


STUBBORN = f"""{TONE}

class Stubborn(Base):
    def measure(self, test_case):
        try:
            self.model.generate("Is it good?", schema=Verdict)
        except Exception as error:
            print("caught", type(error).__name__)
        self.score = 1.0
        return self.score

    async def a_measure(self, test_case):
        raise NotImplementedError
"""
CAUGHT = {**OWN, "metric": "my_metrics:Stubborn"}


@pytest.mark.full
@pytest.mark.models(answer=judge)
def test_an_exhausted_budget_is_no_score_though_the_class_catches_the_error(
    project: Project, models: FakeModels, suite: Any
) -> None:
    suite(CAUGHT, code=STUBBORN)
    finished, record = project.evaluate("--max-tokens", "1")
    assert finished.code == 4
    assert [each.score for each in evaluations(record) if each.error is None] == []
    assert models.requests == []


@pytest.mark.full
@pytest.mark.models(answer=lambda request: Answer('{"reason": "it depends", "verdict": "perhaps"}'))
def test_a_verdict_beside_the_schema_is_asked_for_once_more_and_is_then_no_score(
    project: Project, models: FakeModels, suite: Any
) -> None:
    suite(CAUGHT, code=STUBBORN)
    finished, record = project.evaluate()
    assert finished.code == 3
    (found,) = evaluations(record)
    assert found.error is not None
    assert (found.score, found.error.code) == (None, "bad_verdict")
    assert "verdict" in found.error.message
    assert len(models.requests) == 2


WORDED = f"""{TONE}
import json


class Worded(Base):
    async def a_measure(self, test_case: LLMTestCase):
        example = json.dumps({{"reason": "The words are kind and clear to everybody.", "score": 1}})
        prompt = f"Grade the tone. Example: {{example}} Answer: {{test_case.actual_output}}"
        verdict = json.loads(await self.model.a_generate(prompt))
        self.score, self.reason = float(verdict["score"]), verdict["reason"]
        return self.score
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("reason", "code", "calls"),
    [("The words are kind and clear to everybody.", 3, 2), ('It says "Gladly, any time", which is kind.', 0, 1)],
    ids=["copied", "honest"],
)
def test_an_answer_in_words_that_copies_the_example_of_the_class_is_no_score(
    project: Project, models: FakeModels, suite: Any, reason: str, code: int, calls: int
) -> None:
    models.answer(lambda request: Answer(json.dumps({"reason": reason, "score": 1})))
    suite({**OWN, "metric": "my_metrics:Worded"}, code=WORDED)
    finished, record = project.evaluate()
    (found,) = evaluations(record)
    assert (finished.code, len(models.requests)) == (code, calls), finished.stdout + finished.stderr
    assert (found.score is None) == (code == 3)
    assert found.error is None or found.error.code == "bad_verdict"


UNRULY = f"""{TONE}
import os
import socket
import time


class Plain(BaseMetric):
    _required_params = [SingleTurnParams.ACTUAL_OUTPUT]

    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case):
        self.score = self.grade(test_case)
        self.success = self.score >= self.threshold
        return self.score

    async def a_measure(self, test_case):
        return self.measure(test_case)

    def is_successful(self):
        return self.success


class Crash(Plain):
    def grade(self, test_case):
        os._exit(7)


class Hang(Plain):
    def grade(self, test_case):
        print("still here")
        time.sleep(600)


class Net(Plain):
    def grade(self, test_case):
        try:
            socket.create_connection(("127.0.0.1", 9))
        except OSError as error:
            print(error)
        return 1.0


class Raising(Plain):
    def grade(self, test_case):
        raise ValueError("no words")


class Loud(Plain):
    def grade(self, test_case):
        return 11.0


class Inverted(Plain):
    def grade(self, test_case):
        return 0.9

    def is_successful(self):
        return self.score <= self.threshold


class Fine(Plain):
    def grade(self, test_case):
        return 0.75
"""


@pytest.mark.full
@pytest.mark.models(answer=judge)
def test_a_class_that_crashes_hangs_or_leaves_its_bounds_is_an_error_of_its_own(
    project: Project, models: FakeModels, suite: Any
) -> None:
    names = ("Crash", "Net", "Raising", "Loud", "Inverted", "Fine")
    suite(
        *({"metric": f"my_metrics:{name}"} for name in names),
        {"metric": "my_metrics:Hang", "timeout_ms": 1500},
        code=UNRULY,
    )
    finished, record = project.evaluate()
    assert finished.code == 3, finished.stderr
    found = {each.evaluator_name: each for each in evaluations(record)}
    assert (found["Fine"].score, found["Fine"].error) == (0.75, None)
    assert "judge" not in found["Fine"].metadata
    messages = {name: each.error.message for name, each in found.items() if each.error is not None}
    expected = {
        "Crash": "my_metrics:Crash: its process exited with code 7",
        "Hang": "Hang took longer than 1.5 s",
        "Net": "my_metrics:Net: it tried to use the network (socket.",
        "Raising": "my_metrics:Raising: it raised ValueError: no words (my_metrics.py:",
        "Loud": "my_metrics:Loud: it gave the score 11.0, which is not a number from 0 to 1",
        "Inverted": "my_metrics:Inverted gave the score 0.9 with the threshold 0.5, but its is_successful",
    }
    assert messages.keys() == expected.keys()
    for name, start in expected.items():
        assert messages[name].startswith(start), messages[name]
    assert models.requests == []


READERS = f"""{TONE}

class Plain(Base):
    _required_params = [SingleTurnParams.ACTUAL_OUTPUT]

    def __init__(self, threshold: float = 0.5):
        self.threshold = threshold

    def measure(self, test_case):
        self.score = 0.0 if self.wrong(test_case) else 1.0
        return self.score

    async def a_measure(self, test_case):
        return self.measure(test_case)


class Calls(Plain):
    def wrong(self, test_case):
        return any(call.name == "delete" for call in test_case.tools_called or [])


class Texts(Plain):
    def wrong(self, test_case):
        return "secret" in str(test_case.retrieval_context)


class Careful(Plain):
    def wrong(self, test_case):
        try:
            return bool(test_case.tools_called)
        except Exception:
            return False


class Silent(Plain):
    def wrong(self, test_case):
        return False

    def is_successful(self):
        self.success = self.score >= self.threshold


class Word(Silent):
    def is_successful(self):
        return "no"


class Answer(Plain):
    def wrong(self, test_case):
        return not test_case.actual_output
"""


@pytest.mark.full
@pytest.mark.models(answer=judge)
def test_an_unknown_fact_that_a_class_reads_and_a_success_that_is_not_true_do_not_pass(
    project: Project, models: FakeModels, suite: Any
) -> None:
    named = [{"metric": f"my_metrics:{name}"} for name in ("Calls", "Texts", "Careful", "Silent", "Word", "Answer")]
    suite(*named, code=READERS)
    finished, record = project.evaluate()
    assert finished.code == 3, finished.stderr
    found = {each.evaluator_name: each for each in evaluations(record)}
    assert (found.pop("Answer").score, found.pop("Silent").error is not None) == (1, True)
    codes = {name: each.error.code for name, each in found.items() if each.error is not None}
    assert codes == {**dict.fromkeys(("Calls", "Texts", "Careful"), "missing_input"), "Word": "invalid_score"}
    assert found["Calls"].error is not None
    assert found["Calls"].error.message == (
        "my_metrics:Calls: it reads tools_called, which the target does not report; "
        "report an empty list if there are none"
    )

    # What is known is read, and graded.
    suite(*named[:3], code=READERS, tool_invocations=[{"name": "delete"}], retrieval_context=["a secret"])
    finished, record = project.evaluate()
    assert finished.code == 1, finished.stderr
    assert [each.score for each in evaluations(record)] == [0, 0, 0]
    suite(*named[:3], code=READERS, tool_invocations=[], retrieval_context=[])
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    assert [each.score for each in evaluations(record)] == [1, 1, 1]


TALK = """
from deepeval.metrics import BaseConversationalMetric


class Memory(BaseConversationalMetric):
    def __init__(self, model, threshold: float = 0.5):
        self.threshold, self.model = threshold, model

    async def a_measure(self, test_case):
        said = " / ".join(turn.role + " " + turn.content for turn in test_case.turns)
        await self.model.a_generate(test_case.chatbot_role + ": " + said)
        self.score = len(test_case.turns) / 10
        return self.score

    def measure(self, test_case):
        raise NotImplementedError

    def is_successful(self):
        return self.score >= self.threshold
"""


@pytest.mark.full
@pytest.mark.models(answer=judge)
def test_a_class_of_conversations_grades_once_with_all_turns_and_with_every_judge_of_a_panel(
    project: Project, models: FakeModels, suite: Any
) -> None:
    judges = [
        {"provider": "openai", "name": name, "endpoint": models.openai_url, "api_key": KEY} for name in ("a", "b")
    ]
    suite(
        {
            "metric": "my_metrics:Memory",
            "required_params": ["expected_outcome"],
            "options": {"chatbot_role": "clerk"},
            "threshold": 0.4,
            "judges": {"models": judges},
        },
        code=TALK,
    )
    written = json.loads((project.folder / "agent.yaml").read_text())
    written["test_cases"] = [
        {"name": "one", "turns": [{"input": "Hello"}, {"input": "Bye", "ground_truth": "a farewell"}]}
    ]
    project.write("agent.yaml", json.dumps(written, indent=1))
    project.answers([{"case": "one", "turn": at, "response": text} for at, text in enumerate(("Hi!", "See you."))])
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stderr
    (found,) = evaluations(record)
    assert (found.evaluator_name, found.score) == ("Memory", 0.4)
    assert [each["model"] for each in found.metadata["panel"]["verdicts"]] == ["openai/a", "openai/b"]
    assert "deepeval" in (found.evaluator_version or "")
    said = "clerk: user Hello / assistant Hi! / user Bye / assistant See you."
    assert [request.text for request in models.requests] == [said, said]


@pytest.mark.full
@pytest.mark.models(answer=judge)
def test_a_member_of_a_composite_may_be_an_own_class_and_unknown_calls_are_an_error(
    project: Project, models: FakeModels, suite: Any
) -> None:
    called = {**OWN, "required_params": ["actual_output", "tools_called"], "name": "called"}
    # Here DeepEval is imported as it is.
    suite(called, quick=False)
    written = json.loads((project.folder / "agent.yaml").read_text())
    written["evaluations"]["metrics"].append({"type": "composite", "metrics": [{"type": "deepeval", **OWN}]})
    project.write("agent.yaml", json.dumps(written, indent=1))
    finished, record = project.evaluate()
    assert finished.code == 3, finished.stderr
    first, whole = evaluations(record)
    assert "tool_invocations" in str(first.error)
    assert (whole.score, whole.error) == (1, None)


@pytest.mark.parametrize(
    ("settings", "place", "message"),
    [
        (
            {"metric": "my_metrics:Tune"},
            "agent.yaml:18:4",
            'the module my_metrics has no class Tune, did you mean "Tone"?',
        ),
        ({"metric": "my_metric:Tone"}, "agent.yaml:18:4", "there is no module my_metric in the suite's folder"),
        ({"metric": "my_metrics:Verdict"}, "agent.yaml:18:4", "my_metrics:Verdict is not a subclass of BaseMetric or"),
        (
            {**OWN, "options": {"words": ["a"], "stile": "cool"}},
            "agent.yaml:25:6: options.stile",
            'did you mean "style"?',
        ),
        (
            {**OWN, "options": {"words": ["a"], "style": "hot"}},
            "agent.yaml:25:15: options.style",
            '"hot" is not allowed',
        ),
        ({"metric": "my_metrics:Tone"}, "agent.yaml:18:4: options.words", "is missing (required)"),
        ({**OWN, "options": {"words": 3}}, "options.words: ", "must be a list"),
        (
            {**OWN, "metric": "my_metrics:Bare"},
            "agent.yaml:18:4",
            "what the metric reads is unknown; give required_params",
        ),
        ({**OWN, "metric": "my_metrics:Odd"}, "agent.yaml:18:4", "cannot be used: it needs MCP servers as"),
        ({"metric": "my_metrics:Picky"}, "agent.yaml:18:4", "its option client takes a Python object"),
        ({"metric": "BiasMetric", "required_params": ["input"]}, "metrics[0].required_params", "only for a class of"),
        ({**OWN, "required_params": ["output"]}, "metrics[0].required_params[0]", 'did you mean "'),
    ],
)
def test_a_wrong_class_or_option_is_refused_at_its_line_without_an_import(
    project: Project, suite: Any, settings: dict[str, Any], place: str, message: str
) -> None:
    more = """
class Bare(BaseMetric):
    def __init__(self, words): pass

class Odd(Base):
    _required_params = [SingleTurnParams.INPUT, SingleTurnParams.MCP_SERVERS]

class Picky(Base):
    def __init__(self, client: DeepEvalBaseLLM, **more): pass
"""
    suite(settings, code=f"open('imported', 'w')\n{TONE}{more}")
    finished = project.run("validate")
    assert finished.code == 2
    assert place in finished.stderr
    assert message in finished.stderr
    assert not (project.folder / "imported").exists()


def test_validate_imports_nothing(project: Project, suite: Any) -> None:
    suite(OWN, code=f"open('imported', 'w')\n{TONE}")
    finished = project.run("validate")
    assert finished.code == 0, finished.stderr
    assert not (project.folder / "imported").exists()


@pytest.mark.full
@pytest.mark.models(answer=judge)
def test_an_environment_without_the_library_is_refused_before_anything_is_asked(
    project: Project, models: FakeModels, suite: Any
) -> None:
    suite(OWN)
    assert project.run("run", "-o", "out").code == 0
    asked = len(models.requests)
    bare_python(project.folder / "env")
    project.policy(target="recorded:answers.jsonl", environment={"interpreter": "env/bin/python"})
    for arguments in (("run",), ("rejudge", "out/results.json", "agent.yaml", "-o", "again")):
        finished = project.run(*arguments)
        assert finished.code == 2
        assert "agent.yaml:18:4: metric: my_metrics:Tone: importing my_metrics raised ModuleNotFound" in finished.stderr
        assert "No module named 'deepeval'" in finished.stderr
        assert "; add the package to `environment` in the policy file, or to --requirements" in finished.stderr
    assert len(models.requests) == asked


def test_python_names_the_way_to_grade_with_an_own_class() -> None:
    from holodeck_action import score
    from holodeck_action.metrics import DeepEval

    with pytest.raises(ValueError, match="a class of the program grades by its own method"):
        score(DeepEval(metric="my_metrics:Tone"), "Hello", input="Hi")
