"""Runs a metric class of the suite in a worker with the suite's Python, and calls the suite's judge for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from holodeck_action.extensions.deepeval.base import list_filled
from holodeck_action.extensions.deepeval.catalogue import CatalogueEntry
from holodeck_action.extensions.deepeval.worker_metric import UNREPORTED_FACT
from holodeck_action.llm.limits.pauses import pause_all_clocks
from holodeck_action.metrics.base import describe
from holodeck_action.metrics.code_grader import OUTPUT_SHOWN, error_of_user_code, source_version
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.judging.copied import Question, list_strings
from holodeck_action.metrics.judging.verdicts import VerdictError, request_text, request_verdict, verdict_object
from holodeck_action.suite.json_schemas import JsonSchema
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import cut, cut_start, make_storable
from holodeck_action.workers.code_errors import UserCodeError

if TYPE_CHECKING:
    from holodeck_action.llm.judge import JudgeAnswer, JudgeModel
    from holodeck_action.workers.pool import Lease, WorkerPool

_WORKER = "holodeck_action.extensions.deepeval.worker_metric"
_MOST_BYTES = 4_000_000
"""Maximum bytes of a question of the class, and of its result."""
_LONGEST_PROBLEM = 200
_REPORT = "report an empty list if there are none"
_VERSION = lazy_pattern(r"[\w.+!-]{1,40}")
_NAME = lazy_pattern(r"[^a-zA-Z0-9_-]")
"""Matches what the names of schemas must not contain."""


class OwnClass:
    """A metric class of the suite.

    Attributes:
        entry: its properties.
        version: end of the evaluator's version: a digest of the class's file, and the version of DeepEval in the
            suite's Python; empty before the first call.
    """

    def __init__(self, reference: str, entry: CatalogueEntry, pool: WorkerPool) -> None:
        """Store the arguments; no worker is called.

        Args:
            reference: `module.path:Class`.
            entry: its properties.
            pool: the workers that run the class.
        """
        self.entry = entry
        self.version = ""
        self._reference = reference
        self._pool = pool

    async def measure(self, payload: Mapping[str, Any], judge: JudgeModel | None) -> tuple[dict[str, Any], str]:
        """Evaluate a test case.

        The time limit does not include the wait for a worker and the import.

        Args:
            payload: `{case, traced, options, threshold}`: see `worker_metric.measure`.
            judge: the judge that the class may call; None if the class takes no model.

        Returns:
            `{score, reason}`, and the end of the printed output.

        Raises:
            EvaluationError: the class gave no usable score.
            ModelCallError: a call of the judge failed, even if the class has caught that error.
        """
        failed: list[Exception] = []
        filled = list_filled(payload["case"], payload["options"])

        async def answer(question: Any) -> dict[str, Any]:
            assert judge is not None
            try:
                answered = await _answer(judge, make_storable(question), tuple(filled))
                # Later prompts may contain it.
                filled.extend(list_strings(answered))
                return answered
            except Exception as error:  # noqa: BLE001 - raised when the class has ended
                failed.append(error)
                return {"failed": describe(error)}

        more = {"model_option": self.entry.model_option, "judge": "" if judge is None else judge.label}
        try:
            with pause_all_clocks():
                lease = await self._pool.lease()
            async with lease:
                with pause_all_clocks():
                    await lease.check(self._reference)
                    if not self.version:
                        self.version = await self._read_version(lease)
                outcome = await lease.call(
                    "extend",
                    self._reference,
                    {"by": f"{_WORKER}:measure", "payload": {**payload, **more}},
                    None,
                    max_bytes=_MOST_BYTES,
                    answering=None if judge is None else answer,
                )
        except UserCodeError as error:
            if error.code == UNREPORTED_FACT and not failed:
                raise EvaluationError(f"{error.message}; {_REPORT}", code="missing_input") from error
            raise (failed[0] if failed else error_of_user_code(error)) from error
        if failed:
            raise failed[0]
        return self._check(make_storable(outcome.value), payload["threshold"]), cut_start(outcome.output, OUTPUT_SHOWN)

    async def _read_version(self, lease: Lease) -> str:
        code = await source_version(lease.call, self._reference, None)
        found = await lease.call("extend", self._reference, {"by": f"{_WORKER}:library_version", "payload": None}, None)
        library = str(found.value) if _VERSION.fullmatch(str(found.value)) else "of an unknown version"
        return f"{f', code {code}' if code else ''}, deepeval {library}"

    def _check(self, library_result: Any, threshold: float | None) -> dict[str, Any]:
        """Return the result of `worker_metric.measure` after a check, since user code may have forged it.

        Raises:
            EvaluationError: the result is invalid (code `bad_answer`), or the class's own verdict contradicts its score
                (`invalid_score`).
        """
        match library_result:
            case {"score": float() | int() as score, "reason": str() | None, "success": bool() as success}:
                if not 0 <= score <= 1:
                    raise EvaluationError(f"{self._reference}: its process sent an invalid score", code="bad_answer")
                if success != (score > 0 if threshold is None else score >= threshold):
                    mark = "without a threshold" if threshold is None else f"with the threshold {threshold:g}"
                    returned = "True" if success else "no True"
                    raise EvaluationError(
                        f"{self._reference} gave the score {score:g} {mark}, but its is_successful returned "
                        f"{returned}: higher scores must be better, and self.threshold decides",
                        code="invalid_score",
                    )
                return dict(library_result)
        raise EvaluationError(f"{self._reference}: its process sent an invalid result", code="bad_answer")


async def _answer(judge: JudgeModel, question: Any, filled: tuple[str, ...]) -> dict[str, Any]:
    """Return the judge's answer to a question of the class; the question may be forged.

    Args:
        judge: the judge.
        question: `{prompt}` or `{prompt, schema, schema_name}`.
        filled: texts of the case and the suite, and earlier answers.

    Raises:
        EvaluationError: the question is invalid (code `bad_answer`), or two answers did not fit its schema or were
            copied from it (`bad_verdict`).
        ModelCallError: there is no answer.
    """
    match question:
        case {"prompt": str() as prompt, "schema": dict() as schema, "schema_name": str() as name}:
            pass
        case {"prompt": str() as prompt} if "schema" not in question:
            return {"text": await request_text(judge.label, Question(prompt, filled), judge.ask)}
        case _:
            raise EvaluationError("the metric's process sent an invalid question", code="bad_answer")
    try:
        wanted = JsonSchema(schema)
    except ValueError as error:
        raise EvaluationError(
            f"the metric asks for an answer by an invalid schema: {error}", code="bad_answer"
        ) from None

    def read(text: str) -> dict[str, Any]:
        verdict = verdict_object(text)
        if violations := wanted.violations(verdict, label="the answer", max_violations=1):
            raise VerdictError(cut(violations[0].problem, _LONGEST_PROBLEM))
        return verdict

    async def ask(prompt: str) -> JudgeAnswer:
        return await judge.ask(prompt, schema=schema, schema_name=_NAME.sub("_", name)[:64] or "verdict")

    return {"verdict": (await request_verdict(judge.label, Question(prompt, filled), ask, read))[1]}
