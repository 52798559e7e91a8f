"""Reports: what became of a job, from its journals, for a terminal, a browser or another program."""
