"""The wheel carries the licences of what is in it."""

from __future__ import annotations

import zipfile

import pytest

from tests.docs.pages import ROOT
from tests.release.distributions import Distributions

pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]


def test_the_wheel_has_our_licence_and_those_of_others(distributions: Distributions) -> None:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        files = {name.partition(".dist-info/licenses/")[2]: wheel.read(name) for name in wheel.namelist()}
    for name in ("LICENSE", "THIRD_PARTY.md", "holodeck_action/metrics/data/LICENSE.WordNet"):
        assert files[name] == (ROOT / name).read_bytes()
