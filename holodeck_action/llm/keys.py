"""What makes two calls the same: all that can change an answer, nothing that cannot.

In the key: provider, endpoint (host and path, without port and scheme; every loopback address is `localhost`), method,
query, body, the trial's index and, where a panel asks one model for several answers, which of them it is. Two endpoints
may serve different models under one name, so the endpoint counts. Left out: headers (keys, trace ids), whom the call is
made for, and the fields of the body that only serve billing and tracing. Ids that our client library invents at random
are numbered. Secrets are masked before the key is built, so a key tells nothing about them, and a replay with another
key (or a stand-in) finds the same entry.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from holodeck_action.llm.calls import Call
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.text.redaction import Redactor

_IDLE = frozenset(
    {
        "user",
        "metadata",
        "safety_identifier",
        "prompt_cache_key",
        "prompt_cache_retention",
        "service_tier",
        "store",
        "keep_alive",
    }
)
"""Fields of a request's body that cannot change the answer."""
_INVENTED = re.compile(r"pyd_ai_[0-9a-zA-Z_-]+")


def parts_of(call: Call, redactor: Redactor) -> dict[str, Any]:
    """Return what a call's key is made of, as JSON values without secrets."""
    url = call.request.url
    document = call.document
    if isinstance(document, dict):
        document = {name: value for name, value in document.items() if name not in _IDLE}
    elif document is None and call.request.content:
        document = f"sha256:{hashlib.sha256(call.request.content).hexdigest()}"
    parts = {
        "provider": call.account.provider,
        "endpoint": redactor.text(("localhost" if is_loopback(url.host) else url.host) + url.path),
        "method": call.request.method,
        "query": redactor.text(url.query.decode("ascii", "replace")),
        "repeat": call.context.repeat,
        "body": redactor.value(document),
    }
    if call.context.sample:
        # Left out for the first, so that a panel's first answer is the one that a lone judge gave.
        parts["sample"] = call.context.sample
    return parts


def key_of(parts: dict[str, Any]) -> str:
    """Return the key: 40 hexadecimal digits of the parts' SHA-256."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if "pyd_ai_" in text:
        numbers: dict[str, int] = {}
        text = _INVENTED.sub(lambda match: f"pyd_ai_{numbers.setdefault(match[0], len(numbers))}", text)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]
