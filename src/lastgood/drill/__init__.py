"""Drills: failures caused on purpose in a job, what they cost, and whether it came through."""
