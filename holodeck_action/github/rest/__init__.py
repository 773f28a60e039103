"""Client for GitHub's API: requests, responses and retries."""
