"""Around the job: the supervisor, its attempts, their processes, evidence of how they ended."""
