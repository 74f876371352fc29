"""A disk that is full from a chosen write on, in this process: files, folders, links and SQLite below one folder."""

from __future__ import annotations

import builtins
import errno
import io
import os
import re
import sqlite3
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock


class FullDisk:
    """Fills at the first write of a kind that it has not filled at before; from then on no write of that command works.

    Args:
        folder: where it is; other folders have room.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.kinds = str(folder), list[str]()
        self.full = False

    def grow(self, what: str, path: object) -> None:
        """A write of something to a path."""
        name = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
        if not name.startswith(self.folder):
            return
        kind = f"{what} {re.sub('[0-9a-f]{16,}|[0-9]+|key-.*', '#', Path(name).name)}"
        if not self.full and kind not in self.kinds:
            self.kinds.append(kind)
            self.full = True
        if self.full:
            if what.startswith("sql"):
                raise sqlite3.OperationalError("database or disk is full")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    @contextmanager
    def __call__(self):
        """The disk of one command."""
        self.full = False
        with ExitStack() as stack:
            for where, name, made in self._patches():
                stack.enter_context(mock.patch.object(where, name, made))
            yield

    def _patches(self):
        grow, open_file, connect = self.grow, io.open, sqlite3.connect

        class Raw(io.FileIO):
            def write(self, data, /):
                grow("write", self.name)
                return super().write(data)

        def opened(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, closefd=True, opener=None):
            inside = isinstance(file, str | os.PathLike) and os.fsdecode(file).startswith(self.folder)
            if not inside or not set(mode) & set("wxa+"):
                return open_file(file, mode, buffering, encoding, errors, newline, closefd, opener)
            grow("open", file)
            raw = Raw(os.fspath(file), mode.replace("b", "").replace("t", ""), closefd, opener)
            binary = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return binary if "b" in mode else io.TextIOWrapper(binary, encoding or "utf-8", errors, newline)

        class Database(sqlite3.Connection):
            place, wrote = "", False

            def execute(self, sql, *args, **more):
                word = re.match(r"(CREATE|INSERT INTO|UPDATE|COMMIT)( \w+)?", sql)
                self.wrote = not sql.startswith("BEGIN") and (self.wrote or (bool(word) and sql != "COMMIT"))
                if word and self.wrote:
                    grow(f"sql {word[0]}", self.place)
                return super().execute(sql, *args, **more)

        def connected(database, *args, **more):
            db = connect(database, *args, factory=Database, **more)
            db.place = os.fsdecode(database)
            return db

        def before(what, function):  # a folder that is there needs no room
            def growing(path, *args, **more):
                if what != "mkdir" or not os.path.exists(path):
                    grow(what, args[0] if what in ("link", "rename") else path)
                return function(path, *args, **more)

            return growing

        def os_open(path, flags, *args, _open=os.open, **more):
            if flags & os.O_CREAT and not os.path.exists(path):
                grow("create", path)
            return _open(path, flags, *args, **more)

        yield io, "open", opened
        yield builtins, "open", opened
        yield sqlite3, "connect", connected
        yield os, "open", os_open
        for what, name in (("mkdir", "mkdir"), ("link", "link"), ("rename", "replace")):
            yield os, name, before(what, getattr(os, name))
