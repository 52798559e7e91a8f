"""Inside the job: the `Run` object, safe points, signals, agreement of ranks, position in the data."""
