"""All benchmarks, one after the other: `make bench`."""

from bench import metrics, runs, startup, wire

startup.main()
runs.main()
wire.main()
metrics.main()
