"""Kubernetes manifests of batch work, with the place of each value in its file."""
