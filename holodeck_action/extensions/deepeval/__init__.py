"""DeepEval's metrics, graded by models over our own wire."""
