"""Which addresses files may come from."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.suite.addresses import IPAddress, is_public
from holodeck_action.targets.own_model.downloads import refusal_reason
from tests.tables import walk

PUBLIC = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::5db8:d822")
PRIVATE = (
    *("127.0.0.1", "127.8.8.8", "::1", "10.0.0.1", "172.16.5.4", "192.168.1.1", "100.64.0.1"),
    *(
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "198.18.0.1",
        "240.0.0.1",
    ),
)
NOWHERE = (
    *("169.254.169.254", "fe80::1", "fe80::1%eth0", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "::ffff:169.254.169.254"),
    *("64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "no address", ""),
    # IPv4-compatible, ISATAP, Teredo (server, and client with its bits turned), translated, NAT64 of a local network
    # behind prefixes of 48, 56, 64 and 96 bits: all lead to 169.254.169.254.
    *("::169.254.169.254", "2001:db8::5efe:a9fe:a9fe", "fd00::200:5efe:a9fe:a9fe", "2001:0:a9fe:a9fe::"),
    *("2001:0:5db8:d822:0:0:5601:5601", "::ffff:0:169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::"),
    *("64:ff9b:1:a9:fe:a9fe::", "64:ff9b:1::a9:fea9:fe00:0", "64:ff9b:1::a9fe:a9fe"),
)
MACHINES = (
    *("168.63.129.16", "192.0.0.192", "100.100.100.200", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
    *("fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:ec2::254%eth0"),
    *("::ffff:168.63.129.16", "64:ff9b::6464:64c8", "::168.63.129.16", "2002:a83f:8110::"),
)

# Every row of IANA's special-purpose address registries, an address of it, and whether files may come from it. The
# registries call those marked * globally reachable. They serve no files: routers, tunnels, name servers of last resort.
REGISTRY_4 = (
    *(("0.0.0.0/8", "0.1.2.3"), ("0.0.0.0/32", "0.0.0.0"), ("10.0.0.0/8", "10.255.255.255")),
    *(("100.64.0.0/10", "100.127.255.255"), ("127.0.0.0/8", "127.255.255.255"), ("169.254.0.0/16", "169.254.1.1")),
    *(("172.16.0.0/12", "172.31.255.255"), ("192.0.0.0/24", "192.0.0.255"), ("192.0.0.0/29", "192.0.0.1")),
    *(("192.0.0.8/32", "192.0.0.8"), ("192.0.0.9/32 *", "192.0.0.9"), ("192.0.0.10/32 *", "192.0.0.10")),
    *(("192.0.0.170/32", "192.0.0.170"), ("192.0.0.171/32", "192.0.0.171"), ("192.0.2.0/24", "192.0.2.1")),
    *(("192.88.99.0/24", "192.88.99.1"), ("192.168.0.0/16", "192.168.255.255"), ("198.18.0.0/15", "198.19.255.255")),
    *(("198.51.100.0/24", "198.51.100.1"), ("203.0.113.0/24", "203.0.113.1"), ("224.0.0.0/4", "239.255.255.255")),
    *(("240.0.0.0/4", "250.1.1.1"), ("255.255.255.255/32", "255.255.255.255")),
)
REGISTRY_6 = (
    *(("::1/128", "::1"), ("::/128", "::"), ("::/96", "::93.184.216.34"), ("::ffff:0:0/96", "::ffff:10.1.1.1")),
    *(("::ffff:0:0:0/96", "::ffff:0:93.184.216.34"), ("64:ff9b::/96", "64:ff9b::192.168.0.1")),
    *(("64:ff9b:1::/48", "64:ff9b:1::93.184.216.34"), ("100::/64", "100::1"), ("100:0:0:1::/64", "100:0:0:1::1")),
    *(("2001::/23", "2001:1ff::1"), ("2001::/32", "2001:0:5db8:d822:0:0:a247:27dd"), ("2001:1::1/128 *", "2001:1::1")),
    *(("2001:1::2/128 *", "2001:1::2"), ("2001:1::3/128 *", "2001:1::3"), ("2001:2::/48", "2001:2::1")),
    *(("2001:3::/32 *", "2001:3::1"), ("2001:4:112::/48 *", "2001:4:112::1"), ("2001:10::/28", "2001:10::1")),
    *(("2001:20::/28 *", "2001:20::1"), ("2001:30::/28 *", "2001:30::1"), ("2001:db8::/32", "2001:db8::1")),
    *(("2002::/16", "2002:5db8:d822::1"), ("3fff::/20", "3fff:fff::1"), ("5f00::/16", "5f00::1")),
    *(("fc00::/7", "fdff::1"), ("fe80::/10", "febf::1"), ("fec0::/10", "fec0::1"), ("ff00::/8", "ff0e::1")),
    # No rows of the registry, but of no network on the internet either.
    *(("4000::/3", "4000::1"), ("8000::/3", "8000::1"), ("ISATAP", "2606:2800:220:1:0:5efe:5db8:d822")),
)
# Rows that the registries call globally reachable and that have ordinary servers behind them, and the neighbours of the
# blocks above.
REACHABLE = (
    *("192.31.196.1", "192.52.193.1", "192.175.48.1", "2620:4f:8000::1", "1.0.0.0", "9.255.255.255", "11.0.0.0"),
    *("100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0", "172.15.255.255", "172.32.0.0"),
    *("191.255.255.255", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0"),
    *("198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.15", "168.63.129.17", "2001:200::1"),
    *("2001:db7::1", "2001:db9::1", "2003::1", "3ffe:ffff::1", "2606:4700:4700::1111", "2a00:1450:4001::1"),
)


@walk("address", PUBLIC + REACHABLE)
def test_public_addresses_are_fine(address: str) -> None:
    assert refusal_reason(address, public_only=True) is None


@walk("address", PRIVATE)
def test_private_ones_are_refused_where_only_public_ones_may_be(address: str) -> None:
    assert (
        refusal_reason(address, public_only=True)
        == f"{address} is not a public address; in CI, files are downloaded from public addresses only"
    )
    assert refusal_reason(address, public_only=False) is None


@walk(("block", "address"), REGISTRY_4 + REGISTRY_6)
def test_no_special_block_is_public(block: str, address: str) -> None:
    assert refusal_reason(address, public_only=True) is not None
    assert not is_public(ipaddress.ip_address(address))


@walk("address", NOWHERE)
def test_where_clouds_keep_credentials_nobody_downloads(address: str) -> None:
    assert refusal_reason(address, public_only=True) is not None
    assert refusal_reason(address, public_only=False) is not None


@walk("address", MACHINES)
def test_nor_from_the_services_of_a_machine_elsewhere(address: str) -> None:
    said = f"{address} is an address from which clouds serve credentials"
    assert refusal_reason(address, public_only=True) == said
    assert refusal_reason(address, public_only=False) == said


@given(st.ip_addresses())
def test_what_is_public_is_so_for_python_too(address: IPAddress) -> None:
    if is_public(address):
        assert address.is_global or getattr(address, "ipv4_mapped", None) is not None


@given(st.ip_addresses(v=4))
def test_an_embedded_address_is_public_only_where_it_is_itself(address: ipaddress.IPv4Address) -> None:
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        embedding = ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) + int(address))
        assert is_public(embedding) == is_public(address)
    for prefix in ("::", "2001:470::5efe:0:0", "64:ff9b:1::"):
        assert not is_public(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) + int(address)))
