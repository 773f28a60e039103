"""Every judged metric that a suite can name, on one answer or on several: walked from the declarations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from holodeck_action.extensions.azure.catalogue import AzureEntry, evaluator_names, find_evaluator
from holodeck_action.extensions.azure.metrics import EVALUATORS
from holodeck_action.extensions.deepeval.catalogue import CatalogueEntry, find_metric, metric_names
from holodeck_action.extensions.deepeval.metrics_rag import RagName
from holodeck_action.metrics.registry import built_in
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.suite.model.probing import Exam
from tests.commands.project import Project
from tests.extensions.azure.test_classes import TOOLS
from tests.extensions.deepeval.test_classes import OPTIONS
from tests.extensions.simulation.shop import USER, customer
from tests.llm.models import KEY, Reply, Request, serve_models

STEPS = [
    "Check whether the answer names the price of the product in euros.",
    "Take points away for a missing guarantee.",
]
CRITERIA = "The answer names the price of the product and how long its guarantee lasts."
PAIRED = frozenset(("preference", "simulated_user"))
"""Types that grade a pair of answers and a simulated user, which a suite of plain answers does not have."""
_EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "geval": [
        {"name": "geval", "criteria": CRITERIA, "evaluation_steps": STEPS},
        {"name": "geval, strict_mode", "criteria": CRITERIA, "evaluation_steps": STEPS, "strict_mode": True},
        {"name": "geval without steps", "criteria": CRITERIA},
    ],
    "rag": [{"name": name, "metric_type": name} for name in get_args(RagName)],
}
_OPTIONS = {**OPTIONS, "PromptAlignmentMetric": {"prompt_instructions": ["Name the price in euros."]}}


@dataclass(frozen=True)
class Product:
    """What a case asks about, which is told in one sentence: the judge's lists then have one entry."""

    name: str = "steel kettle"
    price: str = "thirty"
    years: str = "two"

    @property
    def question(self) -> str:
        return f"What does the {self.name} cost, and how long is its guarantee?"

    @property
    def answer(self) -> str:
        return f"The {self.name} costs {self.price} euros and has a guarantee of {self.years} years."

    @property
    def expected(self) -> str:
        return f"The {self.name} costs {self.price} euros, with {self.years} years of guarantee."

    @property
    def text(self) -> str:
        return f"Price list: the {self.name} costs {self.price} euros. Its guarantee lasts {self.years} years."


def judged_metrics() -> list[dict[str, Any]]:
    """Return an entry of a suite, with a unique name, for every judged metric."""
    found: list[dict[str, Any]] = []
    for kind, declared in built_in().classes.items():
        if "judges" not in declared.model_fields or kind in PAIRED:
            continue
        match kind:
            case "standard":
                entries = [{"name": f"standard {name}", "metric": name} for name in EVALUATORS]
            case "deepeval":
                entries = [_class(name, _OPTIONS.get(name)) for name in metric_names() if _has_judge(name)]
            case "azure":
                azure = {name: find_evaluator(name) for name in evaluator_names()}
                entries = [
                    _class(name, {"tool_definitions": TOOLS} if each.options else None)
                    for name, each in azure.items()
                    if isinstance(each, AzureEntry)
                ]
            case _:
                entries = _EXAMPLES.get(kind, [{"name": kind}])
        found += [{"type": kind, **each} for each in entries]
    return found


def all_judged() -> list[dict[str, Any]]:
    """Return those entries, and those of `PAIRED`."""
    return [*judged_metrics(), *({"type": kind, "name": kind} for kind in sorted(PAIRED))]


def exams() -> dict[str, Exam | None]:
    """Return the pair of answers that probes the judges of every judged metric, by name; None for free criteria."""
    return {each["name"]: built_in().read("suite", each).exam for each in all_judged()}


def _has_judge(name: str) -> bool:
    found = find_metric(name)
    return isinstance(found, CatalogueEntry) and found.has_judge


def _class(name: str, options: dict[str, Any] | None) -> dict[str, Any]:
    return {"name": name, "metric": name, **({"options": options} if options else {})}


@dataclass(frozen=True)
class Judged:
    """What came of every metric in every case, and the questions to the judge."""

    evaluations: tuple[tuple[str, Evaluation], ...]
    questions: tuple[str, ...]


Judge = Callable[[Request], Reply]


def judge_answers(
    project: Project, judge: Judge, products: Sequence[Product] = (Product(),), *, probe: str = "never"
) -> Judged:
    """Run a suite with all judged metrics, graded by one judge: a case for each product."""
    metrics = judged_metrics()
    with serve_models(answer=judge) as models:
        openai = {"provider": "openai", "name": "judge", "endpoint": models.openai_url, "api_key": KEY}
        azure = {"provider": "azure_openai", "name": "judge", "endpoint": models.azure_url, "api_key": KEY}
        given = [{**each, "model": azure if each["type"] == "standard" else openai} for each in metrics]
        cases, answers = [], []
        for number, product in enumerate(products):
            project.write(f"prices{number}.txt", product.text)
            files = [{"path": f"prices{number}.txt", "type": "text"}]
            case = {"name": f"case {number}", "input": product.question, "ground_truth": product.expected}
            cases.append({**case, "files": files, "expected_tools": ["lookup"]})
            call = {"name": "lookup", "args": {"product": product.name}, "result": {"price": product.price}}
            said = {"response": product.answer, "retrieval_context": [product.text], "tool_invocations": [call]}
            answers.append({"case": f"case {number}", **said})
        project.suite(cases, given, model=openai)
        project.answers(answers)
        project.policy(target="recorded:answers.jsonl", judges={"probe": probe})
        finished, record = project.evaluate()
        assert finished.code in (0, 1, 3), finished.stdout + finished.stderr
        found = tuple((each.evaluator_name, each) for each in record.evaluations)
        assert {name for name, _ in found} == {each["name"] for each in metrics}
        return Judged(found, tuple(request.text for request in models.requests))


AGENT = """
def answer(messages):
    return {"response": %r, "tool_invocations": []}
"""


def judge_pairs(project: Project, judge: Judge, *, probe: str = "never") -> Judged:
    """Run the metrics of a pair of answers and of a simulated user, graded by one judge."""

    def answer(request: Request) -> Reply:
        return customer(request) if request.model == USER["model"]["name"] else judge(request)

    with serve_models(answer=answer) as models:
        openai = {"provider": "openai", "endpoint": models.openai_url, "api_key": KEY}
        judging = {"model": {**openai, "name": "judge"}}
        expect = {"expect": [{"contains": "costs"}]}
        user = {**USER, "model": {**openai, **USER["model"]}, "max_turns": 2}
        question = Product().question
        project.suite(
            [
                {"name": "pair", "input": question, "evaluations": [{"type": "preference", **judging}], **expect},
                {"name": "user", "simulate": user, "evaluations": [{"type": "simulated_user", **judging}], **expect},
            ],
            evaluations=None,
        )
        project.policy(target="python:agent:answer")
        project.write("agent.py", AGENT % "It costs more than I know.")
        base = project.run("run", "-o", "base")
        assert base.code in (0, 1, 3), base.stdout + base.stderr
        project.policy(target="python:agent:answer", judges={"probe": probe})
        project.write("agent.py", AGENT % f"{Product().answer} Your money for A-17 is refunded.")
        before = len(models.requests)
        finished, record = project.evaluate("--baseline", "file:base")
        assert finished.code in (0, 1, 3), finished.stdout + finished.stderr
        found = tuple((each.criteria.kind, each) for each in record.evaluations if each.criteria.kind in PAIRED)
        assert {name for name, _ in found} == PAIRED
        asked = [request for request in models.requests[before:] if request.model == "judge"]
        return Judged(found, tuple(request.text for request in asked))
