"""Hosts and URLs in a suite."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

_LOCAL_NAMES = (".local", ".internal", ".lan", ".home.arpa", ".intranet")
"""Ends of names that are not on the internet (RFC 6762, RFC 8375, and ICANN's reservation of `internal`)."""


def is_loopback(host: str) -> bool:
    """Return whether a host (a name in lower case, or an IP address) is this machine (RFC 6761 §6.3)."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public_url(url: str) -> bool:
    """Return whether the host of a URL is on the internet, as far as its name or IP address shows: this machine,
    private addresses, names without a dot and names of local networks are not.
    """
    host = (urlsplit(url).hostname or "").rstrip(".").lower()
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        return "." in host and not is_loopback(host) and not host.endswith(_LOCAL_NAMES)


def url_without_secrets(url: str) -> str:
    """Return a URL without user, password, query and fragment, which may hold secrets."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"
