"""`python -m fumehood` and the `fumehood` command."""

from fumehood.cli.main import main

if __name__ == "__main__":
    main()
