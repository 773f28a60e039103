"""What imported graders check. `import` copies what a suite needs of it into the suite, which then needs nothing of us.

Every check takes the grader's context and the expected value. It returns whether the answer passes, or a score.
"""

from __future__ import annotations

import asyncio
import fnmatch
import importlib.util
import inspect
import json
import math
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from holodeck.lib.test_runner.code_grader import GraderResult

if TYPE_CHECKING:
    from holodeck.lib.test_runner.code_grader import GraderContext

    Found = Union[bool, float, "GraderResult"]


def graded(found: Found, threshold: float | None = None, *, negated: bool = False) -> GraderResult:
    """Turn what a check found into a verdict; a score passes from the threshold on, without one above 0."""
    if not isinstance(found, (bool, int, float)):
        if not negated:
            return found
        return GraderResult(score=found.score, passed=not found.passed, reason=f"negated: {found.reason}")
    if isinstance(found, bool):
        passed = found is not negated
        reason = f"the check {'holds' if found else 'does not hold'}{', and is negated' if negated else ''}"
        return GraderResult(score=float(passed), passed=passed, reason=reason)
    passed = (found > 0 if threshold is None else found >= threshold) is not negated
    score = min(1.0, max(0.0, 1.0 - found if negated else found))
    bound = "above 0" if threshold is None else f"{threshold:g} or more"
    reason = f"the score is {found:g}; {'not ' if negated else ''}{bound} passes"
    return GraderResult(score=score, passed=passed, reason=reason, details={"score": found})


def weighted(parts: list[tuple[float, GraderResult]], threshold: float) -> GraderResult:
    """Compare the weighted mean of scores with a threshold."""
    total = sum(weight for weight, _ in parts)
    score = sum(weight * float(part.score or 0) for weight, part in parts) / total if total else 0.0
    reasons = "; ".join(f"{part.score:g} (weight {weight:g}): {part.reason}" for weight, part in parts)
    reason = f"the mean score is {score:g}, and {threshold:g} passes: {reasons}"
    return GraderResult(score=min(1.0, max(0.0, score)), passed=score >= threshold, reason=reason)


def only_reported(result: GraderResult) -> GraderResult:
    """Keep the reason of a verdict that must not fail anything."""
    return GraderResult(score=None, reason=f"weight 0, cannot fail: score {result.score:g}; {result.reason}")


def not_imported(what: str) -> GraderResult:
    """Refuse to decide: an assertion without an equal must not pass in silence."""
    raise NotImplementedError(f"{what} was not imported: replace this grader, or remove it from agent.yaml")


def equals(ctx: GraderContext, value: str) -> bool:
    """Whether the answer is this text."""
    return bool(ctx.agent_response == value)


def equals_trimmed(ctx: GraderContext, value: str) -> bool:
    """Whether the answer is this text, without the white space around it."""
    return bool(ctx.agent_response.strip() == value)


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal; true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def strict_json(text: str) -> Any:
    """Read JSON as its standard has it.

    Raises:
        ValueError: it is not JSON.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is no JSON")

    return json.loads(text, parse_constant=refuse)


def equals_json(ctx: GraderContext, value: Any) -> bool:
    """Whether the answer is JSON of this value."""
    try:
        return same_value(strict_json(ctx.agent_response), value)
    except ValueError:
        return False


def contains(ctx: GraderContext, value: str) -> bool:
    """Whether the answer holds this text."""
    return value in ctx.agent_response


def icontains(ctx: GraderContext, value: str) -> bool:
    """Whether the answer holds this text in any case."""
    return value.lower() in ctx.agent_response.lower()


def contains_any(ctx: GraderContext, value: list[str]) -> bool:
    """Whether the answer holds one of these texts."""
    return any(text in ctx.agent_response for text in value)


def icontains_any(ctx: GraderContext, value: list[str]) -> bool:
    """Whether the answer holds one of these texts in any case."""
    return any(text.lower() in ctx.agent_response.lower() for text in value)


def contains_all(ctx: GraderContext, value: list[str]) -> bool:
    """Whether the answer holds all of these texts."""
    return all(text in ctx.agent_response for text in value)


def icontains_all(ctx: GraderContext, value: list[str]) -> bool:
    """Whether the answer holds all of these texts in any case."""
    return all(text.lower() in ctx.agent_response.lower() for text in value)


def starts_with(ctx: GraderContext, value: str) -> bool:
    """Whether the answer starts with this text."""
    return bool(ctx.agent_response.startswith(value))


def regex(ctx: GraderContext, value: str) -> bool:
    """Whether the pattern is found in the answer; it was translated from JavaScript."""
    return re.search(value, ctx.agent_response, re.ASCII) is not None


def full_match(ctx: GraderContext, value: str, ignore_case: bool = False) -> bool:
    """Whether the pattern matches the whole answer without the white space around it."""
    return re.fullmatch(value, ctx.agent_response.strip(), re.IGNORECASE if ignore_case else 0) is not None


def word_count(ctx: GraderContext, value: dict[str, float]) -> bool:
    """Whether the number of words, which white space separates, is within `min` and `max`."""
    words = len(ctx.agent_response.split())
    return value.get("min", 0) <= words <= value.get("max", math.inf)


def is_json(ctx: GraderContext, value: Any) -> bool:
    """Whether the answer is JSON that fits the schema (draft 7), if there is one."""
    try:
        found = strict_json(ctx.agent_response)
    except ValueError:
        return False
    return value is None or fits(found, value)


def is_not_json(ctx: GraderContext, value: Any) -> bool:
    """Whether the answer is not JSON, or does not fit the schema."""
    return not is_json(ctx, value)


def fits(found: Any, schema: Any) -> bool:
    """Whether a value fits a JSON schema (draft 7), which must hold all that it refers to: nothing is downloaded."""
    from jsonschema import Draft7Validator
    from referencing import Registry

    checker = Draft7Validator.FORMAT_CHECKER
    return bool(Draft7Validator(schema, registry=Registry(), format_checker=checker).is_valid(found))


def contains_json(ctx: GraderContext, value: Any) -> bool:
    """Whether an object of JSON stands in the answer, one that fits the schema (draft 7) if there is one."""
    text, at = ctx.agent_response, 0
    while (at := text.find("{", at)) >= 0:
        try:
            found, end = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            at += 1
            continue
        if value is None or fits(found, value):
            return True
        at = end
    return False


def levenshtein(ctx: GraderContext, value: str, most: float = 5) -> bool:
    """Whether the edit distance to a text is at most this; counted in UTF-16 units, as JavaScript does."""
    one, other = (text.encode("utf-16-le", "surrogatepass") for text in (ctx.agent_response, value))
    left, right = ([text[at : at + 2] for at in range(0, len(text), 2)] for text in (one, other))
    row = list(range(len(right) + 1))
    for count, unit in enumerate(left, 1):
        before, row[0] = row[0], count
        for at, wanted in enumerate(right, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (unit != wanted))
    return row[-1] <= most


def n_grams(words: list[str], size: int) -> Counter[tuple[str, ...]]:
    """Count the sequences of so many words."""
    return Counter(tuple(words[at : at + size]) for at in range(len(words) - size + 1))


def bleu(ctx: GraderContext, value: list[str]) -> float:
    """BLEU of lower-cased words that white space separates: effective order up to 4, precision 0 counts as 1e-7."""
    words, references = ctx.agent_response.lower().split(), [text.lower().split() for text in value]
    if not words:
        return 0.0
    closest = min((len(reference) for reference in references), key=lambda size: (abs(size - len(words)), size))
    logs = []
    for size in range(1, min(4, len(words)) + 1):
        found = n_grams(words, size)
        shared = max(sum((found & n_grams(reference, size)).values()) for reference in references)
        logs.append(math.log(shared / sum(found.values()) or 1e-7))
    penalty = 1.0 if len(words) > closest else math.exp(1 - closest / len(words))
    return penalty * math.exp(sum(logs) / len(logs))


def gleu(ctx: GraderContext, value: list[str]) -> float:
    """Google-BLEU of lower-cased words without final dots: the smaller of precision and recall of n-grams up to 4."""

    def words(text: str) -> list[str]:
        found = [word.rstrip(".") for word in text.lower().split()]
        return found if any(found) else []

    def score(reference: list[str]) -> float:
        if own == reference:
            return 1.0
        pairs = [(n_grams(own, size), n_grams(reference, size)) for size in (1, 2, 3, 4)]
        shared = sum(sum((one & other).values()) for one, other in pairs)
        totals = [sum(sum(pair[side].values()) for pair in pairs) for side in (0, 1)]
        return min(shared / totals[0], shared / totals[1]) if all(totals) else 0.0

    own = words(ctx.agent_response)
    return max((score(words(text)) for text in value), default=0.0) if own else 0.0


def named_so(name: str, pattern: str) -> bool:
    """Whether the name of a tool fits a pattern with `*` and `?`, in any case."""
    return fnmatch.fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))


def tools_used(ctx: GraderContext, value: list[str]) -> bool:
    """Whether every one of these tools was called."""
    return all(any(named_so(call.name, pattern) for call in ctx.tool_invocations) for pattern in value)


def tools_unused(ctx: GraderContext, value: list[str]) -> bool:
    """Whether none of these tools was called."""
    return not any(named_so(call.name, pattern) for call in ctx.tool_invocations for pattern in value)


def tool_count(ctx: GraderContext, value: dict[str, Any]) -> bool:
    """Whether the number of calls of the tool `name` is within `min` and `max`."""
    count = sum(named_so(call.name, value.get("name", "*")) for call in ctx.tool_invocations)
    return bool(value.get("min", 0) <= count <= value.get("max", math.inf))


def tool_sequence(ctx: GraderContext, value: dict[str, Any]) -> bool:
    """Whether the tools `steps` were called in this order; with `exact` no others."""
    names, steps = [call.name for call in ctx.tool_invocations], value["steps"]
    if value["exact"]:
        return len(names) == len(steps) and all(map(named_so, names, steps))
    left = iter(names)
    return all(any(named_so(name, step) for name in left) for step in steps)


def holds(found: Any, wanted: Any) -> bool:
    """Whether a value has everything that is wanted of it; objects may have more."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and holds(found[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(holds, found, wanted))
    return same_value(found, wanted)


def tool_args(ctx: GraderContext, value: dict[str, Any]) -> bool:
    """Whether one call of the tool `name` has the arguments `args`; with `exact` no others."""
    match = same_value if value["exact"] else holds
    return any(named_so(call.name, value["name"]) and match(call.args, value["args"]) for call in ctx.tool_invocations)


def tool_call_f1(ctx: GraderContext, value: list[str]) -> float:
    """F1 of the names of called tools, as sets."""
    called, wanted = {call.name for call in ctx.tool_invocations}, set(value)
    shared = len(called & wanted)
    return 2 * shared / (len(called) + len(wanted)) if shared else 0.0


def read_result(result: Any, least: float | None = None) -> Found:
    """Read what the code of an assertion returned: a boolean, a number, their text, or an object with a verdict.

    With `least`, an object whose score is lower does not pass.

    Raises:
        TypeError: it is none of them.
    """
    if isinstance(result, str):
        word = result.strip().lower()
        if word in ("true", "false"):
            return word == "true"
        result = json.loads(result)
    if isinstance(result, (bool, int, float)):
        return result
    if isinstance(result, dict) and isinstance(result.get("pass", result.get("pass_")), bool) and "score" in result:
        score = float(result["score"])
        passed = result.get("pass", result.get("pass_")) and (least is None or score >= least)
        reason, details = str(result.get("reason", "")), {"score": score}
        return GraderResult(score=min(1.0, max(0.0, score)), passed=passed, reason=reason, details=details)
    raise TypeError(f"the code of the assertion returned {type(result).__name__}, not a boolean, number or verdict")


def python_file(ctx: GraderContext, value: dict[str, Any]) -> Found:
    """Call the function of an assertion in a Python file with the answer and its context."""
    path = Path(__file__).parent / value["file"]
    spec = importlib.util.spec_from_file_location("imported_assertion", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, value["function"])(answer(ctx, value), called_with(ctx, value))
    return read_result(asyncio.run(found) if inspect.iscoroutine(found) else found, value.get("least"))


def answer(ctx: GraderContext, value: dict[str, Any]) -> Any:
    """Return the answer as code gets it: as data where answers follow a schema (`json`), else as text."""
    try:
        return json.loads(ctx.agent_response) if value.get("json") else ctx.agent_response
    except ValueError:
        return ctx.agent_response


def called_with(ctx: GraderContext, value: dict[str, Any]) -> dict[str, Any]:
    """Return the context that the code of an assertion gets."""
    return {"prompt": ctx.turn_input, "vars": value.get("vars", {}), "config": value.get("config")}


RUN_JAVASCRIPT = """
const {code, file, name, output, context} = JSON.parse(require('fs').readFileSync(0, 'utf8'));
const run = async () => {
  if (file) {
    const path = require('path').resolve(file);
    const loaded = await import(require('url').pathToFileURL(path).href);
    const whole = loaded.default?.default ?? loaded.default ?? loaded;
    return (name ? loaded[name] ?? whole[name] : whole)(output, context);
  }
  if (code.includes('\\n')) return new Function('output', 'context', code)(output, context);
  if (/^(const|let|var)\\s/.test(code)) return eval(code);
  return new Function('output', 'context', 'return ' + code.replace(/;+\\s*$/, ''))(output, context);
};
const end = (told, status) => { require('fs').writeSync(3, JSON.stringify(told)); process.exit(status); };
run().then((result) => end({result}, 0)).catch((error) => end({error: String(error)}, 1));
"""


def javascript(ctx: GraderContext, value: dict[str, Any]) -> Found:
    """Run the JavaScript of an assertion in Node.js, which must be installed."""
    return read_result(in_node(value, answer(ctx, value), called_with(ctx, value)))


def in_node(value: dict[str, Any], output: Any, context: dict[str, Any]) -> Any:
    """Return what JavaScript returns for an answer.

    Raises:
        RuntimeError: it throws, or Node.js is missing.
    """
    given = {"code": value.get("code"), "file": value.get("file"), "name": value.get("name")}
    told = json.dumps({**given, "output": output, "context": context})
    try:
        # What the code prints is not its result, which comes on a channel of its own.
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
