"""Jinja environments for reports: sandboxed, strict, and with untrusted text always escaped.

Templates get every string of a report as `Untrusted` (`holodeck_action.reports.untrusted`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holodeck_action.decide.consumption import KnownTotal, Spend
from holodeck_action.decide.number_texts import gate_numbers, is_upper_limit
from holodeck_action.decide.simulated_users import UserSummary
from holodeck_action.decide.trials import Bounds, PassRates
from holodeck_action.decide.verdict import ContradictionSummary, GateState, GateVerdict, PanelSummary
from holodeck_action.record.evaluation import Polarity
from holodeck_action.record.judge_card import Estimate
from holodeck_action.record.record import ModelCalls
from holodeck_action.reports.comparison_filters import FILTERS
from holodeck_action.reports.metric_rows import joined_metrics, metric_rows, more_metrics
from holodeck_action.reports.phrases import (
    SIGNS,
    WORDS,
    bounds_text,
    calls_text,
    contradiction_text,
    duration_text,
    estimate_text,
    noise_text,
    panel_text,
    pass_rates_text,
    percent_text,
    price_text,
    threshold_text,
    usd_text,
)
from holodeck_action.reports.report_filters import REPORT_FILTERS
from holodeck_action.reports.report_views import MetricView
from holodeck_action.reports.simulated_users import SPEAKERS, user_summary_text
from holodeck_action.reports.untrusted import UNKNOWN, Fields, Items, Untrusted, names_of, text_of
from holodeck_action.suite.errors import SourceMark
from holodeck_action.text import code_spans as untrusted
from holodeck_action.text.foreign import read_file
from holodeck_action.text.plain import one_line
from holodeck_action.text.prose import prose, short_prose

if TYPE_CHECKING:
    from jinja2 import Template
    from jinja2.sandbox import ImmutableSandboxedEnvironment
CUSTOM = "custom template"
"""Name of the user's template in an environment; no shipped template can have it."""


@cache
def template_folder() -> Path:
    """Return the folder of the shipped templates: inside an installed package, next to the package in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parent / "templates"


@cache
def shipped_template(name: str) -> Template:
    """Return a shipped template by its file name."""
    return (html_environment() if name.endswith(".html.j2") else markdown_environment()).get_template(name)


def markdown_environment(custom: tuple[str, str] | None = None) -> ImmutableSandboxedEnvironment:
    """Return an environment for Markdown templates.

    Args:
        custom: source and file name of the user's template, loaded as `CUSTOM`; None to load only shipped templates.
    """
    environment = _environment(_finalize_markdown, autoescape=False, custom=custom)
    environment.filters.update(
        code=_text_filter(untrusted.inline_code),
        cell=_text_filter(untrusted.cell),
        fence=_text_filter(untrusted.fence),
        prose=_text_filter(prose),
        short=_text_filter(short_prose),
    )
    return environment


def html_environment() -> ImmutableSandboxedEnvironment:
    """Return an environment for HTML templates, which escapes all output."""
    environment = _environment(_finalize_html, autoescape=True, custom=None)
    environment.filters.update(line=_text_filter(one_line))
    return environment


def _environment(
    finalize: Callable[[Any], Any], *, autoescape: bool, custom: tuple[str, str] | None
) -> ImmutableSandboxedEnvironment:
    from jinja2 import FunctionLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Missing(StrictUndefined):
        __slots__ = ()

        @property
        def _undefined_message(self) -> str:
            if isinstance(self._undefined_obj, Fields) and not self._undefined_hint:
                there = ", ".join(names_of(self._undefined_obj))
                return f"there is no field {self._undefined_name!r} here (there are: {there})"
            return super()._undefined_message

    def load(name: str) -> tuple[str, str, None] | None:
        if custom is not None and name == CUSTOM:
            return (*custom, None)
        shipped = {path.name: path for path in template_folder().glob("*.j2")}
        # Compare with the existing names, so that no name can lead out of the folder.
        return (read_file(shipped[name]).text(), name, None) if name in shipped else None

    class Environment(ImmutableSandboxedEnvironment):
        def getattr(self, obj: Any, attribute: str) -> Any:
            # Look up a field directly instead of trying attributes of the wrapper first.
            if type(obj) is Fields and not attribute.startswith("_"):
                try:
                    return obj[attribute]
                except KeyError:
                    return self.undefined(obj=obj, name=attribute)
            return super().getattr(obj, attribute)

    from holodeck_action.reports.template_cache import TemplateCache

    compiling = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True, "autoescape": autoescape}
    environment = Environment(
        loader=FunctionLoader(load),
        undefined=Missing,
        finalize=finalize,
        auto_reload=False,
        # The process that compiles a user's template must not write files.
        bytecode_cache=TemplateCache(compiling) if custom is None else None,
        **compiling,
    )
    # Random functions would make two reports of one record differ.
    del environment.globals["lipsum"], environment.filters["random"]
    environment.filters.update(
        number=number, signed=signed, percent=percent, seconds=seconds, usd=usd, price=price, sign=sign, word=word,
        place=place, required=required, actual=actual, call=call, calls=calls, agreement=agreement,
        contradiction=contradiction,
        speaker=speaker, played=played, threshold=threshold, noise=noise, estimate=estimate, bounds=bounds, rates=rates,
        metric_rows=metric_rows, joined_metrics=joined, more_metrics=more_metrics, **FILTERS, **REPORT_FILTERS,
    )  # fmt: skip
    return environment


def _finalize_markdown(value: Any) -> Any:
    if isinstance(value, Untrusted):
        return untrusted.inline_code(text_of(value))
    return UNKNOWN if value is None else value


def _finalize_html(value: Any) -> Any:
    return UNKNOWN if value is None else value


def _text_filter(show_value: Callable[[str, int], str]) -> Callable[..., str]:
    def apply(value: Any, limit: int | None = None) -> str:
        text = text_of(value)
        return show_value(text) if limit is None else show_value(text, limit)  # type: ignore[call-arg]

    return apply


def number(value: float | None, digits: int = 2) -> str:
    """Return a number with `digits` decimals; `–` for None."""
    return UNKNOWN if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    """Return a number with its sign; `–` for None."""
    return UNKNOWN if value is None else f"{value:+.{digits}f}"


def percent(value: float | None) -> str:
    """Return a proportion (0 to 1) in percent, never rounded to 0 or 100; `–` for None."""
    return UNKNOWN if value is None else percent_text(value)


def seconds(milliseconds: float | None) -> str:
    """Return a duration in seconds, or in milliseconds below a second; `–` for None."""
    return UNKNOWN if milliseconds is None else duration_text(milliseconds)


def usd(value: float | None) -> str:
    """Return US dollars; `–` for None."""
    return UNKNOWN if value is None else usd_text(value)


def sign(outcome: Any) -> str:
    """Return the emoji for an outcome or a gate's state."""
    return SIGNS[text_of(outcome)]


def word(outcome: Any) -> str:
    """Return the word for an outcome or a gate's state."""
    return WORDS[text_of(outcome)]


def mark_of(source: Fields) -> SourceMark:
    """Convert the fields of a source position to a `SourceMark`."""
    sheet = text_of(source["sheet"]) if "sheet" in names_of(source) else ""
    return SourceMark(text_of(source["file"]), source["line"], source["column"], sheet)


def place(source: Fields, folder: Any = "") -> Untrusted:
    """Return a source position as `folder/file:line`."""
    where = mark_of(source).short
    return Untrusted(f"{text_of(folder)}/{where}" if folder else where)


def required(gate: Fields) -> str:
    """Return the requirement of a gate, such as `≥ 0.9`."""
    return f"{'≤' if is_upper_limit(text_of(gate['name'])) else '≥'} {_gate_numbers(gate)[1]}"


def actual(gate: Fields) -> str:
    """Return the measured value of a gate: a rate or a mean with four decimals; `unknown` for None."""
    return _gate_numbers(gate)[0]


def _gate_numbers(gate: Fields) -> tuple[str, str]:
    name = text_of(gate["name"])
    state: GateState = "failed" if text_of(gate["state"]) == "failed" else "passed"
    found = GateVerdict(name, state, gate["actual"], gate["required"], "")
    return gate_numbers(found, decimals=None if is_upper_limit(name) and not name.startswith("metrics.") else 4)


def threshold(metric: Fields) -> str:
    """Return a metric's threshold, such as `≤ 0.50`; `–` for None."""
    return threshold_text(_metric_view(metric))


def joined(metrics: Items) -> Items:
    """Return the rows of `joined_metrics` for a template."""
    return Items(joined_metrics(metrics))


def noise(metric: Fields) -> str:
    """Return a clause that a metric's mean is within noise of its threshold."""
    return noise_text(_metric_view(metric))


def _metric_view(metric: Fields) -> MetricView:
    known = {name: metric[name] for name in MetricView.__struct_fields__ if name not in ("name", "polarity")}
    polarity: Polarity = "minimize" if text_of(metric["polarity"]) == "minimize" else "maximize"
    return MetricView(name="", polarity=polarity, **known)


def agreement(panel: Fields) -> str:
    """Describe the agreement of a panel's judges on one line."""
    return panel_text(PanelSummary(**{name: panel[name] for name in PanelSummary.__struct_fields__}))


def contradiction(found: Fields) -> str:
    """Describe how often a judge contradicted itself."""
    return contradiction_text(ContradictionSummary("", found["contradicted"], found["repeated"]))


def estimate(interval: Fields) -> str:
    """Return a number with its interval, such as `0.850 [0.640, 0.948]`; `–` for None."""
    return estimate_text(Estimate(interval["value"], interval["low"], interval["high"]))


def bounds(value: Fields) -> str:
    """Return a number with three decimals, or a range such as `0.800 to 1.000` if `low` and `high` differ."""
    return bounds_text(Bounds(value["low"], value["high"]))


def rates(trials: Fields) -> str:
    """Return pass@k and pass^k of trials, such as `pass@1 0.600, pass@5 1.000, pass^5 0.000`."""
    last = trials["rates"][-1]
    at, hat = (Bounds(last[name]["low"], last[name]["high"]) for name in ("pass_at_k", "pass_hat_k"))
    found = PassRates(last["k"], at, hat)
    return pass_rates_text(trials["rate"], found, missing_count=trials["missing"], truncated_count=trials["truncated"])


def calls(model_calls: Fields, spend: Fields) -> str:
    """Describe number, tokens and price of a run's model calls on one line; `spend` must be from the same report."""
    made = ModelCalls(**{name: model_calls[name] for name in ModelCalls.__struct_fields__})
    return calls_text(made, Spend(**{name: spend[name] for name in names_of(spend) if name != "models"}))


def speaker(turn: Fields) -> str:
    """Return the title of a turn's input."""
    said_by = text_of(turn["said_by"]) if "said_by" in names_of(turn) else ""
    return next(title for name, title in SPEAKERS.items() if name == said_by)


def played(user: Fields) -> Untrusted:
    """Describe the conversations, calls and usage of a model that played users, on one line."""
    totals = {name: KnownTotal(user[name]["known"], user[name]["unknown"]) for name in ("tokens", "cost_usd")}
    values = {name: user[name] for name in UserSummary.__struct_fields__} | totals
    texts = {name: text_of(user[name]) for name in ("model", "prompt_digest")}
    return Untrusted(user_summary_text(UserSummary(**{**values, **texts})))


def price(spend: Fields) -> str:
    """Return the cost in a report's `spend`, marked as a lower bound if some costs are unknown; `–` if no cost is
    known."""
    known = spend["cost_usd"]
    return UNKNOWN if known is None else price_text(KnownTotal(known, spend["unpriced"]))


def call(tool_call: Fields, limit: int = 300) -> Untrusted:
    """Return a tool call as `name(arguments) → result`, with arguments and result cut to `limit` characters."""
    parts = [f"{text_of(tool_call['name'])}({one_line(text_of(tool_call['arguments']), limit)})"]
    if tool_call["error"] is not None:
        parts.append(f"error: {one_line(text_of(tool_call['error']), limit)}")
    elif tool_call["result"] is not None:
        parts.append(one_line(text_of(tool_call["result"]), limit))
    return Untrusted(" → ".join(parts))
