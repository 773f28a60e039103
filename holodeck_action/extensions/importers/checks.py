"""The checks of imported assertions. `import` copies the checks that a suite needs into the suite's own grader file.

A check takes the grader's context and the expected value. It returns whether the answer passes, or a score.
"""

from __future__ import annotations

import fnmatch
import json
import math
import re
import string
from collections import Counter
from typing import TYPE_CHECKING, Any, Callable, Union

from holodeck.lib.test_runner.code_grader import GraderResult

if TYPE_CHECKING:
    from holodeck.lib.test_runner.code_grader import GraderContext

    CheckResult = Union[bool, float, "GraderResult"]


def grade_result(result: CheckResult, threshold: float | None = None, *, negated: bool = False) -> GraderResult:
    """Convert the result of a check, a boolean or a score, to a verdict.

    A score passes if it is at least `threshold`, or above 0 if there is no threshold. `negated` reverses the verdict.
    """
    if not isinstance(result, (bool, int, float)):
        if not negated:
            return result
        reason = f"negated: {result.reason}"
        return GraderResult(score=result.score, passed=not result.passed, reason=reason, details=result.details)
    if isinstance(result, bool):
        passed = result is not negated
        reason = f"the check {'holds' if result else 'does not hold'}{', and is negated' if negated else ''}"
        return GraderResult(score=float(passed), passed=passed, reason=reason)
    passed = (result > 0 if threshold is None else result >= threshold) is not negated
    score = min(1.0, max(0.0, 1.0 - result if negated else result))
    above, below = ("above 0", "0 or less") if threshold is None else (f"{threshold:g} or more", f"below {threshold:g}")
    reason = f"the score is {result:g}; {below if negated else above} passes"
    return GraderResult(score=score, passed=passed, reason=reason, details={"score": result})


def grade_mean(graded_results: list[tuple[float, GraderResult]], threshold: float) -> GraderResult:
    """Return the verdict for the weighted mean score of several results, which passes if it is at least `threshold`.

    The scores in `details` may be outside of 0 to 1; the returned score is limited to 0 to 1.
    """
    total = summed = 0.0
    for weight, part in graded_results:
        total += weight
        summed += weight * float((part.details or {}).get("score", part.score or 0))
    score = summed / total if total > 0 else 0.0
    reasons = "; ".join(f"{part.score:g} (weight {weight:g}): {part.reason}" for weight, part in graded_results)
    reason = f"the mean score is {score:g}; {threshold:g} or more passes: {reasons}"
    bounded = min(1.0, max(0.0, score))
    return GraderResult(score=bounded, passed=score >= threshold, reason=reason, details={"score": score})


def report_only(check: Callable[[], GraderResult]) -> GraderResult:
    """Run a check and return its result as an explanation only, without a verdict.

    Neither a failure nor an exception of the check fails the case.
    """
    try:
        result = check()
    except Exception as error:  # noqa: BLE001 - what has no weight cannot fail the case
        return GraderResult(score=None, reason=f"weight 0, cannot fail: {type(error).__name__}: {error}")
    return GraderResult(score=None, reason=f"weight 0, cannot fail: score {result.score:g}; {result.reason}")


def not_imported(feature: str) -> GraderResult:
    """Raise an error, so that an assertion without a counterpart cannot pass silently."""
    raise NotImplementedError(f"{feature} was not imported: replace this grader, or remove it from agent.yaml")


def fail_always(ctx: GraderContext, value: str) -> bool:
    """Raise an error for every answer: in the original program, the assertion always ends with an error."""
    raise ValueError(f"no answer can pass: {value}")


def equals(ctx: GraderContext, value: str) -> bool:
    """Return whether the answer equals the expected string."""
    return bool(ctx.agent_response == value)


def equals_trimmed(ctx: GraderContext, value: str) -> bool:
    """Return whether the answer equals the expected string, ignoring white space around the answer."""
    return bool(ctx.agent_response.strip() == value)


def matches_target(ctx: GraderContext, value: list[str], location: str = "end", ignore_case: bool = True) -> bool:
    """Return whether the answer has one of the targets at a place, without white space and punctuation around both."""
    found, *targets = [
        (text.casefold() if ignore_case else text).strip(string.whitespace + string.punctuation)
        for text in (ctx.agent_response, *value)
    ]
    if location in ("begin", "end"):
        return any(found.startswith(text) if location == "begin" else found.endswith(text) for text in targets)
    return found in targets if location == "exact" else any(text in found for text in targets)


def same_value(first: Any, second: Any) -> bool:
    """Return whether two JSON values are equal; `true` differs from 1."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same_value(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same_value, first, second))
    return isinstance(first, bool) == isinstance(second, bool) and bool(first == second)


def strict_json(text: str) -> Any:
    """Parse JSON; NaN and Infinity, which Python's parser accepts, are errors.

    Raises:
        ValueError: the text is not valid JSON.
    """

    def refuse(name: str) -> Any:
        raise ValueError(f"{name} is not valid JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def equals_json(ctx: GraderContext, value: Any) -> bool:
    """Return whether the answer is JSON that is equal to the expected value."""
    try:
        return same_value(strict_json(ctx.agent_response), value)
    except ValueError:
        return False


def contains(ctx: GraderContext, value: str) -> bool:
    """Return whether the answer contains the expected string."""
    return value in ctx.agent_response


def icontains(ctx: GraderContext, value: str) -> bool:
    """Return whether the answer contains the expected string, ignoring case."""
    return value.lower() in ctx.agent_response.lower()


def contains_any(ctx: GraderContext, value: list[str]) -> bool:
    """Return whether the answer contains at least one of the expected strings."""
    return any(text in ctx.agent_response for text in value)


def icontains_any(ctx: GraderContext, value: list[str]) -> bool:
    """Return whether the answer contains at least one of the expected strings, ignoring case."""
    return any(text.lower() in ctx.agent_response.lower() for text in value)


def contains_all(ctx: GraderContext, value: list[str]) -> bool:
    """Return whether the answer contains all expected strings."""
    return all(text in ctx.agent_response for text in value)


def icontains_all(ctx: GraderContext, value: list[str]) -> bool:
    """Return whether the answer contains all expected strings, ignoring case."""
    return all(text.lower() in ctx.agent_response.lower() for text in value)


def starts_with(ctx: GraderContext, value: str) -> bool:
    """Return whether the answer starts with the expected string."""
    return bool(ctx.agent_response.startswith(value))


def regex(ctx: GraderContext, value: str) -> bool:
    """Return whether a pattern, translated from JavaScript, matches anywhere in the UTF-16 code units of the answer."""
    data = ctx.agent_response.encode("utf-16-le", "surrogatepass")
    units = "".join(chr(data[at] | data[at + 1] << 8) for at in range(0, len(data), 2))
    return re.search(value, units, re.ASCII) is not None


def full_match(ctx: GraderContext, value: str, ignore_case: bool = False) -> bool:
    """Return whether a pattern matches the whole answer, ignoring white space around the answer."""
    return re.fullmatch(value, ctx.agent_response.strip(), re.IGNORECASE if ignore_case else 0) is not None


SPACES = "\t\n\x0b\x0c\r \xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"
"""The characters that JavaScript regards as white space."""


def words_of(text: str) -> list[str]:
    """Return the words of a string, split at the characters that JavaScript regards as white space."""
    return [word for word in re.split(f"[{SPACES}]+", text) if word]


def word_count(ctx: GraderContext, value: dict[str, float]) -> bool:
    """Return whether the number of words in the answer is from `min` to `max`."""
    words = len(words_of(ctx.agent_response))
    return value.get("min", 0) <= words <= value.get("max", math.inf)


def is_json(ctx: GraderContext, value: Any) -> bool:
    """Return whether the answer is JSON that matches the schema (draft 7), if there is a schema."""
    try:
        found = strict_json(ctx.agent_response)
    except ValueError:
        return False
    return value is None or matches_schema(found, value)


def is_email(text: Any) -> bool:
    """Return whether a value is an email address: dot-separated atoms of RFC 5322 at a domain with a dot.

    A value that is not a string is accepted, as JSON Schema requires of formats.
    """
    atom, name = r"[a-z0-9!#$%&'*+/=?^_`{|}~-]+", "[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
    form = rf"{atom}(?:\.{atom})*@(?:{name}\.)+{name}"
    return not isinstance(text, str) or re.fullmatch(form, text, re.IGNORECASE | re.ASCII) is not None


def matches_schema(value: Any, schema: Any) -> bool:
    """Return whether a value matches a JSON schema (draft 7); references outside of the schema are never downloaded."""
    from jsonschema import Draft7Validator, FormatChecker
    from referencing import Registry

    checker = FormatChecker(("date", "ipv4", "ipv6"))
    checker.checks("email")(is_email)
    return bool(Draft7Validator(schema, registry=Registry(), format_checker=checker).is_valid(value))


def json_objects(text: str, search_invalid: bool) -> list[Any]:
    """Return the JSON objects in a string, each from an opening brace to its closing brace.

    Invalid JSON between such braces gives None. As in promptfoo, braces within JSON strings count, too. With
    `search_invalid`, text that is not JSON is searched for further objects.
    """
    closed: dict[int, int] = {}
    opened: list[int] = []
    for brace in re.finditer("[{}]", text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif opened:
            closed[opened.pop()] = brace.end()
    found: list[Any] = []
    at = 0
    while (at := text.find("{", at)) >= 0:
        part = text[at : closed.get(at, at)]
        try:
            readable = 0 < len(part) < 100_000 and not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]", part)
            found.append(strict_json(part) if readable else None)
        except ValueError:
            found.append(None)
        if found[-1] is None and not search_invalid and not part:
            break
        at += 1 if found[-1] is None and search_invalid else len(part)
    return found


def contains_json(ctx: GraderContext, value: Any) -> bool:
    """Return whether the answer contains a JSON object that matches the schema (draft 7), if there is a schema."""
    objects = json_objects(ctx.agent_response, value is None)
    return any(found is not None and (value is None or matches_schema(found, value)) for found in objects)


def contains_no_json(ctx: GraderContext, value: Any) -> bool:
    """Return whether the answer contains neither a JSON object (see `contains_json`) nor text that might be one."""
    objects = json_objects(ctx.agent_response, False)
    return all(found is not None and value is not None and not matches_schema(found, value) for found in objects)


def levenshtein(ctx: GraderContext, value: str, max_distance: float = 5) -> bool:
    """Return whether the edit distance from the expected string is at most `max_distance`, in UTF-16 code units
    as in JavaScript.
    """
    one, other = (text.encode("utf-16-le", "surrogatepass") for text in (ctx.agent_response, value))
    left, right = ([text[at : at + 2] for at in range(0, len(text), 2)] for text in (one, other))
    row = list(range(len(right) + 1))
    for count, unit in enumerate(left, 1):
        before, row[0] = row[0], count
        for at, wanted in enumerate(right, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (unit != wanted))
    return row[-1] <= max_distance


def n_grams(tokens: list[str], size: int) -> Counter[tuple[str, ...]]:
    """Count the sequences of `size` consecutive words."""
    return Counter(tuple(tokens[at : at + size]) for at in range(len(tokens) - size + 1))


def bleu(ctx: GraderContext, value: list[str]) -> float:
    """Return the BLEU score of lower-cased words with effective order up to 4; a precision of 0 counts as 1e-7."""
    words, references = words_of(ctx.agent_response.lower()), [words_of(text.lower()) for text in value]
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
    """Return the Google-BLEU score of lower-cased words without final dots: the smaller of the precision and recall of
    n-grams up to 4, and the best over the references.
    """

    def words(text: str) -> list[str]:
        found = [word.rstrip(".") for word in words_of(text.lower())]
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


def matches_name(name: str, pattern: str) -> bool:
    """Return whether the name of a tool matches a pattern with the wildcards `*` and `?`, ignoring case."""
    return fnmatch.fnmatchcase(name.lower(), pattern.lower().replace("[", "[[]"))


def tools_used(ctx: GraderContext, value: list[str]) -> bool:
    """Return whether all expected tools were called."""
    return all(any(matches_name(call.name, pattern) for call in ctx.tool_invocations) for pattern in value)


def tools_unused(ctx: GraderContext, value: list[str]) -> bool:
    """Return whether none of the given tools was called."""
    return not any(matches_name(call.name, pattern) for call in ctx.tool_invocations for pattern in value)


def tool_count(ctx: GraderContext, value: dict[str, Any]) -> bool:
    """Return whether the number of calls of the tool `name` is from `min` to `max`."""
    count = sum(matches_name(call.name, value.get("name", "*")) for call in ctx.tool_invocations)
    return bool(value.get("min", 0) <= count <= value.get("max", math.inf))


def tool_sequence(ctx: GraderContext, value: dict[str, Any]) -> bool:
    """Return whether the tools in `steps` were called in this order and, with `exact`, no other tool was called."""
    names, steps = [call.name for call in ctx.tool_invocations], value["steps"]
    if value["exact"]:
        return len(names) == len(steps) and all(map(matches_name, names, steps))
    left = iter(names)
    return all(any(matches_name(name, step) for name in left) for step in steps)


def includes(actual: Any, expected: Any) -> bool:
    """Return whether a value contains the expected value: objects may have further keys, other values must be equal."""
    if isinstance(expected, dict):
        return isinstance(actual, dict) and all(
            key in actual and includes(actual[key], expected[key]) for key in expected
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and len(actual) == len(expected) and all(map(includes, actual, expected))
    return same_value(actual, expected)


def tool_args(ctx: GraderContext, value: dict[str, Any]) -> bool:
    """Return whether a call of the tool `name` has the arguments `args`; with `exact`, only these arguments."""
    match = same_value if value["exact"] else includes
    return any(
        matches_name(call.name, value["name"]) and match(call.args, value["args"]) for call in ctx.tool_invocations
    )


def tool_call_f1(ctx: GraderContext, value: list[str]) -> float:
    """Return the F1 score of the set of called tools against the set of expected tools."""
    called, wanted = {call.name for call in ctx.tool_invocations}, set(value)
    shared = len(called & wanted)
    return 2 * shared / (len(called) + len(wanted)) if shared else 0.0
