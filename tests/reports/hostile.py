"""Texts that try to be something else than text, and records full of them."""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.record.record import CaseRecord, Record, ToolAssertion, ToolInvocation
from tests.record.records import case_of, evaluation, record, turn

FRAGMENTS = (
    "`", "``", "```", "````\n", "~~~\n", "```text\n", "\n```\n", "|", "\\|", "\\\\|", "\\", "\n", "\r\n", "\r",
    "\u2028",    "\n\n", "    ", "\t", " ", "@octocat", "@org/team", "#12", "fixes #12", "GH-1", "octo/repo#3",
    "https://evil.example/x", "www.evil.example", "mailto:a@b.example", "a@b.example", "<https://evil.example>",
    "[click](https://evil.example)", "![pixel](https://evil.example/p.png)", "[a]: https://evil.example\n", "[a]",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!-- ", " -->", "</details>", "<details>",
    "</summary>",
    "<details open><summary>", "</code>", "</pre>", "<a href='//evil.example'>", "&lt;b&gt;", "&#64;octocat", "&amp;",
    "# heading\n", "## heading\n", "- item\n", "1. item\n", "> quote\n", "---\n", "===\n", "| a | b |\n| - | - |\n",
    "*strong*", "**strong**", "_em_", "~~gone~~", ":smile:", "$x^2$", "$$\nx\n$$", "\n::error file=a,line=1::boo\n",
    "::set-output name=a::b", "  ::stop-commands::x", "##[error]boo", "##[add-path]/tmp", "###[group]",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07", "\x00", "\x7f", "\x85", "\u202e", "\u2066", "\u200b", "\ufeff", "\u00ad", "\ue000",
    "\U000e0041", "\ufffe", "\U0001f600", "\u0301" * 5, "ünïcödé", "日本語", "{{ 7*7 }}", "{% raw %}",
    "=1+1", "+1", "@SUM(A1)",
    "-1", "]]>", "<![CDATA[", "%0A::error::x", "'", '"', "\u200d",
)  # fmt: skip

CORPUS = tuple(
    form.replace("…", fragment)
    for fragment in FRAGMENTS
    for form in ("…", "word…word", "a … b", "\n…\n", "| … |", "……", "`…")
)
"""Every fragment in every surrounding."""

SURROGATES = ("\ud800", "\udfff")
"""Records never hold these; what shows text refuses them all the same."""


def _texts(fragments: tuple[str, ...], letters: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(st.sampled_from(fragments), letters), max_size=25).map("".join)


hostile_texts = _texts(FRAGMENTS + SURROGATES, st.text(max_size=6))
storable_texts = _texts(FRAGMENTS, st.text(st.characters(exclude_categories=["Cs"]), max_size=6))


def hostile_case(text: str, **changes: object) -> CaseRecord:
    """A failing case in which every text is the given one."""
    failing = evaluation(0.1, evaluator_name=text or "m", explanation=text)
    shown = turn(
        failing,
        input=text,
        response=text,
        ground_truth=text,
        tool_invocations=(
            ToolInvocation(text, {text: text}, text),
            ToolInvocation(text, {}, {text: [text]}, error=text),
        ),
        tool_assertions=(ToolAssertion(text, False, -1, text),),
    )
    return replace(case_of(shown, name=text), **changes)


def hostile_record(cases: int, length: int) -> Record:
    """A record of failing cases whose answers are `length` characters of everything hostile."""
    body = "".join(FRAGMENTS)
    answer = (body * (length // len(body) + 1))[:length]
    many = []
    for number in range(cases):
        shift = number * 7 % len(body)
        text = body[shift : shift + 200]
        shown = turn(
            evaluation(0.1, explanation=text),
            input=text,
            response=answer[shift:] + answer[:shift],
            ground_truth=text,
            tool_invocations=(ToolInvocation("search", {"q": text}, text),),
        )
        many.append(case_of(shown, name=f"{number} {text}"))
    return record(*many)
