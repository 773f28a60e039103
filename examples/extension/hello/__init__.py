"""An extension of holodeck-action in a package of its own."""
