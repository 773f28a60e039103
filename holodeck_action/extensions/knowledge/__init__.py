"""Search in documents as tools of the suite's own model: pieces of documents, and how they are found."""
