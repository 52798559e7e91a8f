"""Campaigns that break the store in every way that we know of, and check what is left."""
