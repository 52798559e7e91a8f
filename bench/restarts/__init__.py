"""From SIGKILL to the first new step: the same training, restarted in different ways."""
