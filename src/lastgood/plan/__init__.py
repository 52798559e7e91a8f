"""Measurements and failure history in; an interval, a warning window and the mechanisms to use out."""
