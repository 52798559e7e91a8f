"""The faults that need nothing but processes and files."""
