"""One module per framework, imported only when the job uses that framework."""
