"""The order service of Larkfield Coffee."""
