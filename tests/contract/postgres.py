"""A real PostgreSQL server for the tests that need one, which asks for a password and ends with them."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

PASSWORD = "s3cr3t-Pa55"


def programs() -> Path | None:
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists() and (folder / "initdb").exists()), None)


@contextmanager
def postgres_server(place, encoding="UTF8"):
    """The address of a server whose files lie in a folder of their own.

    Args:
        place: an empty folder, for a process that is not root's.
        encoding: of its databases.
    """
    pytest.importorskip("psycopg", reason="the extra dpdistill[sql] is not installed")
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    user = None
    if os.getuid() == 0:  # the server refuses to run as root
        try:
            user = pwd.getpwnam("postgres").pw_name
        except KeyError:
            pytest.skip("PostgreSQL's server does not run as root, and there is no user postgres")
    folder = Path(tempfile.mkdtemp(prefix="dpdistill-postgres-", dir=None if user else place))
    secret = folder / "secret"
    secret.write_text(PASSWORD)
    if user:
        shutil.chown(folder, user)
        shutil.chown(secret, user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def run(*argv):
        subprocess.run(argv, check=True, user=user, cwd=folder, capture_output=True, timeout=120, env={"LC_ALL": "C"})

    data, log = folder / "data", folder / "log"
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    try:
        auth = ("-U", "anna", "-A", "scram-sha-256", f"--pwfile={secret}", "--no-sync", "-E", encoding, "--locale=C")
        run(found / "initdb", "-D", data, *auth)
        run(found / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql://anna:{PASSWORD}@127.0.0.1:{port}/postgres"
        finally:
            run(found / "pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
