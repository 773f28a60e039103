"""All benchmarks, one after the other: `make bench`."""

from bench import case_tables, comparisons, judges, metrics, recorded, runs, startup, wire

startup.main()
recorded.main()
case_tables.main()
runs.main()
wire.main()
metrics.main()
judges.main()
comparisons.main()
