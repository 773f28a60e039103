"""What the extension `cluster` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Option

EXTENSION = Extension(
    name="cluster",
    help="Trials on the workers of a Dask cluster.",
    options=(
        Option(
            "cluster",
            "Run the trials on the workers of the Dask cluster with this scheduler.",
            metavar="ADDRESS",
            allowed="tcp://HOST:PORT or tls://HOST:PORT",
            read="holodeck_action.extensions.cluster.stages:address",
        ),
        Option(
            "cluster-env",
            "Give the cluster's workers this variable, which may be a key; without it they know their own alone.",
            metavar="NAME",
            allowed="names of variables, one per line",
            many=True,
        ),
        Option(
            "cluster-insecure",
            "Allow a cluster on other machines over tcp://, unencrypted and open to whoever reaches it.",
            flag=True,
        ),
    ),
    stages="holodeck_action.extensions.cluster.stages:ClusterStages",
)
