"""The command line in this process: exit code, stdout, stderr, and the sentence of a refusal."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

from dpdistill import cli


def dpdistill(*argv: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command, in this process."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["dpdistill", *map(str, argv)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
            cli.main()
    finally:
        sys.argv = before
    assert isinstance(end.value.code, int)
    return end.value.code, out.getvalue(), err.getvalue()


def succeeds(*argv: object) -> str:
    code, out, err = dpdistill(*argv)
    assert code == 0, out + err
    assert "Error" not in err
    return out


def refused(*argv: object) -> str:
    """The one sentence with which a command is refused."""
    code, out, err = dpdistill(*argv)
    assert code == 2, (out, err)
    assert re.sub(r"^Plan: .*\n", "", out) == "", "`plan` says what the recipe promises before DATA is read"
    note = "Classes default to 0-9: pass --classes to change.\n"
    sentence = re.sub(r"^Plan: .*\n", "", err.removeprefix(note), flags=re.MULTILINE)
    assert re.fullmatch(r"Error: [^\n]{8,}[.?!]\n", sentence), err
    return sentence.removeprefix("Error: ").strip()


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
