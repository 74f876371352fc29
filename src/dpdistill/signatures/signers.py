"""Signers whom a reader trusts: a public key, or a file `allowed_signers` of ssh-keygen with its options."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from dpdistill.schema import DataError
from dpdistill.signatures.keys import PublicKey, read_small
from dpdistill.signatures.sshsig import NAMESPACE
from dpdistill.storage.files import show

_KIND = r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[A-Za-z0-9@.-]+"
_KEY_LINE = re.compile(rf"({_KIND})\s+(\S+)(?:\s+(.*))?")
_SIGNER_LINE = re.compile(rf'("[^"]*"|[^\s"]+)\s+(?:((?:[^\s"]|"[^"]*")+)\s+)?({_KIND})\s+(\S+)(?:\s.*)?')
_OPTION = re.compile(r'([A-Za-z-]+)(?:="([^"]*)")?(?:,|$)')
_TIME = re.compile(r"(\d{8})(\d{4}(?:\d{2})?)?(Z?)")


@dataclass(frozen=True)
class Signer:
    """A key that a reader trusts.

    Args:
        name: its principals, or the comment of a public key.
        key: the public key.
        namespaces: patterns of purposes for which the key may sign; None for all.
        after: first moment at which its signatures are accepted, or None.
        before: first moment at which its signatures are accepted no more, or None.
    """

    name: str
    key: PublicKey
    namespaces: tuple[str, ...] | None = None
    after: datetime | None = None
    before: datetime | None = None

    def fault(self, now: datetime) -> str:
        """Returns why a signature by this key is not accepted at a moment; empty if it is."""
        if self.namespaces is not None and not _matches(NAMESPACE, self.namespaces):
            return f"its line allows other purposes than {NAMESPACE!r}"
        if self.after is not None and now < self.after:
            return "its line is valid only later"
        if self.before is not None and now >= self.before:
            return "its line is not valid any more"
        return ""


def read_signers(file: str | os.PathLike) -> tuple[Signer, ...]:
    """Returns the signers in a file: public keys, or lines of `allowed_signers` (see ssh-keygen(1)).

    Args:
        file: KEY.pub, or a file whose lines have principals, options and a key. The options `namespaces`,
            `valid-after` and `valid-before` are honoured; every other option is refused.

    Returns:
        The signers, in order; at least one.

    Raises:
        DataError: a missing file, a line of another form, an option that is not honoured, or no line with a key.
    """
    path = Path(file)
    text = read_small(path, "a public key or allowed_signers").decode("utf-8", "replace")
    if "PRIVATE KEY-----" in text:
        raise DataError(f"Expected a public key in --signer; {show(path)} holds a private one: state {path.name}.pub.")
    signers = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            signers.append(_signer(line.strip(), f"in line {number} of {show(path)}"))
    if not signers:
        raise DataError(f"Expected a public key in {show(path)}; it has no line with one.")
    return tuple(signers)


def _signer(line: str, where: str) -> Signer:
    if found := _KEY_LINE.fullmatch(line):
        key = PublicKey.parse(found[1], found[2], where)
        return Signer((found[3] or "").strip() or key.fingerprint, key)
    found = _SIGNER_LINE.fullmatch(line)
    if found is None:
        raise DataError(f"Expected principals, options and a public key {where}; it has another form.")
    key, options = PublicKey.parse(found[3], found[4], where), _options(found[2] or "", where)
    spaces = options.get("namespaces")
    return Signer(
        found[1].strip('"'),
        key,
        None if spaces is None else tuple(spaces.split(",")),
        *(_time(options.get(name), where) for name in ("valid-after", "valid-before")),
    )


def _options(text: str, where: str) -> dict[str, str]:
    options: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _OPTION.match(text, at)
        name = found[1].lower() if found else ""
        if found is None or name not in ("namespaces", "valid-after", "valid-before") or found[2] is None:
            shown = ascii(name or text[at:])[1:-1][:40]
            raise DataError(
                f"Expected the options namespaces, valid-after and valid-before {where}; {shown!r} is not honoured:"
                " remove that line, or use `ssh-keygen -Y verify`."
            )
        if name in options:
            raise DataError(f"Expected each option once {where}; {name!r} is there twice.")
        options[name], at = found[2], found.end()
    return options


def _time(text: str | None, where: str) -> datetime | None:
    """Returns a moment written as YYYYMMDD, YYYYMMDDHHMM or YYYYMMDDHHMMSS; "Z" is UTC, else it is local time."""
    if text is None:
        return None
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        day = datetime.strptime(f"{found[1]}{(found[2] or '').ljust(6, '0')}", "%Y%m%d%H%M%S")
        return day.replace(tzinfo=UTC) if found[3] else day.astimezone()
    except ValueError:
        raise DataError(f"Expected a time as 20260131 or 202601311200Z {where}; got {text!r:.40}.") from None


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Returns whether a name fits a list of patterns, as ssh-keygen reads it: one that begins with "!" excludes."""
    excluded = any(fnmatchcase(name, each[1:].strip()) for each in patterns if each.startswith("!"))
    return not excluded and any(fnmatchcase(name, each.strip()) for each in patterns if not each.startswith("!"))
