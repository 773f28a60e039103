"""Scripts that build generated files of the repository. Run each as a module from the root."""
