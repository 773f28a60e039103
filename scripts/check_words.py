"""Checks docs, messages, docstrings and comments for banned phrases and suggests replacements; `make lint` runs it.

Messages are all string literals that are not prompts. It only finds phrases that were frequent and hard to read, not
other bad sentences.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("holodeck_action", "scripts", "templates", "docs")
FILES = ("README.md", "CONTRIBUTING.md")
PHRASES = {
    r"(?:Return|Yield)s? what\b": "name what is returned: the result, the metrics, a function that …",
    r"\b(?:Say|Tell)s? whether\b": "Return whether",
    r"\bNone where\b": "None if",
    r"\bwhere (?:there (?:is|are) no(?:ne)?|nothing is|it is absent)\b": "if there is no …, if nothing is …",
    r"\b(?:is|are) asked for\b": "is required, is requested",
    r"\basked of\b": "the calls of",
    r"\bstands? where\b": "is where, or a sentence with its subject first",
    r"\b(?:stands?|text) behind\b": "after",
    r"\bbehind (?:the|its) (?:closing|name|value|number|answer|end)\b": "after",
    r"\bstands? beside\b": "is next to, or cannot be combined with",
    r"\bstands? under\b": "belongs under",
    r"\b(?:that|which) (?:is|are) none\b(?! of)": "an invalid …, or is not a …",
    r"\b(?:and there|its \w+) (?:is|are) none\b": "is not a …, or there is no …",
    r"\bit is none(?=[.;:])": "it is invalid, or what is missing",
    r"(?<!there) (?:is|are) no (?:JSON|number|text|list|mapping|path|URL|template|file)\b": "is not a …",
    r"\bof (?:its|their|your|our|my) own\b(?=[^\w ]| (?:and|in|with|over|when|runs?|without|report|is|are|has)\b|$)": (
        "its own …, your own …"
    ),
    r"\b[Ss]omebody\b": "a user, the caller, another process",
    r"\b[Aa]nybody\b": "anyone, or the passive",
    r"\b[Nn]obody\b": "no one, or the passive",
    r"\bso many\b": "a number of",
    r"\bfor want of\b": "without",
    r"\bcomes to\b": "is, or becomes",
    r"\b(?:becomes?|became) of\b": "the outcome of",
    r"\bnothing came of\b": "gave no result",
    r"\bheld to\b": "checked against, enforced, limited to",
    r"\bheld against\b": "compared with",
    r"\btakes? no part\b": "is not counted, is ignored",
    r"\ball must\b(?! \w)": "all must pass",
    r"\d %?,? must\b(?! \w)": "at least … must pass",
    r"\bcan neither be shown nor ruled out\b": "too few cases to rule out …",
    r"\b(?:is|are) told of\b": "is called with, is notified of, reads",
    r"\btells? together\b": "report, show",
    r"\b(?:could not|cannot) be told\b(?! apart)": "is unknown, is inconclusive",
    r"\b(?:did|does|do) not tell\b": "does not report",
    r"\b(?:says?|said) nothing (?:of|about)\b": "does not report, does not describe",
    r"\ba screen on chosen cases\b": "chosen cases, not a random sample",
    r"\b(?:does|do) not go with\b": "cannot be combined with",
    r"\bbroke(?:n)? off\b": "ended early, was aborted",
    r"\b(?:what|which) no \w+ can be\b": "an invalid …",
    r"\banew\b": "again",
    r"\bsee to it\b": "check that, make sure that",
}
_CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]+`|<!--.*?-->", re.MULTILINE | re.DOTALL)
"""Of Markdown: what no reader sees as text."""
_PROMPTS = ("extensions/presets/", "metrics/judging/")
"""Modules whose strings are prompts of judges: their words are measured."""
_COPIED = "importers/checks"
"""How modules begin that an import copies into the graders that it writes, as they are."""


def texts(source: str, *, messages: bool = True) -> Iterator[tuple[int, str]]:
    """Yield the first line's number and the text of each comment and string in a module.

    Args:
        source: the module.
        messages: whether strings that are not docstrings are read.
    """
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (messages or id(node) in docstrings):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def problems(source: str, name: str) -> Iterator[str]:
    """Yield a sentence for each banned phrase in a file: a module, a page in Markdown, or a template."""
    if name.endswith(".py"):
        found = texts(source, messages=not any(part in name for part in _PROMPTS))
    else:
        prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), source) if name.endswith(".md") else source
        found = iter([(1, prose)])
    for line, text in found:
        for phrase, better in PHRASES.items():
            for match in re.finditer(phrase.replace(" ", r"\s+"), text):
                at = line + text.count("\n", 0, match.start())
                yield f'{name}:{at}: "{" ".join(match[0].split())}": write {better}'


def _read() -> Iterator[Path]:
    yield from (ROOT / name for name in FILES)
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".md", ".j2") and path != Path(__file__) and _COPIED not in path.as_posix():
                yield path


def main() -> int:
    """Print the phrases of all files; return 1 if there are any."""
    found = [
        problem
        for path in _read()
        for problem in problems(path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix())
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
