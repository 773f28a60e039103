"""Generated patterns of JavaScript and texts for them, and what Node.js says of each pair."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence

TEXTS = 20
_ATOMS = (
    *(r"a b c A 1 _ - é 😀 K , { } ] {,2} {a} < / && . \d \D \w \W \s \S \. \/ \- \t \n \x61 \u0062 \0 \cJ").split(),  # noqa: SIM905
    *(r"\ud83d \ude00 \u2028 [] [^] \1").split(),  # noqa: SIM905
    *(" ", "\n"),
)
_ODD_ATOMS = (r"\e", r"\a", r"\2", r"\k<n>", r"\u{61}", r"\p{L}", r"\_", r"\x", r"\8", r"\c1", r"\u12", r"\-", r"\é")
_ASSERTIONS = ("^", "$", r"\b", r"\B")
_QUANTIFIERS = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{1,2}?", "{,2}", "{0}")
_ODD_QUANTIFIERS = ("{2,1}", "++", "*+", "{2}+", "{99999999999}")
_MEMBERS = (
    *(r"a b z A 1 9 - _ ^ [ & | ~ 😀 é \d \D \w \W \s \S \b \] \- \n \u2028 a-c 0-9 A-z -- && \ud83d").split(),  # noqa: SIM905
    " ",
)
_ODD_MEMBERS = (r"\B", r"\d-a", "z-a", r"a-\w", "😀-😎", r"\1", r"\c*")
_OPENING = ("(", "(", "(", "(?:", "(?:", "(?<n>", "(?=", "(?!", "(?<=", "(?<!")
_ODD_OPENING = ("(?", "(?i:", "(?#", "(?P<n>", "(?>")
_PIECES = (
    *"a b c ab aa A 1 12 _ - . / é 😀 K ſ İ ١ {,2} a{,2} ] } { & | ~ ^ [ , z 9 µ ª ² 𝟙 <".split(),  # noqa: SIM905
    *("", " ", "\n", "\r", "\t", "\x0b", "\x1c", "\x85", "\xa0", "\u2028", "\u2029", "\ufeff", "\u180e", "\x08", "\0"),
    *("\ud83d", "\ude00", "\U0010ffff"),
)
NODE = """
const out = [];
for (const line of require('fs').readFileSync(0, 'utf8').split('\\n')) {
  if (!line) continue;
  const [pattern, texts] = JSON.parse(line);
  try {
    const made = new RegExp(pattern);
    out.push(texts.map((text) => made.test(text) ? '1' : '0').join(''));
  } catch { out.push('-'); }
}
console.log(out.join('\\n'));
"""


def pair(seed: int) -> tuple[str, list[str]]:
    """A pattern and its texts, the same for one seed always."""
    rng = random.Random(seed)
    texts = ["".join(rng.choice(_PIECES) for _ in range(rng.randrange(5))) for _ in range(TEXTS)]
    pattern = _pattern(rng, 3)
    if rng.random() < 0.05:
        at = rng.randrange(len(pattern) + 1)
        pattern = pattern[:at] + rng.choice("()[]{}?*+^$|\\,-=!<>:1a") + pattern[at + rng.randrange(2) :]
    return pattern, texts


def _pattern(rng: random.Random, depth: int) -> str:
    return "|".join(_sequence(rng, depth) for _ in range(rng.choice((1, 1, 1, 2, 3))))


def _sequence(rng: random.Random, depth: int) -> str:
    return "".join(_term(rng, depth) for _ in range(rng.choice((1, 1, 2, 2, 3, 4))))


def _term(rng: random.Random, depth: int) -> str:
    def some(usual: Sequence[str], odd: Sequence[str]) -> str:
        return rng.choice(odd if rng.random() < 0.02 else usual)

    kind = rng.random()
    if kind < 0.12:
        return rng.choice(_ASSERTIONS)
    if kind < 0.35:
        members = "".join(some(_MEMBERS, _ODD_MEMBERS) for _ in range(rng.randrange(1, 4)))
        made = f"[{rng.choice(('', '', '^'))}{members}]"
    elif kind < 0.55 and depth:
        start = some(_OPENING, _ODD_OPENING)
        made = f"{start}{_pattern(rng, depth - 1)})"
        if start in ("(?<=", "(?<!"):
            return made
    else:
        made = some(_ATOMS, _ODD_ATOMS)
    return made + (some(_QUANTIFIERS, _ODD_QUANTIFIERS) if rng.random() < 0.3 else "")


def node_answers(pairs: Sequence[tuple[str, list[str]]]) -> list[str]:
    """What JavaScript says of each pattern: `1` or `0` for each text, or `-` for what is no pattern."""
    given = "".join(f"{json.dumps(each)}\n" for each in pairs)
    done = subprocess.run(["node", "-e", NODE], input=given, capture_output=True, text=True, check=True, timeout=600)
    return done.stdout.split("\n")[: len(pairs)]
