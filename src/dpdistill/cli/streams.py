"""Output streams that never raise: a full disk or a closed pipe must not end a paid run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpdistill.cli.terminal import DONE, warn

UNWRITTEN = 74
"""Exit code of a command that did its work but could not print its result (EX_IOERR of sysexits.h)."""


class LastingStream:
    """Stream that records its first failure instead of raising, and drops all later output.

    Args:
        stream: the wrapped text stream, which provides all other attributes.

    Attributes:
        failure: the first failure, or None.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.failure: OSError | None = None

    def write(self, text: str) -> int:
        self._try(self._stream.write, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, call: Callable[..., Any], *values: str) -> None:
        if self.failure is not None:
            return
        try:
            call(*values)
        except OSError as error:
            self.failure = error
            self._discard_buffer()

    def _discard_buffer(self) -> None:
        """Redirects the stream's buffered text, so that Python's flush at exit cannot fail again."""
        with suppress(OSError, ValueError):
            number = self._stream.fileno()
            with open(os.devnull, "w") as nothing:
                os.dup2(nothing.fileno(), number)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def lasting_streams() -> Iterator[Callable[[int], int]]:
    """Wraps standard output and error in lasting streams.

    Yields:
        A function from a command's exit code to the process's: UNWRITTEN if the command succeeded and its output could
        not be written. A reader that stops early (`| head`) is no failure.
    """
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (None if stream is None else LastingStream(stream) for stream in (out, err))  # type: ignore
    try:
        yield _exit_code
    finally:
        sys.stdout, sys.stderr = out, err


def _exit_code(code: int) -> int:
    if sys.stdout is None:  # closed by the caller, who wants no output
        return code
    sys.stdout.flush()
    failure = getattr(sys.stdout, "failure", None)
    if failure is None or isinstance(failure, BrokenPipeError):
        return code
    reason = failure.strerror or "input/output error"
    done = "The command did its work" if code == DONE else f"The command ended with code {code}"
    warn(f"Error: Standard output cannot be written: {reason}. {done}, but some of its output is lost.")
    return UNWRITTEN if code == DONE else code
