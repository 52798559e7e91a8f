"""Frameworks: what of them can be state, and whole jobs that use them."""
