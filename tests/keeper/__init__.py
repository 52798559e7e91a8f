"""The keeper: its protocol, its memory, its desk, and the process itself."""
