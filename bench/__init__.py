"""Benchmarks: ratios measured in one run, against the bare libraries or a smaller run of our own."""
