"""Prints of every mutant whether the check that is named for it kills it, one a line, to compare two versions.

python tests/mutants/list_mutants.py [the tests folder of another version, with its src on PYTHONPATH]
"""

import importlib
import re
import sys
from pathlib import Path

import pytest


def verdict(mutant, check, reason):
    """ "killed" if the check fails for its reason on the mutant, else what happened."""
    try:
        with mutant():
            check()
    except AssertionError as error:
        return "killed" if re.search(reason, str(error)) else "KILLED FOR ANOTHER REASON"
    except (Exception, pytest.fail.Exception) as error:
        return f"BROKEN: {type(error).__name__}"
    return "SURVIVES"


def main(tests):
    sys.path[:0] = [str(tests), str(tests / "mutants")]
    listed = importlib.import_module("test_mutants").MUTANTS
    verdicts = []
    for mutant, check, reason in listed:
        verdicts.append(verdict(mutant, check, reason))
        print(f"{verdicts[-1]:8} {mutant.__name__}  ({check.__name__})", flush=True)
    killed = verdicts.count("killed")
    print(f"{killed} of {len(listed)} mutants killed.")
    return killed != len(listed)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()))
