"""Runs the code of imported assertions like the original program. `import` copies these functions into the suite."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import math
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from holodeck.lib.test_runner.code_grader import GraderResult

if TYPE_CHECKING:
    from holodeck.lib.test_runner.code_grader import GraderContext

    CheckResult = Union[bool, float, "GraderResult"]


OBJECT_FIELDS = ("namedScores", "namedScoreWeights", "tokensUsed", "assertion")
"""Fields of a verdict that must be objects if they are present."""
FIELD_ALIASES = {"pass_": "pass", "named_scores": "namedScores", "component_results": "componentResults"}
"""Fields of a verdict, by the alternative names that Python code may use."""


def verdict(result: Any, min_score: float | None = None) -> GraderResult:
    """Convert an object with `pass`, `score` and `reason`, returned by an assertion's code, to a verdict.

    Args:
        min_score: lowest passing score, in addition to `pass`; None if `pass` alone decides.

    Raises:
        TypeError: the result is not such an object.
    """
    wanted = "a boolean, a number, or an object with pass (boolean), score (number) and reason (text)"
    if not isinstance(result, dict):
        raise TypeError(f"the code of the assertion returned {type(result).__name__}, not {wanted}")
    score = result.get("score")
    wrong = [
        *(["pass"] if not isinstance(result.get("pass"), bool) else []),
        *(["score"] if isinstance(score, bool) or not isinstance(score, (int, float)) else []),
        *(["reason"] if not isinstance(result.get("reason"), str) else []),
        *(key for key in OBJECT_FIELDS if not isinstance(result.get(key), (dict, list, type(None)))),
        *(["componentResults"] if not isinstance(result.get("componentResults", []), list) else []),
        *(["comment"] if not isinstance(result.get("comment", ""), str) else []),
    ]
    if wrong:
        raise TypeError(f"the code of the assertion returned an object with a bad or missing {wrong[0]}, not {wanted}")
    assert isinstance(score, (int, float))
    passed = result["pass"] and (min_score is None or score >= min_score)
    bounded = min(1.0, max(0.0, float(score)))
    return GraderResult(score=bounded, passed=passed, reason=result["reason"], details={"score": float(score)})


def script_result(result: Any) -> CheckResult:
    """Return the result of JavaScript code: a boolean, a number, or the verdict in an object.

    Raises:
        TypeError: the result is none of these.
    """
    return result if isinstance(result, (bool, int, float)) else verdict(result)


def python_result(result: Any, min_score: float | None = None) -> CheckResult:
    """Return the result of Python code: a boolean, a number, the verdict in an object, or one of these in a string.

    Raises:
        TypeError: the result has another type or form.
        ValueError: the string is not valid JSON, or the number is not finite.
    """
    if isinstance(result, str):
        word = result.lower()
        if word in ("true", "false"):
            return word == "true"
        if result.startswith("{"):
            result = json.loads(result)
        else:
            number = re.match(r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)", result)
            if number is None:
                raise TypeError("the code of the assertion returned a string that is neither a boolean nor a number")
            result = float(number[1])
    if isinstance(result, (bool, int, float)):
        if not math.isfinite(result):
            raise ValueError(f"the code of the assertion returned {result}, which is not a finite number")
        return result
    if isinstance(result, dict):
        result = {
            **result,
            **{FIELD_ALIASES[key]: item for key, item in result.items() if FIELD_ALIASES.get(key, key) not in result},
        }
    return verdict(result, min_score)


def python_file(ctx: GraderContext, value: dict[str, Any]) -> CheckResult:
    """Return the result of an assertion's function in a Python file, called with the answer and its context."""
    path = Path(__file__).parent / value["file"]
    spec = importlib.util.spec_from_file_location("imported_assertion", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, value["function"])(answer(ctx, value), code_context(ctx, value))
    return python_result(asyncio.run(found) if inspect.iscoroutine(found) else found, value.get("least"))


def answer(ctx: GraderContext, value: dict[str, Any]) -> Any:
    """Return the answer for an assertion's code: parsed if `json` is set and the answer is JSON, else a string."""
    try:
        return json.loads(ctx.agent_response) if value.get("json") else ctx.agent_response
    except ValueError:
        return ctx.agent_response


def code_context(ctx: GraderContext, value: dict[str, Any]) -> dict[str, Any]:
    """Return the context that an assertion's code receives: the prompt, variables and configuration."""
    return {"prompt": ctx.turn_input, "vars": value.get("vars", {}), "config": value.get("config")}


RUN_JAVASCRIPT = """
const {code, file, name, output, context} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const body = () => {
  if (code.includes('\\n')) return code;
  const line = code.trim().replace(/;+\\s*$/, '');
  if (!/^(const|let|var)\\s/.test(line)) return 'return ' + line;
  // The last expression after declarations is the result.
  let quote = '', last = -1;
  for (let at = 0; at < line.length; at++) {
    const unit = line[at];
    if (quote && unit === '\\\\') at++;
    else if (quote) quote = unit === quote ? '' : quote;
    else if (unit === '"' || unit === "'" || unit === '`') quote = unit;
    else if (unit === ';') last = at;
  }
  return last < 0 ? line : line.slice(0, last + 1) + ' return ' + line.slice(last + 1);
};
const run = async () => {
  if (file) {
    const path = require('path').resolve(file);
    const loaded = await import(require('url').pathToFileURL(path).href);
    const whole = loaded.default?.default ?? loaded.default ?? loaded;
    return (name ? loaded[name] ?? whole[name] : whole)(output, context);
  }
  return new Function('output', 'context', body())(output, context);
};
const end = (told, status) => { require('fs').writeSync(3, JSON.stringify(told)); process.exit(status); };
run().then((result) => end({result}, 0)).catch((error) => end({error: String(error)}, 1));
"""


def javascript(ctx: GraderContext, value: dict[str, Any]) -> CheckResult:
    """Return the result of an assertion's JavaScript, run in Node.js, which must be installed."""
    return script_result(run_in_node(value, answer(ctx, value), code_context(ctx, value)))


def run_in_node(value: dict[str, Any], output: Any, context: dict[str, Any]) -> Any:
    """Run JavaScript in Node.js and return its result.

    Raises:
        RuntimeError: the code throws an exception, or Node.js is not installed.
    """
    given = {"code": value.get("code"), "file": value.get("file"), "name": value.get("name")}
    told = json.dumps({**given, "output": output, "context": context})
    try:
        # What the code prints is not its result, which comes on its own channel.
        command = ["sh", "-c", 'exec node -e "$0" 3>&1 1>&2', RUN_JAVASCRIPT]
        done = subprocess.run(
            command, input=told, capture_output=True, text=True, cwd=Path(__file__).parent, check=False
        )
    except OSError as error:
        raise RuntimeError(f"JavaScript cannot be run: {error}") from None
    if done.returncode == 127:
        raise RuntimeError("JavaScript cannot be run: install Node.js, or rewrite the assertion in Python")
    answer = json.loads(done.stdout or "{}")
    if "error" in answer or done.returncode != 0:
        raise RuntimeError(f"the JavaScript of the assertion failed: {answer.get('error') or done.stderr[-500:]}")
    return answer.get("result")
