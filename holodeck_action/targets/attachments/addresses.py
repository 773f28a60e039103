"""Which addresses a file of a case may be downloaded from."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that a gateway translates to the IPv4 address in their last 32 bits (RFC 6052)."""


def refusal(address: str, *, public_only: bool) -> str | None:
    """Say why nothing is downloaded from an address; None when it may be.

    Args:
        address: IPv4 or IPv6 in its usual form.
        public_only: refuse everything that is not on the public internet. Link-local addresses, where clouds keep
            the credentials of their machines, and groups of machines are refused everywhere.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return f"{address!r:.80} is no address"
    for each in _meant(found):
        if each.is_link_local or each.is_multicast or each.is_unspecified:
            return f"{address} is a link-local, multicast or unspecified address"
        if public_only and not each.is_global:
            return f"{address} is no public address, and CI is set"
    return None


def _meant(address: IPAddress) -> Iterator[IPAddress]:
    """Yield an address, and the IPv4 address in it that is reached in its place."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
