"""The manifest of the extension `simulation`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Metric, Users

_HERE = "holodeck_action.extensions.simulation"

EXTENSION = Extension(
    name="simulation",
    help="Users that a model plays: `simulate` in a case.",
    metrics=(Metric("simulated_user", f"{_HERE}.user_metric:SimulatedUserMetric"),),
    users=Users(
        settings=f"{_HERE}.settings:Simulate",
        problems=f"{_HERE}.users:model_problems",
        open=f"{_HERE}.users:open_users",
        estimates=f"{_HERE}.estimates:estimate_users",
    ),
)
