"""Scripts that build the data kept in the repository: run each as a module from its root."""
