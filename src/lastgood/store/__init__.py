"""Where checkpoints live: atomic commit, verified reading, retention. Knows nothing of processes."""
