"""The command line as `python -m dpdistill`."""

from dpdistill.cli import main

if __name__ == "__main__":
    main()
