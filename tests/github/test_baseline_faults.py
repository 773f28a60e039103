"""Every trouble at every request with which a base is looked for: a base or a reason, and never another verdict."""

from __future__ import annotations

import gzip

import pytest

from holodeck_action.extensions.history.history_layout import suite_key
from tests.commands.project import Project
from tests.github.baselines import OUTPUT, Shop
from tests.github.fake import FakeGitHub, Fault
from tests.github.steps import naming, places
from tests.github.workflow import TOKEN

# One of each kind that a source tells apart: denied, not found, no usable answer, and another address. What makes an
# answer one of a kind is in test_retry.
FAULTS = [
    Fault("*", "", status=401, body={"message": "Bad credentials"}),
    Fault("*", "", status=404, body={"message": "Not Found"}),
    Fault("*", "", status=200, body={"unexpected": True}, times=None),
    Fault("*", "", status=302, headers={"Location": "https://elsewhere.example/"}),
]


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.status}")
@pytest.mark.parametrize("source", ["artifact", "branch:holodeck-data"])
def test_trouble_at_any_request(hub: FakeGitHub, project: Project, source: str, fault: Fault) -> None:
    shop = Shop(hub, project, source)
    shop.push()
    shop.upload()
    packed = gzip.compress((project.folder / OUTPUT / "results.json").read_bytes())
    record = f"records/{shop.main}/{suite_key('', 'agent.yaml')}.json.gz"
    shop.git.refs["refs/heads/holodeck-data"] = shop.git.commit({record: packed, "history.jsonl": b""})
    head = shop.branch_off()
    seen = len(hub.requests)
    shop.pull(head)
    assert shop.base().commit == shop.main
    found = places(hub.requests[seen:], every=True)
    # What a run costs of the 1,000 requests an hour.
    assert len(found) <= 9
    for place in found:
        with naming(place):
            place.order(hub, fault)
            ended = shop.pull(head)
            hub.heal()
            assert (ended.code, ended.outputs["verdict"]) == (0, "passed")
            baseline = shop.record().baseline
            assert baseline is not None
            # The checkout has no Git of its own here that would know the merge base.
            assert (baseline.base is None) == bool(baseline.missing)
            assert TOKEN not in ended.summary + baseline.missing
            assert "sig=" not in ended.summary + baseline.missing
