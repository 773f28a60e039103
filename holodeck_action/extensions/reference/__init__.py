"""Our metrics beside the libraries that define them."""
