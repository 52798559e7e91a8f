"""Trials: a user's command run in a directory of its own, watched, for drills and proofs."""
