"""The command line: one thin module per command; `wiring` is the only place that joins the layers."""
