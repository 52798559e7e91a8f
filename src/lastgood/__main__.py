"""`python -m lastgood`: the same as the `lastgood` command."""

from lastgood.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
