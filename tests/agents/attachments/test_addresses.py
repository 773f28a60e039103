"""Which addresses files may come from."""

from __future__ import annotations

import pytest

from holodeck_action.targets.downloads import refusal

PUBLIC = ("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34", "64:ff9b::5db8:d822")
PRIVATE = (
    *("127.0.0.1", "127.8.8.8", "::1", "10.0.0.1", "172.16.5.4", "192.168.1.1", "100.64.0.1", "100.100.100.200"),
    *(
        "fd00:ec2::254",
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
)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_fine(address: str) -> None:
    assert refusal(address, public_only=True) is None


@pytest.mark.parametrize("address", PRIVATE)
def test_private_ones_are_refused_where_only_public_ones_may_be(address: str) -> None:
    assert refusal(address, public_only=True) == f"{address} is no public address, and CI is set"
    assert refusal(address, public_only=False) is None


@pytest.mark.parametrize("address", NOWHERE)
def test_where_clouds_keep_credentials_nobody_downloads(address: str) -> None:
    assert refusal(address, public_only=True) is not None
    assert refusal(address, public_only=False) is not None
