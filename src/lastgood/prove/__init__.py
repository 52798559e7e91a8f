"""Proofs: whether a job that was killed and resumed gives the same answer as one that was not."""
