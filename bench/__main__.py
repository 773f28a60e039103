"""All benchmarks, one after the other: `make bench`."""

from bench import comparisons, judges, metrics, runs, startup, wire

startup.main()
runs.main()
wire.main()
metrics.main()
judges.main()
comparisons.main()
