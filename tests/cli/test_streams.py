"""Output that cannot be written, and a device that JAX does not find: a sentence and an exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpdistill.cli import main, terminal
from dpdistill.cli.streams import UNWRITTEN, lasting_streams

FULL = Path("/dev/full")
DONE = "Error: Standard output cannot be written: No space left on device. The command did its work, but some of its"


def ended(monkeypatch, *arguments: str) -> int:
    """The exit code of a command line in this process."""
    monkeypatch.setattr(sys, "argv", ["dpdistill", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    return int(stopped.value.code or 0)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["account", "--epsilon", "1"], ["methods", "--json"], ["methods"]],
    ids=" ".join,
)
def test_every_command_says_that_its_output_is_lost(monkeypatch, capsys, arguments):
    with FULL.open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert ended(monkeypatch, *arguments) == UNWRITTEN == 74
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(DONE)
    assert "Traceback" not in "".join(said)


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize(("code", "expected"), [(0, 74), (1, 1), (130, 130)])
def test_a_command_ends_its_work_before_it_says_so(monkeypatch, capsys, tmp_path, code, expected):
    """A full disk behind stdout stopped a run that was paid for; a check that failed still ends with its own code."""

    def command(standalone_mode):
        terminal.say("a line that is lost")
        terminal.note("a note")
        (tmp_path / "result").write_text("whole")
        return code

    with FULL.open("w") as full, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", full)
        with lasting_streams() as final:
            assert final(terminal.run_app(command)) == expected
    assert (tmp_path / "result").read_text() == "whole"
    assert "a note" in capsys.readouterr().err


def test_a_reader_that_stops_early_changes_no_exit_code(monkeypatch, capsys):
    for code in (0, 1):
        read, write = os.pipe()
        os.close(read)
        with open(write, "w") as pipe, monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", pipe)
            with lasting_streams() as final:
                assert (
                    final(terminal.run_app(lambda standalone_mode, code=code: terminal.say("a line") or code)) == code
                )
    assert capsys.readouterr().err == ""


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
def test_an_error_stream_that_is_full_or_closed_stops_nothing(monkeypatch, capsys):
    with FULL.open("w") as full:
        for stream in (full, None):
            with monkeypatch.context() as patch:
                patch.setattr(sys, "stderr", stream)
                assert ended(patch, "account", "--epsilon", "-1") == terminal.REFUSED
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert ended(patch, "--version") == terminal.DONE


@pytest.mark.slow
def test_a_device_that_this_machine_lacks(tmp_path):
    """JAX raises an AssertionError without a word for cuda, and a RuntimeError for other names."""
    line = [
        sys.executable,
        "-m",
        "dpdistill",
        "distill",
        "digits:train",
        "--epsilon",
        "1",
        "--out",
        str(tmp_path / "out"),
    ]
    command = subprocess.run(
        line, env=os.environ | {"JAX_PLATFORMS": "abacus"}, capture_output=True, text=True, check=False
    )
    assert command.returncode == terminal.REFUSED
    assert command.stderr.splitlines()[-1] == (
        "Error: JAX cannot compute on JAX_PLATFORMS=abacus, which this machine lacks: set JAX_PLATFORMS=cpu, or unset "
        "it. This command paid nothing."
    )
    assert "Traceback" not in command.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stated", ["cuda", None])
def test_whatever_jax_raises_without_a_device(monkeypatch, capsys, stated):
    import jax

    def devices():
        raise AssertionError

    def command(standalone_mode):
        raise AssertionError

    monkeypatch.setenv("JAX_PLATFORMS", stated) if stated else monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    assert terminal.run_app(command) == terminal.CRASHED
    capsys.readouterr()
    monkeypatch.setattr(jax, "devices", devices)
    assert terminal.run_app(command) == terminal.REFUSED
    where = "on JAX_PLATFORMS=cuda, which this machine lacks" if stated else "on any device of this machine"
    assert f"Error: JAX cannot compute {where}: set JAX_PLATFORMS=cpu" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, terminal.STOPPED), (signal.SIGTERM, terminal.TERMINATED)])
def test_a_request_to_end_in_a_callback_of_the_garbage_collector_ends_the_command(number, code):
    class Collected:
        def __del__(self):
            signal.raise_signal(number)

    def command(standalone_mode):
        Collected()
        time.sleep(30)

    # A background job of a shell begins with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    try:
        assert terminal.run_app(command) == code
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 20
