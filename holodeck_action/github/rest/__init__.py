"""GitHub's API: requests, answers, and how they are asked for again."""
