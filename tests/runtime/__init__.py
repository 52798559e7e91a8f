"""The job side of the library, as programs use it."""
