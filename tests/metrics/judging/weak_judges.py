"""Judges for the fake model server: a good one, honest ones, and those that must never give a score."""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from holodeck_action.metrics.judging.probe_texts import ANSWER, OFF_TOPIC
from holodeck_action.suite.model.probing import Exam
from tests.llm.models import Answer, Reply, Request
from tests.metrics.judging.judged_metrics import CRITERIA, STEPS, Judge, Product

_FENCED = re.compile(r"^```(?:json)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PLACEHOLDER = re.compile(r"<[a-z][\w ]+>")
_SCALE = re.compile(r"(?:between|from) ([01])\b[^.\n]{0,30}? (?:and|to) (1|2|3|5|10)\b")
_FAULT = re.compile(r"whether an assistant refuses|^Grade how harmful|a high level is bad|Previous Knowledge:")
_FAULTY_ITEMS = re.compile(r"bias|toxic|PII|advice|misuse|role violation", re.IGNORECASE)
"""Match in questions to which a high score, or yes, is the verdict on a bad answer; the second in those with a list."""
_FORM = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "score": {"type": "integer"}, "status": {"const": "completed"}},
}
"""The form of a verdict that a prompt asks for in words."""
Verdict = Callable[[Request], bool]
Texts = Callable[[Request, str], str]


def objects_in(text: str) -> Iterator[str]:
    """Yield each JSON object of a text as written, but no schemas."""
    decoder, at = json.JSONDecoder(strict=False), 0
    while (at := text.find("{", at)) >= 0:
        try:
            value, length = decoder.raw_decode(text[at:])
        except ValueError:
            at += 1
            continue
        if isinstance(value, dict) and value and "type" not in value and "$defs" not in value:
            yield text[at : at + length]
        at += length


def _prompt(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


def copying(choose: Callable[[str], Sequence[str]]) -> Judge:
    """Return a judge that copies a part of its prompt as its answer."""

    def answer(request: Request) -> Reply:
        found = choose(_prompt(request))
        return found[-1] if found else "I'm sorry, I can't help with that."

    return answer


def grading(is_high: Verdict, texts: Texts) -> Judge:
    """Return a judge that fills the form of the answer, with one entry in each list.

    Args:
        is_high: whether it answers with yes and the highest score, or with no and the lowest.
        texts: the text of a field by its name.
    """

    def answer(request: Request) -> Reply:
        schema: Mapping[str, Any] = request.schema or _FORM
        high = is_high(request)
        default = ("1", "5") if '(i.e., "1", "2"...)' in request.text else ("0", "1")
        scale = next(iter(_SCALE.findall(request.text)), default)

        def value(wanted: Mapping[str, Any], name: str) -> Any:
            if "$ref" in wanted:
                return value(schema["$defs"][wanted["$ref"].rpartition("/")[2]], name)
            if "anyOf" in wanted:
                return value(wanted["anyOf"][0], name)
            if "const" in wanted:
                return wanted["const"]
            if "enum" in wanted:
                preferred = ("yes", "first") if high else ("no", "second")
                return next((each for each in preferred if each in wanted["enum"]), wanted["enum"][0 if high else -1])
            match wanted.get("type"):
                case "object":
                    filled = {each: value(of, each) for each, of in wanted.get("properties", {}).items()}
                    return filled or {"fact": texts(request, name)}
                case "array":
                    # Only faults are listed with the number of a turn.
                    is_clean = high and "ai_message" in str(schema)
                    return [] if is_clean else [value(wanted["items"], name)]
                case "number" | "integer":
                    return int(scale[high]) if name == "score" else int(high)
                case "boolean":
                    return False
            return ("yes" if high else "no") if name == "verdict" else texts(request, name)

        return Answer(json.dumps(value(schema, "")))

    return answer


def leaves(value: Any) -> Iterator[str]:
    """Yield the texts in the inputs of a pair, without those that the judge sees in another form."""
    names = getattr(value, "__struct_fields__", None)
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item)
    elif names is not None:
        for name in names:
            yield from leaves(getattr(value, name))


ABSURD, RIGHT = "Marked as absurd.", "Marked as right."
"""What a judge writes about the answers of a pair, so that later questions of the same metric have it, too."""


def finding_absurd(exams: Iterable[Exam]) -> Verdict:
    """Return a function that recognises questions about the absurd answers of pairs, by a text that only these have."""
    pairs = [*exams]
    right = "\n".join(text for pair in pairs for text in leaves(pair.right) if text != OFF_TOPIC)
    texts = {text for pair in pairs for text in leaves(pair.absurd) if text not in right and " " in text}
    absurd = {ABSURD, *texts, *(json.dumps(text)[1:-1] for text in texts)}

    def is_absurd(request: Request) -> bool:
        text = _prompt(request)
        if "Two assistants" in text:
            return text.find(OFF_TOPIC) < text.find(ANSWER)
        return any(each in text for each in absurd)

    return is_absurd


def _good(exams: Iterable[Exam]) -> Judge:
    """Return a judge that is right about the answer of a `Product` and about both answers of each pair."""
    is_absurd, product = finding_absurd(exams), Product()

    def is_high(request: Request) -> bool:
        if product.answer in request.text and re.search('"?Second answer', request.text):
            return request.text.index(product.answer) < request.text.index("more than I know")
        has_list = "verdicts" in (request.schema or {}).get("properties", {})
        is_fault = _FAULT.search(request.text) or (has_list and _FAULTY_ITEMS.search(request.text))
        return bool(is_fault) is is_absurd(request)

    def text(request: Request, name: str) -> str:
        if name == "answers":
            return "no" if is_absurd(request) else "yes"
        if product.name not in request.text:
            return ABSURD if is_absurd(request) else RIGHT
        return {
            "reason": f"The answer names {product.price} euros and {product.years} years, as the price list does.",
            "task": f"Find out what the {product.name} costs and how long its guarantee is.",
            "outcome": f"The price of {product.price} euros and the guarantee of {product.years} years were named.",
        }.get(name, product.answer)

    return grading(is_high, text)


def filling(choose: Callable[[str], Sequence[str]]) -> Judge:
    """Return a judge that fills the form with a part of its prompt."""
    return grading(lambda request: True, lambda request, name: (choose(_prompt(request)) or ["<your_reason>"])[0])


def _cut(request: Request) -> Reply:
    return Answer('{"reason": "The answer names the price and', finish="length")


COPYING: tuple[Judge, ...] = (
    copying(lambda prompt: [*objects_in(prompt)][:1]),
    copying(lambda prompt: [*objects_in(prompt)]),
    copying(_FENCED.findall),
    filling(_PLACEHOLDER.findall),
    filling(lambda prompt: [line for line in prompt.splitlines() if len(line.split()) > 7]),
    filling(lambda prompt: re.findall(r'"(Let\'s think step by step:)', prompt)),
)


def judges(exams: Iterable[Exam]) -> dict[str, Judge]:
    """Return the judges of the table in docs/judged-metrics.md, by column; the good one passes these probes."""
    return {
        "good": _good(exams),
        "copying": COPYING[1],
        "always yes": grading(lambda request: True, lambda request, name: "yes"),
        "always no": grading(lambda request: False, lambda request, name: "no"),
        "rambling": lambda request: "Well, there is much to say about kettles, and it would take all day to say it.",
        "cut": _cut,
    }


_DEFINED = re.compile(r"^\W*Definition:\W*([^.\n]{30,}\.)", re.MULTILINE)


def honest(products: Sequence[Product], seed: int) -> Judge:
    """Return a judge that quotes the case, the steps, the criteria and definitions of levels, differently each time."""

    def text(request: Request, name: str) -> str:
        product = next((each for each in products if each.name in request.text), products[0])
        draw = random.Random(zlib.crc32(f"{seed} {name} {request.text}".encode()))
        if name in ("reason", "thought_chain"):
            own = draw.choice(
                (
                    f"The answer gives the price of {product.price} euros.",
                    f'It says "{product.answer}"',
                    f"The score is 1.00 because the {product.name} and its price are named.",
                    f"The retrieval context contained the information '{product.text}', which answers the input.",
                    "Yes.",
                )
            )
            quoted = draw.choice((*STEPS, CRITERIA, product.expected, "", *_DEFINED.findall(request.text)[:3]))
            return draw.choice((f"{quoted} {own}", f"{own} {quoted}", quoted or own, own)).strip()
        return draw.choice((product.answer, product.text, f"{product.name}: {product.price} euros", product.answer))

    return grading(lambda request: zlib.crc32(f"{seed} {request.text}".encode()) % 3 > 0, text)
