"""Random secrets, and writers that break them up: Markdown, shells, colours, diffs, template engines, encoders."""

from __future__ import annotations

import html
import re
import string
import unicodedata
from collections.abc import Callable, Iterable
from random import Random
from urllib.parse import unquote

Writer = Callable[[Random, str], str]

MIXED = string.ascii_letters + string.digits
PREFIXES = ("", "", "", "ghp_", "sk-", "AKIA", "xoxb-", "hf_", "sk-ant-api03-", "github_pat_")
WIDTHS = {"mixed": 8, "hexadecimal": 10, "digits": 12}
"""Letters and digits in a row that may not pass, by alphabet (docs/security.md)."""


def random_secret(random: Random, alphabet: str) -> str:
    """Draw a secret; one of letters and digits may hold signs, too."""
    if alphabet == "digits":
        return "".join(random.choices(string.digits, k=random.randint(16, 30)))
    if alphabet == "hexadecimal":
        return "".join(
            random.choices(random.choice(("0123456789abcdef", "0123456789ABCDEF")), k=random.randint(24, 64))
        )
    letters = [*random.choices(MIXED, k=random.randint(20, 64)), random.choice(string.digits)]
    random.shuffle(letters)
    if random.random() < 0.5:
        for _ in range(random.randint(1, 5)):
            letters.insert(random.randrange(len(letters)), random.choice("-_.+/=~!$%&*:@#"))
    return random.choice(PREFIXES) + "".join(letters)


def cut_up(random: Random, text: str) -> list[str]:
    """Return a text in pieces of 1 to 7 characters."""
    pieces = []
    while text:
        size = random.randint(1, 7)
        pieces.append(text[:size])
        text = text[size:]
    return pieces


_SIGNS = " \t\n-_.,:;!?'\"`*~|/\\()[]{}<>=+#@^&%$\u2010\u2011\u2014\u2026\u22ef\u00a0\u200b\u2028\u3002\u00b7\U0001f511"


def _separated(random: Random, text: str) -> str:
    """Anything that is neither letter nor digit, up to 200 characters of it."""
    return "".join(
        piece + "".join(random.choices(_SIGNS, k=random.choice((1, 2, 3, 10, 200)))) for piece in cut_up(random, text)
    )


def _markdown(random: Random, text: str) -> str:
    escaped = re.sub(r"([_*\-.+!#\[\]()])", r"\\\1", text) if random.random() < 0.5 else text
    at = random.randrange(len(escaped) + 1)
    sign = random.choice(("**", "*", "`", "~~", "__", " | ", "\n> ", "\n- ", "\\\n", "  \n"))
    return f"{escaped[:at]}{sign}{escaped[at:]}{sign}"


def _colours(random: Random, text: str) -> str:
    sequences = (
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[1;38;2;10;20;30m",
        "\x1b]8;;\x1b\\",
        "\x9b4m",
        "\x1b[K",
        "[1;31m",
        "\x1b(B",
    )
    return "".join(piece + random.choice(sequences) for piece in cut_up(random, text))


def _escaped_colours(random: Random, text: str) -> str:
    sequences = ("\\u001b[31m", "\\x1b[0m", "\\033[1m", "\\e[4m", "&#27;[7m", "%1b[2m")
    return "".join(piece + random.choice(sequences) for piece in cut_up(random, text))


def _shell(random: Random, text: str) -> str:
    joints = ("''", '""', "'\"'\"'", "\\\n", "'$'", "\\", "' '")
    return "'" + "".join(piece + random.choice(joints) for piece in cut_up(random, text)) + "'"


def _diff(random: Random, text: str) -> str:
    return "".join(
        random.choice(("\n+ {}", "\n- {}", "[-{}-]", "{{+{}+}}", "\n> {}", "\n\\ {}")).format(piece)
        for piece in cut_up(random, text)
    )


def _template(random: Random, text: str) -> str:
    forms = ('{{{{ "{}" }}}}', '<%= "{}" %>', '${{"{}"}}', '" + "{}" + "', '"{}" ~ ', '"{}", ', "[...] {} (...)", "⋯{}")
    return "".join(random.choice(forms).format(piece) for piece in cut_up(random, text))


def _tags(random: Random, text: str) -> str:
    forms = ("<b>{}</b>", '<span class="k1">{}</span>', "{}<br/>", "{}<wbr>", "<!-- a1 -->{}", '<a href="x9">{}</a>')
    return "".join(random.choice(forms).format(piece) for piece in cut_up(random, text))


def _escaped_tags(random: Random, text: str) -> str:
    return html.escape(_tags(random, text))


def _characters(random: Random, text: str) -> str:
    forms: tuple[Callable[[str], str], ...] = (
        lambda sign: f"\\u{ord(sign):04x}",
        lambda sign: f"\\x{ord(sign):02X}",
        lambda sign: f"%{ord(sign):02x}",
        lambda sign: f"&#{ord(sign)};",
        lambda sign: f"&#x{ord(sign):x};",
        lambda sign: f"\\u{{{ord(sign):x}}}",
    )
    form = random.choice(forms)
    return "".join(form(sign) if random.random() < 0.6 else sign for sign in text)


def _breaks(random: Random, text: str) -> str:
    return "".join(
        piece + random.choice(("\\n", "\\r\\n", "\\t", "\n", "%0A", "&#10;")) for piece in cut_up(random, text)
    )


def _wide(random: Random, text: str) -> str:
    return "".join(chr(ord(sign) + 0xFEE0) if "!" <= sign <= "~" and random.random() < 0.5 else sign for sign in text)


def _case(random: Random, text: str) -> str:
    return text.upper() if random.random() < 0.5 else text.lower()


WRITERS: dict[str, Writer] = {
    "separated": _separated,
    "markdown": _markdown,
    "colours": _colours,
    "escaped colours": _escaped_colours,
    "shell": _shell,
    "diff": _diff,
    "template": _template,
    "tags": _tags,
    "escaped tags": _escaped_tags,
    "characters": _characters,
    "breaks": _breaks,
    "wide": _wide,
    "case": _case,
}

_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x9b[0-9;]*[A-Za-z]|\x1b\]8;;\x1b\\|\x1b\(B|\[[0-9;]+m")
_ESCAPED = re.compile(r"\\u\{([0-9a-fA-F]+)\}|\\u([0-9a-fA-F]{4})|\\x([0-9a-fA-F]{2})|\\(033)|\\([enrt])")
_MARKUP = re.compile(r"<!--.*?-->|</?(?:b|span|a|br|wbr)(?: [^>]*)?/?>", re.DOTALL)


def _unescaped(text: str) -> str:
    def sign(match: re.Match[str]) -> str:
        code = match[1] or match[2] or match[3]
        return chr(int(code, 16)) if code else "\x1b" if match[4] or match[5] == "e" else "\n"

    return html.unescape(unquote(_ESCAPED.sub(sign, text)))


def readings(text: str) -> set[str]:
    """Return the letters and digits that somebody may read who undoes what the writers do, in every stage of it."""
    found = set()
    stage = text
    for _ in range(4):
        for shown in (stage, _CONTROL.sub("", stage), _MARKUP.sub("", stage), _MARKUP.sub("", _CONTROL.sub("", stage))):
            plain = unicodedata.normalize("NFKD", shown).casefold()
            found.add("".join(filter(str.isalnum, plain)))
        stage = _unescaped(stage)
    return found


def rows_of(secret: str, width: int) -> set[str]:
    """Return the rows of letters and digits of a secret, without those that are hardly more than a prefix."""
    letters = "".join(filter(str.isalnum, secret)).casefold()
    prefix = next((shared for shared in ("skantapi03", "githubpat") if letters.startswith(shared)), "")
    first = max(0, len(prefix) + 4 - width)
    return {letters[at : at + width] for at in range(first, len(letters) - width + 1)}


def left(text: str, rows: Iterable[str]) -> list[str]:
    """Return the rows that can still be read in a text."""
    shown = "\n".join(readings(text))
    return [row for row in rows if row in shown]
