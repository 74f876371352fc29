"""What leaves the private room beside its releases: nothing."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pickle
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import jax
import numpy as np
from contract.data import SCHEMA, make_records
from contract.private.curators import NOISE, full_batches, grid_of, integer_sum, make_curator, memory_ledger
from contract.private.queries import FlatLinear, FlatQuery, MixingEncoder, PrintingQuery

from dpdistill.accounting.schedule import Budget, Schedule
from dpdistill.errors import CuratorError, Unanswered
from dpdistill.ledger.run import RunLedger
from dpdistill.query import Stage
from dpdistill.storage.records import Records

FAILED = "Round 0 could not be answered and released nothing; the budget of the run stays reserved."


def check_speech_is_refused() -> None:
    """A contribution that prints is refused before a record is read."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        try:
            make_curator(make_records(3)).release(0, PrintingQuery(), None)
            jax.effects_barrier()
        except CuratorError as error:
            said = str(error)
        else:
            raise AssertionError("A query that prints was answered.")
    assert said.startswith("The query is refused: it has "), "The query failed for another reason."
    assert not heard.getvalue(), "The query spoke before it was refused."


@contextlib.contextmanager
def everything_said() -> Iterator[dict[str, list[str]]]:
    """What is said meanwhile: on file descriptors 1 and 2, on Python's streams, in logs of any level, in warnings.

    JAX's own logs below a warning are left out: they tell of compilations, hence of chunks, at the level of debugging.
    """
    said: dict[str, list[str]] = {"file descriptor 1": [], "file descriptor 2": [], "stdout": [], "stderr": []}
    said |= {"logging": [], "warnings": []}

    def log(logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING or record.name.split(".")[0] != "jax":
            said["logging"].append(f"{record.name}: {record.getMessage()}")

    streams, level, disabled = (io.StringIO(), io.StringIO()), logging.root.level, logging.root.manager.disable
    with contextlib.ExitStack() as stack:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        files = {fd: stack.enter_context(tempfile.TemporaryFile()) for fd in (1, 2)}
        kept = {fd: os.dup(fd) for fd in files}
        try:
            logging.root.setLevel(1)
            logging.disable(logging.NOTSET)
            for fd, file in files.items():
                os.dup2(file.fileno(), fd)
            with (
                mock.patch.object(logging.Logger, "callHandlers", log),
                warnings.catch_warnings(record=True) as warned,
                contextlib.redirect_stdout(streams[0]),
                contextlib.redirect_stderr(streams[1]),
            ):
                warnings.simplefilter("always")
                yield said
                jax.effects_barrier()
            for stream in filter(None, (sys.__stdout__, sys.__stderr__)):
                stream.flush()
        finally:
            logging.root.setLevel(level)
            logging.disable(disabled)
            for fd, copy in kept.items():
                os.dup2(copy, fd)
                os.close(copy)
        said["warnings"] += [str(warning.message) for warning in warned]
        for fd, file in files.items():
            file.seek(0)
            said[f"file descriptor {fd}"] += file.read().decode(errors="replace").splitlines()
    for name, stream in zip(("stdout", "stderr"), streams, strict=True):
        said[name] += stream.getvalue().splitlines()


def check_releases_are_silent() -> None:
    """The curator says nothing while it reads records, whatever they hold and however many are sampled."""
    records = make_records(40)
    X = np.array(records.X)
    X[3, 0, 0, 0], X[7], X[11], X[12] = np.nan, np.inf, -3e38, 1e-40
    records = Records(X, records.y, SCHEMA)
    assert 0 < (records.y < 0).sum() < 40
    queries = (FlatQuery(), FlatQuery(by_class=False, encoder=MixingEncoder()), FlatLinear())
    stages = tuple(Stage(len(queries), q) for q in (1.0, 0.5, 1e-12))
    schedule = Schedule(stages, (NOISE,) * len(stages), Budget(1.0))
    asked = make_curator(records, schedule, chunk=16)
    with everything_said() as said:
        releases = [asked.release(t, queries[t % len(queries)], np.float32(1.0)) for t in range(schedule.rounds)]
    for where, words in said.items():
        assert not words, f"The curator speaks by way of {where}: {words}"
    assert all(np.isfinite(release.value).all() for release in releases), "The sum is not finite."


def check_errors_say_nothing(error_in: str = "dpdistill.private.curator.rounded_gaussian") -> None:
    """What goes wrong after loading ends in a fixed sentence without cause, context or shapes; nothing is paid."""
    schedule = full_batches()
    ledger = memory_ledger(schedule)
    asked = make_curator(make_records(5), schedule, ledger=ledger)
    with mock.patch(error_in, side_effect=OSError("an array of shape (5, 8, 8, 1)")):
        try:
            asked.release(0, FlatQuery(), 1.0)
        except Exception as error:
            caught = error
        else:
            raise AssertionError("The failure was swallowed.")
    assert type(caught) is Unanswered, "The error is of another type."
    assert str(caught) == FAILED, "The error says something else."
    assert caught.__cause__ is None, "The error shows its cause."
    assert caught.__context__ is None, "The error shows its context."
    assert "(5," not in "".join(traceback.format_exception(caught)), "The traceback shows a shape."
    assert ledger.events() == (), "A round that failed is paid."
    assert asked.release(0, FlatQuery(), 1.0).round == 0


def check_nothing_is_pickled() -> None:
    """Records and curators refuse to be pickled, and show nothing of themselves."""
    records = make_records(5)
    for secret in (records, make_curator(records)):
        try:
            pickle.dumps(secret)
        except TypeError:
            pass
        else:
            raise AssertionError(f"{type(secret).__name__} was pickled.")
        for shown in (repr(secret), str(secret), f"{secret}"):
            assert "0." not in shown, "A record is shown."
            assert "5" not in shown, "The number of records is shown."


def check_ledger_holds_no_plain_sum(folder: Path) -> None:
    """The owner's ledger keeps the noised value only."""
    records, query = make_records(9), FlatQuery()
    plain = integer_sum(records, query, 1.0)
    step = grid_of(query, 1.0, records.schema).step
    schedule = full_batches()
    with RunLedger.open(folder, {}, schedule, b"d" * 32) as ledger:
        value = make_curator(records, schedule, ledger=ledger).release(0, query, np.float32(1.0)).value
    content = b"".join(path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file())
    assert value.tobytes() in content, "The noised value is not in the ledger."
    for trace in (plain, plain * step, (plain * step).astype(np.float32), plain.astype(np.int32)):
        row = np.ascontiguousarray(trace[0]).tobytes()
        assert np.count_nonzero(trace[0]) > 10
        assert row not in content, "The plain sum is in the ledger."
