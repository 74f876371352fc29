"""TLS between owners and coordinator: owners connect outwards, and trust the certificate in the plan alone."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dpdistill.schema import DataError
from dpdistill.storage.files import show
from dpdistill.together.messages import MOST_BYTES, Malformed, Message, decode, encode

CERTIFICATE, KEY = "tls.pem", "tls.key"
SHAKE_SECONDS = 30.0
MOST_HELLO = 1 << 16
"""Largest message of a peer that has not shown who it is, in bytes."""
_YEARS = 10


class Lost(Exception):
    """A connection that ended, or that answered nothing in time."""


def new_certificate(folder: Path) -> str:
    """Returns a coordinator's TLS certificate, made with its key in the folder if there is none.

    Raises:
        DataError: the files cannot be written.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    path = folder / CERTIFICATE
    if not path.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dpdistill coordinator")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=2))  # clocks differ
            .not_valid_after(now + timedelta(days=365 * _YEARS))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(key, hashes.SHA256())
        )
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(folder / KEY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(key.private_bytes(*form))
            path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        except OSError as error:
            raise DataError(f"The certificate {show(path)} cannot be written: {error.strerror}.") from None
    return path.read_text()


def server_context(folder: Path, certificate: str) -> ssl.SSLContext:
    """Returns the coordinator's side of TLS 1.3.

    Raises:
        DataError: the folder has not the key of the plan's certificate.
    """
    wrong = f"Expected the TLS key of the plan in {show(folder)}: serve with the folder in which the plan was made."
    path = folder / CERTIFICATE
    if not path.exists() or path.read_text() != certificate:
        raise DataError(wrong)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        context.load_cert_chain(path, folder / KEY)
    except (OSError, ssl.SSLError):
        raise DataError(wrong) from None
    return context


def client_context(certificate: str) -> ssl.SSLContext:
    """Returns an owner's side of TLS 1.3, which trusts one certificate and no authority.

    Raises:
        DataError: no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is in the plan, whatever the name of the machine
    try:
        context.load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError):
        raise DataError("The plan has no TLS certificate of the coordinator.") from None
    return context


def split_address(address: str) -> tuple[str, int]:
    """Returns (host, port).

    Raises:
        DataError: another form than host:port.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 <= int(port) < 1 << 16:
        raise DataError(f"Expected an address host:port; got {address[:100]!r}.")
    return host.strip("[]"), int(port)


class Connection:
    """Messages over a socket: each is its length in 8 bytes, and that many bytes."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, option):
                channel.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def send(self, message: Message, seconds: float | None = None) -> None:
        """Sends a message.

        Raises:
            Lost: the connection ended.
        """
        content = encode(message)
        try:
            self._channel.settimeout(seconds)
            self._channel.sendall(len(content).to_bytes(8, "big"))
            self._channel.sendall(content)
        except OSError:
            raise Lost from None

    def receive(self, seconds: float | None = None, most: int = MOST_BYTES) -> Message:
        """Returns the next message.

        Raises:
            Lost: the connection ended, or nothing came for some seconds.
            Malformed: another form.
        """
        try:
            self._channel.settimeout(seconds)
            size = int.from_bytes(self._exactly(8), "big")
            if size > most:
                raise Malformed("a message that is too large")
            return decode(self._exactly(size))
        except OSError:
            raise Lost from None

    def _exactly(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            part = self._channel.recv(min(left, 1 << 20))
            if not part:
                raise Lost
            parts.append(part)
            left -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        """Ends the connection; closing twice is allowed."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()


def connect(address: str, context: ssl.SSLContext) -> Connection:
    """Returns an owner's connection to the coordinator.

    Raises:
        Lost: no coordinator answers there.
        DataError: the coordinator has another certificate than the plan's.
    """
    try:
        channel = socket.create_connection(split_address(address), timeout=SHAKE_SECONDS)
    except OSError:
        raise Lost from None
    try:
        return Connection(context.wrap_socket(channel))
    except ssl.SSLCertVerificationError:
        channel.close()
        raise DataError(
            f"The coordinator at {address} has another TLS certificate than the plan's: nothing was sent to it; ask "
            "who made the plan."
        ) from None
    except OSError:
        channel.close()
        raise Lost from None
