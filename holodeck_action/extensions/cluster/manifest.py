"""The manifest of the extension `cluster`."""

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
            read="holodeck_action.extensions.cluster.stages:parse_address",
        ),
        Option(
            "cluster-env",
            "Send this variable, which may be a key, to the cluster's workers; otherwise they have only their own.",
            metavar="NAME",
            allowed="names of variables, one per line",
            many=True,
        ),
        Option(
            "cluster-insecure",
            "Allow a cluster on other machines over tcp://, which is unencrypted and open to anyone who can reach it.",
            flag=True,
        ),
    ),
    stages="holodeck_action.extensions.cluster.stages:ClusterStages",
)
