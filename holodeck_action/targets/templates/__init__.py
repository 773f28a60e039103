"""Templates that render requests and prompts, and JSONPaths that extract replies."""
