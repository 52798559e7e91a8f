"""For tests: that a job gives the same answer after it was killed and resumed."""
