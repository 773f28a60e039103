"""Templates of requests, and JSONPaths that extract replies."""
