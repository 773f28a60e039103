"""Tools that search documents, for the model of a suite."""
