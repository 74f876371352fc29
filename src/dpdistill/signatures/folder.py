"""Signs a shared folder, and says who signed one.

Two files are signed: certificate.json, which has the hash of every file that a run computes, and documents.sha256,
which has the hash of each other file. A certificate cannot hold the hashes of its documents: croissant.json states the
hash of the certificate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from dpdistill.certificate.check import Check, plain
from dpdistill.folder.layout import (
    CERTIFICATE,
    SUMS,
    UNLISTED,
    is_plain,
    is_signing,
    list_files,
    read_object,
    sha256,
    signature_name,
    signer_of,
)
from dpdistill.schema import DataError
from dpdistill.signatures.keys import SigningKey, read_small
from dpdistill.signatures.signers import Signer
from dpdistill.signatures.sshsig import fault, read_signature, sign
from dpdistill.storage.atomic import write_atomically, writing
from dpdistill.storage.files import is_hidden, show

SIGNED = (CERTIFICATE, SUMS)
"""Files of a folder that each signer signs."""
NOT_SIGNED = "NOT SIGNED"
NAMES = ("documents", "signatures", "signature", "signed")
"""Names of the checks of signatures."""
WHO = "A signature says who signed these files, never what was run."
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)")


def sign_folder(folder: Path, key: SigningKey, name: str | None = None) -> list[Path]:
    """Writes the detached signatures of a shared folder, and documents.sha256.

    Args:
        folder: the shared folder.
        key: the signer's key.
        name: name of a further signer, whose files are certificate.json.NAME.sig and documents.sha256.NAME.sig.

    Returns:
        Paths of the signatures.

    Raises:
        DataError: no certificate, a folder that cannot be written, or documents that changed since others signed them.
    """
    paths = [folder / signature_name(signed, name) for signed in SIGNED]
    content = _sums(folder)
    others = [each for each in list_files(folder) if signer_of(each) and folder / each not in paths]
    present = read_small(folder / SUMS, SUMS) if (folder / SUMS).is_file() else None
    if others and content != present:
        raise DataError(
            f"The documents of {show(folder)} changed since {others[0]} was made, which would not hold any more: "
            "remove the signatures of others, and let them sign again."
        )
    with writing(folder):
        if content != present:
            write_atomically(folder / SUMS, lambda file: file.write(content))
        for signed, path in zip(SIGNED, paths, strict=True):
            signature = sign((folder / signed).read_bytes(), key)
            write_atomically(path, lambda file, text=signature: file.write(text))
    return paths


def _sums(folder: Path) -> bytes:
    """Returns documents.sha256: the hash of certificate.json, and of each file that the certificate does not list."""
    files = read_object(folder / CERTIFICATE).get("files", {})
    names = [name for name in list_files(folder) if name not in files and not is_signing(name)]
    names = [name for name in names if not any(map(is_hidden, name.split("/")))]
    if faults := [name for name in names if not is_plain(folder / name) or not name.isprintable()]:
        raise DataError(f"Expected regular files with printable names to sign; {faults[0]!r:.80} is none.")
    return "".join(f"{sha256(folder / name)}  {name}\n" for name in names).encode()


def check_signatures(folder: Path, signers: tuple[Signer, ...] | None) -> Iterator[Check]:
    """Checks documents.sha256, and who signed the folder.

    Args:
        folder: the shared folder, untrusted.
        signers: trusted signers; None if the reader stated none: then no signature is checked.
    """
    try:
        names = [name for name in list_files(folder) if is_signing(name)]
        if SUMS in names:
            yield _check_sums(folder)
        signatures = [name for name in names if name != SUMS]
        if signers is None:
            if signatures:
                yield Check("signatures", None, f"{_listed(signatures)} not checked: state --signer KEY.pub.")
            return
        yield from _check_signers(folder, signatures, signers)
    except (OSError, DataError) as error:
        detail = plain(error, 300) if isinstance(error, DataError) else "A signature cannot be read."
        yield Check("signatures", False, detail)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return plain(f"{shown} {'was' if len(names) == 1 else 'were'}", 200)


def _check_sums(folder: Path) -> Check:
    """Compares the documents with documents.sha256; a document that was left out is no fault."""
    if not is_plain(folder / SUMS):
        return Check("documents", False, f"Expected a regular file {SUMS}.")
    lines = read_small(folder / SUMS, SUMS).decode("utf-8", "replace").splitlines()
    entries = [found for line in lines if (found := _LINE.fullmatch(line))]
    listed = {found[2]: found[1] for found in entries}
    if len(listed) != len(lines) or CERTIFICATE not in listed:
        return Check("documents", False, f"{SUMS} is not of the form that `dpdistill sign` writes.")
    present = {name for name in list_files(folder) if is_plain(folder / name)}
    faults = [f"{name} was changed" for name in listed if name in present and sha256(folder / name) != listed[name]]
    faults += [f"{name} was added" for name in UNLISTED if name in present and name not in listed]
    if faults:
        return Check("documents", False, f"After {SUMS} was written, {plain('; '.join(faults[:3]), 200)}.")
    missing = len(listed.keys() - present)
    left_out = f"; {missing} of {len(listed)} are not here" if missing else ""
    return Check("documents", True, f"The SHA-256 of all files in {SUMS} agree{left_out}.")


def _check_signers(folder: Path, names: list[str], signers: tuple[Signer, ...]) -> Iterator[Check]:
    """Yields one check per signature, and whether a trusted signer signed both files."""
    now, signed_by, others = datetime.now(UTC), {}, []
    for name in names:
        signed = (signer_of(name) or ("",))[0]
        if not (is_plain(folder / name) and is_plain(folder / signed)):
            yield Check("signature", False, f"{name}: expected regular files {name} and {signed}.")
            continue
        try:
            signature = read_signature(read_small(folder / name, "a signature"))
            why = fault(signature, (folder / signed).read_bytes())
        except DataError as error:
            yield Check("signature", False, plain(f"{name}: {error}", 300))
            continue
        key = signature.key.fingerprint
        if why:
            yield Check("signature", False, plain(f"{name} does not hold: {why} (key {key}).", 300))
            continue
        trusted = [each for each in signers if each.key == signature.key]
        faults = [why for each in trusted if (why := each.fault(now))]
        if len(faults) < len(trusted):
            who = next(each for each in trusted if not each.fault(now)).name
            signed_by.setdefault((who, key), set()).add(signed)
            yield Check("signature", True, plain(f"{name}: {signed} is signed by {who} (key {key}).", 300))
        else:
            reason = faults[0] if faults else "--signer does not name this key"
            others.append(key)
            yield Check("signature", None, plain(f"{name}: signed by the key {key}, not accepted: {reason}.", 300))
    yield _signed(signed_by, others)


def _signed(signed_by: dict[tuple[str, str], set[str]], others: list[str]) -> Check:
    complete = [f"{who} (key {key})" for (who, key), files in signed_by.items() if files == set(SIGNED)]
    if complete:
        return Check("signed", True, plain(f"SIGNED by {' and by '.join(complete)}. {WHO}", 600))
    if signed_by:
        partly = f"{NOT_SIGNED} completely: a signer stated by --signer signed only one of {' and '.join(SIGNED)}."
        return Check("signed", False, partly)
    other = f" The signatures are of other keys: {', '.join(sorted({*others})[:3])}." if others else ""
    return Check("signed", False, plain(f"{NOT_SIGNED} by a signer that --signer states.{other}", 300))
