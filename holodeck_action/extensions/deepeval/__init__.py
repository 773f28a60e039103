"""DeepEval's metrics, whose judges are called over this program's own connections."""
