"""Makes keys, and signs shared folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from dpdistill.schema import DataError

if TYPE_CHECKING:
    from dpdistill.signatures.keys import SigningKey


def new_key(file: str | os.PathLike, passphrase: str | None, comment: str = "") -> Path:
    """Makes an Ed25519 key pair in OpenSSH's formats, as `dpdistill key new` does.

    Args:
        file: path of the private key; the public key is in FILE.pub. Neither file may exist.
        passphrase: encrypts the private key, at least 8 characters; None leaves it readable for all who have the file.
        comment: words at the end of the public key's line, such as the name of the signer.

    Returns:
        The path of FILE.pub, which receivers need.

    Raises:
        DataError: a short passphrase, an existing file, a shared folder, or a file that cannot be written.

    Example:
        >>> new_key("owner.key", "correct horse battery", "owner@hospital")  # doctest: +SKIP
        PosixPath('owner.key.pub')
    """
    from dpdistill.signatures.keys import new_key

    return new_key(file, passphrase, comment)


def sign(
    folder: str | os.PathLike,
    key: str | os.PathLike | SigningKey,
    *,
    passphrase: str | None = None,
    signer: str | None = None,
) -> list[Path]:
    """Signs a shared folder: detached OpenSSH signatures over certificate.json and documents.sha256.

    A signature says who signed the files, never what was run.

    Args:
        folder: the shared folder, which `verify` does not fail.
        key: file of an Ed25519 private key, or a key that was read.
        passphrase: of that file; None without one.
        signer: name of a further signer, for certificate.json.NAME.sig; None for the owner's certificate.json.sig.

    Returns:
        Paths of the signatures.

    Raises:
        DataError: a folder that `verify` fails, a key that cannot be used, or documents that changed since others
            signed them.

    Example:
        >>> sign("shared", "officer.key", passphrase="correct horse", signer="officer")  # doctest: +SKIP
    """
    from dpdistill.folder.layout import CERTIFICATE, signature_name
    from dpdistill.signatures.folder import NAMES, sign_folder
    from dpdistill.signatures.keys import SigningKey, read_signing_key
    from dpdistill.storage.files import show
    from dpdistill.verification import verify

    path = Path(folder)
    signature_name(CERTIFICATE, signer)
    private = key if isinstance(key, SigningKey) else read_signing_key(key, passphrase)
    checks = verify(path).checks  # Documents that a publisher completed since an earlier signature are signed again.
    fault = next((each for each in checks if each.passed is False and each.name not in NAMES), None)
    if fault is not None:
        raise DataError(f"Expected a folder that verify does not fail; {show(path)}: {fault.name}: {fault.detail}")
    return sign_folder(path, private, signer)
