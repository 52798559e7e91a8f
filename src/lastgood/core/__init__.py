"""Pure values and decisions: no file, process, clock or network. Everything else stands on this."""
