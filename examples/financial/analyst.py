"""A small rule-based analyst: it reads the conversation, calls its tools and answers as a JSON envelope.

Three of its habits are wrong, on purpose; README.md says which cases catch them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import tools

SYNONYMS = {"turnover": "revenue", "sales": "revenue", "profit": "net income", "operating profit": "operating income"}
RATIOS = {
    "operating margin": ("operating income", "revenue"),
    "net margin": ("net income", "revenue"),
    "current ratio": ("current assets", "current liabilities"),
    "asset turnover": ("revenue", "total assets"),
}
ITEMS = tuple(tools.FIGURES["Kestrel Optics"])
SUBJECTS = (*ITEMS, *SYNONYMS, *RATIOS, "gross margin")
MONEY_ITEMS = tuple(item for item in ITEMS if item != "dividend per share")


@dataclass(frozen=True)
class Topic:
    """What the conversation is about after its last question, remembered from earlier ones where that is silent."""

    companies: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    years: tuple[int, ...] = ()
    asked_years: tuple[int, ...] = ()

    def after(self, question: str) -> Topic:
        """Return the topic after one more question."""
        years = tuple(int(year) for year in re.findall(r"\b20\d\d\b", question))
        return Topic(
            companies=_mentioned(question, tuple(tools.FIGURES)) or self.companies,
            subjects=_mentioned(question, SUBJECTS) or self.subjects,
            years=self.years + years,
            asked_years=years,
        )

    @property
    def pair(self) -> tuple[int, int]:
        """The two years to compare, the base year first."""
        if len(self.asked_years) == 2:
            return self.asked_years[0], self.asked_years[1]
        older, newer = sorted(list(dict.fromkeys(reversed(self.years)))[:2])
        return older, newer


class Calculation:
    """Calls tools and keeps what was called."""

    def __init__(self) -> None:
        self.invocations: list[dict[str, Any]] = []

    def call(self, name: str, **args: Any) -> float:
        """Call a tool by its name."""
        invocation: dict[str, Any] = {"name": name, "args": args}
        self.invocations.append(invocation)
        try:
            result: float = getattr(tools, name)(**args)
        except LookupError as error:
            invocation["error"] = str(error)
            raise
        invocation["result"] = result
        return result

    def figure(self, company: str, item: str, year: int) -> float:
        """Look up one figure."""
        return self.call("lookup", company=company, item=item, year=year)

    def ratio(self, company: str, name: str, year: int) -> float:
        """Work out a ratio of two items."""
        if name == "gross margin":
            revenue = self.figure(company, "revenue", year)
            cost = self.figure(company, "cost of sales", year)
            return self.call("divide", a=self.call("subtract", a=revenue, b=cost), b=revenue)
        upper, lower = RATIOS[name]
        a = self.figure(company, upper, year)
        return self.call("divide", a=a, b=self.figure(company, lower, year))


def answer(conversation: list[dict[str, str]]) -> dict[str, Any]:
    """Answer the last question of a conversation of `{role, content}` messages."""
    topic, question = Topic(), ""
    for message in conversation:
        if message["role"] == "user":
            question = message["content"]
            topic = topic.after(question)
    calculation = Calculation()
    try:
        value, unit = _work_out(calculation, topic, question.lower())
    except LookupError:
        value, unit = "not available", ""
    return {
        "response": json.dumps({"answer": value, "unit": unit}),
        "tool_invocations": calculation.invocations,
    }


def _work_out(do: Calculation, topic: Topic, question: str) -> tuple[str, str]:
    company, subject = topic.companies[0], topic.subjects[0]
    if "basis points" in question:
        margins = [do.ratio(company, subject, year) for year in topic.pair]
        # Wrong on purpose: rounded to a tenth of a percent before it becomes basis points.
        return f"{round(100 * do.call('subtract', a=margins[1], b=margins[0]), 1) * 100:.0f}", "basis points"
    if subject in RATIOS or subject == "gross margin":
        ratio = do.ratio(company, subject, topic.years[-1])
        return (f"{100 * ratio:.2f}%", "percent") if "margin" in subject else (f"{ratio:.2f}", "times")
    if "share of" in question:
        upper = do.figure(company, SYNONYMS.get(subject, subject), topic.years[-1])
        lower = do.figure(company, topic.subjects[1], topic.years[-1])
        return f"{100 * do.call('divide', a=upper, b=lower):.2f}%", "percent"
    item = SYNONYMS.get(subject, subject)
    if len(topic.companies) == 2:
        a, b = (do.figure(name, item, topic.years[-1]) for name in topic.companies)
        if "how many times" in question:
            return f"{do.call('divide', a=a, b=b):.2f}", "times"
        return f"{do.call('subtract', a=a, b=b):,.1f}", "USD million"
    if "percent" in question or "compare" in question:
        # Wrong on purpose: with "2024 compared with 2023" the base year is the second one, not the first.
        old, new = (do.figure(company, item, year) for year in topic.pair)
        return f"{do.call('percent_change', old=old, new=new):.2f}%", "percent"
    if "how much" in question:
        old, new = (do.figure(company, item, year) for year in topic.pair)
        return f"{do.call('subtract', a=new, b=old):,.1f}", "USD million"
    value = do.figure(company, item, topic.years[-1])
    if item in MONEY_ITEMS:
        return f"{value:,.1f}", "USD million"
    # Wrong on purpose: a dividend without its unit.
    return f"{value:.2f}", ""


def _mentioned(question: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that a question mentions, in its order; of overlapping names only the longest."""
    longest_first = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    found = re.findall(rf"\b(?:{longest_first})\b", question, re.IGNORECASE)
    known = {name.lower(): name for name in names}
    return tuple(dict.fromkeys(known[text.lower()] for text in found))
