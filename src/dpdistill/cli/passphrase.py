"""Asks for the passphrase of a key, and prints what a key signed."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING

from dpdistill.cli.terminal import give, say
from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.signatures.keys import SigningKey

VARIABLE = "DPDISTILL_PASSPHRASE"
"""Environment variable with the passphrase, for scripts."""


def passphrase(twice: bool = False) -> str:
    """Returns the passphrase from the environment, or from the terminal.

    Raises:
        DataError: there is no terminal, or two entries differ.
    """
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if not sys.stdin.isatty():
        raise DataError(f"Expected the key's passphrase in the variable {VARIABLE}, as there is no terminal to ask on.")
    entered = getpass("Passphrase of the key: ")
    if twice and getpass("The same again: ") != entered:
        raise DataError("Expected the same passphrase twice; the two differ.")
    return entered


def unlocked(key: str) -> SigningKey:
    """Returns a private key, after asking for its passphrase if the key has one."""
    from dpdistill.signatures.keys import is_encrypted, read_signing_key

    return read_signing_key(key, passphrase() if is_encrypted(key) else None)


def say_signed(folder: Path, signatures: list[Path], key: SigningKey) -> None:
    """Prints the files of new signatures, and the key's fingerprint."""
    give(signatures=[str(path) for path in signatures], key=key.public.fingerprint)
    say(f"{folder.resolve().name} is signed with the key {key.public.fingerprint}, in {signatures[0].name}.")
