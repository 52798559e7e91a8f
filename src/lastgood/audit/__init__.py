"""Before a job runs: what a failure would cost it, read from its scripts, manifests and the scheduler's policy."""
