"""Runs all benchmarks, one after the other: `make bench`."""

from bench import case_tables, certain, comparisons, goals, judges, metrics, recorded, runs, startup, variants, wire

startup.main()
recorded.main()
case_tables.main()
runs.main()
wire.main()
metrics.main([], standalone_mode=False)
judges.main()
comparisons.main()
certain.main()
variants.main()
goals.main([], standalone_mode=False)
