"""Benchmarks: times as multiples of the bare libraries or of a smaller run, measured in the same session."""
