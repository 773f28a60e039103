"""Workers for `run --cluster` as jobs of Slurm, by dask-jobqueue (https://jobqueue.dask.org).

Run it on a node that may submit jobs, with the arguments of `holodeck-action run`, in an environment with
`holodeck-action[agents,judges,cluster]` and `dask-jobqueue` that all nodes see. It starts the workers, runs the suite
beside them, and ends their jobs. The certificates for TLS are those of Dask's configuration, for example

    DASK_DISTRIBUTED__COMM__TLS__CA_FILE=ca.pem
    DASK_DISTRIBUTED__COMM__TLS__SCHEDULER__CERT=own.pem  DASK_DISTRIBUTED__COMM__TLS__SCHEDULER__KEY=own.key
    DASK_DISTRIBUTED__COMM__TLS__WORKER__CERT=own.pem     DASK_DISTRIBUTED__COMM__TLS__WORKER__KEY=own.key
    DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT=own.pem     DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY=own.key
"""

import subprocess
import sys

from dask_jobqueue import SLURMCluster
from distributed.security import Security

JOBS = 8
TRIALS_AT_A_TIME = 32

if __name__ == "__main__":
    with SLURMCluster(
        cores=TRIALS_AT_A_TIME,
        job_cpu=2,
        processes=1,
        memory="4GB",
        walltime="02:00:00",
        security=Security(require_encryption=True),
    ) as cluster:
        cluster.scale(jobs=JOBS)
        command = ("holodeck-action", "run", "--cluster", cluster.scheduler_address, *sys.argv[1:])
        ended = subprocess.run(command)
    sys.exit(ended.returncode)
