"""What a launcher must know of each scheduler; one module each."""
