"""Classification of IP addresses: public addresses, and addresses at which a cloud serves a machine's credentials.

The tables are defined here because `is_global` of the standard library differs between the supported versions of
Python, and accepts addresses that embed another address.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPAddress = IPv4Address | IPv6Address

# IANA's IPv4 special-purpose address registry, and multicast (RFC 5771). Whole blocks: the reachable anycast addresses
# in 192.0.0.0/24 belong to the local network's router and serve no files.
_SPECIAL_4 = tuple(
    IPv4Network(block)
    for block in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
        *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
"""The only block from which IANA allocates global unicast addresses (RFC 4291, section 4)."""
# Reserved in it by IANA's IPv6 special-purpose address registry: protocols with Teredo, documentation, 6to4.
_SPECIAL_6 = tuple(IPv6Network(block) for block in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))

_MAPPED = IPv6Network("::ffff:0:0/96")
"""IPv4 addresses as IPv6 sockets represent them (RFC 4291, section 2.5.5.2)."""
_NAT64 = IPv6Network("64:ff9b::/96")
"""IPv4 addresses that a NAT64 translator reaches (RFC 6052). Other prefixes, which a network may choose, cannot be
recognised."""
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
"""IPv4 addresses that a NAT64 translator of a local network reaches (RFC 8215)."""
_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""Values of bits 64 to 95 that mark an IPv6 address with any prefix as ISATAP: its last 32 bits are an IPv4 address
(RFC 5214)."""

_METADATA_SERVICES = frozenset(
    (
        # Azure's host: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
        IPv4Address("168.63.129.16"),
        # Oracle Cloud Classic: docs.oracle.com/en/cloud/iaas-classic, "Retrieving Instance Metadata"
        IPv4Address("192.0.0.192"),
        # Alibaba Cloud: www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata
        IPv4Address("100.100.100.200"),
        # AWS: docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
        IPv6Address("fd00:ec2::254"),
        # AWS EKS Pod Identity: docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
        IPv6Address("fd00:ec2::23"),
        # Google Cloud: cloud.google.com/compute/docs/metadata/querying-metadata
        IPv6Address("fd20:ce::254"),
        # Oracle Cloud: docs.oracle.com/iaas/Content/Compute/Tasks/gettingmetadata.htm
        IPv6Address("fd00:c1::a9fe:a9fe"),
        # Scaleway: github.com/scaleway/scaleway-sdk-go, api/instance/v1/instance_metadata_sdk.go
        IPv6Address("fd00:42::42"),
        # Akamai (Linode): techdocs.akamai.com/cloud-computing/docs/metadata-service-api
        IPv6Address("fd00:a9fe:a9fe::1"),
    )
)
"""Addresses outside the link-local blocks that serve a machine's metadata and credentials, or reach its host."""


def is_public(address: IPAddress) -> bool:
    """Return whether an IP address is globally routable and is not a cloud metadata service.

    A mapped or NAT64 address (`::ffff:0:0/96`, `64:ff9b::/96`) is public if the embedded IPv4 address is public. Other
    addresses that embed an IPv4 address (IPv4-compatible, 6to4, Teredo, ISATAP, local NAT64) are not public.
    """
    if isinstance(address, IPv4Address):
        return address not in _METADATA_SERVICES and not any(address in block for block in _SPECIAL_4)
    if address in _MAPPED or address in _NAT64:
        return is_public(_embedded_ipv4(address))
    # An address with a zone is on a link of this machine.
    if address.scope_id is not None or address not in _GLOBAL_6 or _is_isatap(address):
        return False
    return not any(address in block for block in _SPECIAL_6)


def is_metadata_service(address: IPAddress) -> bool:
    """Return whether an address is in `_METADATA_SERVICES`, which omits link-local addresses."""
    return address in _METADATA_SERVICES


def reachable_addresses(address: IPAddress) -> Iterator[IPAddress]:
    """Yield an IP address, and the IPv4 addresses embedded in it."""
    if isinstance(address, IPv4Address):
        yield address
        return
    # With a zone, it would not equal any other address.
    plain = IPv6Address(int(address))
    yield plain
    if plain.is_unspecified or plain.is_loopback:
        return
    if any(plain in block for block in (_MAPPED, _NAT64, _COMPATIBLE, _TRANSLATED)) or _is_isatap(plain):
        yield _embedded_ipv4(plain)
    elif plain in _LOCAL_NAT64:
        # After a prefix of 48, 56, 64 or 96 bits; the ninth byte is always zero and left out (RFC 6052, section 2.2).
        packed = plain.packed[:8] + plain.packed[9:]
        yield from (IPv4Address(packed[start : start + 4]) for start in (6, 7, 8, 11))
    elif plain.sixtofour is not None:
        yield plain.sixtofour
    elif plain.teredo is not None:
        yield from plain.teredo


def _is_isatap(address: IPv6Address) -> bool:
    return int(address) >> 32 & 0xFFFF_FFFF in _ISATAP


def _embedded_ipv4(address: IPv6Address) -> IPv4Address:
    return IPv4Address(address.packed[12:])
