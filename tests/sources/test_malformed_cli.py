"""All malformed inputs through the command line: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import malformed
import pytest

from dpdistill import cli

CASES = list(malformed.cases())


def command(source: str, options: dict, out: Path) -> list[str]:
    return [
        "dpdistill",
        "distill",
        *(f"--{name}={value}" for name, value in options.items()),
        "--out",
        str(out),
        source,
    ]


def test_all_of_them_in_one_process(tmp_path, monkeypatch):
    passed = 0
    for number, (name, says, build) in enumerate(CASES):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "in").mkdir()
        argv = command(*build(place / "in"), place / "out")
        if any("\0" in word for word in argv):  # no shell can pass it
            continue
        monkeypatch.setattr(sys, "argv", argv)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as end:
            cli.main()
        said = err.getvalue()
        assert end.value.code == 2, (name, said)
        assert out.getvalue() == "", name
        assert said.startswith("Error: "), (name, said)
        assert says in said, (name, said)
        assert said.count("\n") == 1, (name, said)
        assert said.rstrip("\n").isprintable(), (name, said)
        assert "Traceback" not in said, name
        assert [path.name for path in place.iterdir()] == ["in"], name
        passed += 1
    assert passed >= 400
