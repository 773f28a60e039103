"""All benchmarks, one after the other: `make bench`."""

from bench import metrics, runs, startup

startup.main()
runs.main()
metrics.main()
