"""The scenarios of the scripted server, which take the place of a model behind a coding-agent program.

The last `SCN=name` of the prompt chooses the behaviour, and the number of tool results after it is the step:
`work` writes notes.txt, shows it and answers; `fail` runs a command that ends with 3 and answers; `say` answers;
`skill` uses the skill `greeter`; `key` prints a word if commands do not have the provider's key; a number is that
status; `w500` writes first; `cut` and `wcut` break the stream, `half` and `whalf` within the answer; `max` stops at the
token limit; `empty` says nothing; `hang` never answers.
"""

from __future__ import annotations

import re

from holodeck_action.extensions.agent_programs.scripted_server import Request, Step, work

_PLACES = (
    r'[Ww]orking directory(?: is)?: ?([^\s"\\<]+)',
    r"<cwd>([^<]+)</cwd>",
    r'the directory: ([^\s"\\<]+)',
    r'[Ww]orkspace Directories:\*\*\\n +- ([^\s"\\<]+)',
)
_FOLDER = re.compile("|".join(_PLACES))
_SKILL = ".agents/skills/greeter/SKILL.md"


def decide(request: Request) -> Step:
    """Choose the next step."""
    name, step = request.scenario()
    folder = next(("".join(found) for found in _FOLDER.findall(request.whole)), ".")
    if name == "work" or (name.startswith("w") and step == 0):
        return work(request, step, folder)
    if name == "fail" and step == 0:
        return request.shell("echo oops >&2; exit 3")
    if name == "key" and step == 0:
        return request.shell('[ -z "$OPENAI_API_KEY$CODEX_API_KEY" ] && echo no-key-$((40+2))')
    if name == "skill" and step == 0:
        return _use_skill(request, folder)
    kind = name.removeprefix("w")
    if kind.isdecimal():
        return Step("status", kind)
    if kind in ("cut", "hang"):
        return Step(kind)
    if kind == "half":
        return Step("cut", "Half an answer, and")
    if name == "max":
        return Step("max", "cut off by the limit")
    return Step("text", {"empty": "", "fail": "Two steps failed."}.get(name, "Just an answer."))


def _use_skill(request: Request, folder: str) -> Step:
    tool = request.pick("skill", "activate_skill")
    if tool:
        name = next(name for name in request.tools[tool]["properties"] if name in ("skill", "name"))
        return Step("call", tool=tool, args={name: "greeter"})
    tool = request.pick("read")
    if tool:
        return Step("call", tool=tool, args={"path": f"{folder}/{_SKILL}"})
    return request.shell(f"cat {_SKILL}")
