"""The coordinator's listener: lets in owners of the plan, one connection each, and asks all of them at once."""

from __future__ import annotations

import logging
import secrets
import socket
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dpdistill.schema import DataError
from dpdistill.together.messages import Malformed, Message, field
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.statements import HELLO, is_signed
from dpdistill.together.tls import MOST_HELLO, SHAKE_SECONDS, Connection, Lost, server_context, split_address
from dpdistill.together.transcript import Transcript, fault_of_key

LOG = logging.getLogger("dpdistill")
ENDED = "the run has ended"


class Server:
    """Connections of owners, over TLS.

    Args:
        plan: the checked plan.
        folder: the coordinator's folder, with its TLS key.
        transcript: the coordinator's durable notes; has the settled keys of the owners.
        address: host:port to listen on; the plan's by default, and port 0 takes a free one.
    """

    def __init__(self, plan: TogetherPlan, folder: Path, transcript: Transcript, address: str | None = None) -> None:
        self._plan, self._transcript, self._context = plan, transcript, server_context(folder, plan.certificate)
        self._keys: dict[str, list[str]] = {entry[0]: entry for entry in transcript.roster() or ()}
        self._links, self._started = dict[str, Connection](), set[str]()
        self._guard, self._closed = threading.Lock(), False
        self._asking = {name: threading.Lock() for name in plan.names}
        host, port = split_address(address or plan.address)
        try:
            self._socket = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
        except OSError as error:
            raise DataError(f"The coordinator cannot listen at {host}:{port}: {error.strerror or error}.") from None
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                channel, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._admit, args=(channel,), daemon=True).start()

    def _admit(self, channel: socket.socket) -> None:
        """Lets an owner in after its signature of a fresh challenge; tells others why not."""
        link = None
        try:
            channel.settimeout(SHAKE_SECONDS)
            link = Connection(self._context.wrap_socket(channel, server_side=True))
            challenge = secrets.token_bytes(32)
            link.send({"kind": "challenge", "challenge": challenge}, SHAKE_SECONDS)
            hello = link.receive(SHAKE_SECONDS, MOST_HELLO)
            fault = self._fault(hello, challenge) or self._register(hello, link)
            if fault is not None:
                LOG.warning("an owner was not let in: %s", fault)
                link.send({"kind": "refused", "sentence": fault}, SHAKE_SECONDS)
                link.close()
        except (Lost, Malformed, OSError, ssl.SSLError):
            (link or channel).close()

    def _fault(self, hello: Message, challenge: bytes) -> str | None:
        """Returns why a peer is not let in, or None."""
        run, version = field(hello, "run", str), field(hello, "version", str)
        if version != self._plan.version:
            return (
                f"the coordinator has dpdistill {self._plan.version}, and you have {version[:40]!r}: install the same"
            )
        if run != self._plan.run:
            return "you have another plan than the coordinator: ask for the file again, and compare its first digits"
        name, public = field(hello, "name", str), field(hello, "key", str)
        if name not in self._plan.names:
            return "the plan has no owner of your name"
        stated = [run, name, public, challenge.hex()]
        if not is_signed(self._plan.owner(name).public, hello.get("of_challenge"), HELLO, stated):
            return f"your key is not that of {name} in the plan"
        return fault_of_key(self._plan, name, public, field(hello, "of_key", str))

    def _register(self, hello: Message, link: Connection) -> str | None:
        name, entry = hello["name"], [hello["name"], hello["key"], hello["of_key"]]
        with self._guard:
            if self._closed:
                return ENDED
            known = self._keys.setdefault(name, entry)
            if known[1] != entry[1]:
                return f"{name} joined this run from another folder already: join from that folder, once"
            before = self._links.get(name)
            self._links[name] = link
            self._started.discard(name)
        if before is not None:
            before.close()
        LOG.info("%s is connected", name)
        roster = self._transcript.roster()
        if roster is not None:
            threading.Thread(target=self._start, args=(name, roster), daemon=True).start()
        return None

    def connected(self) -> set[str]:
        """Returns the names of connected owners."""
        with self._guard:
            return set(self._links)

    def start(self) -> None:
        """Settles the keys of all owners, all of which are connected, and tells them to start."""
        roster = self._transcript.settle_roster([self._keys[name] for name in self._plan.names])
        with ThreadPoolExecutor(len(self._plan.names)) as pool:
            for _ in pool.map(lambda name: self._start(name, roster), self._plan.names):
                pass

    def _start(self, name: str, roster: list) -> None:
        if name in self.ready():
            return
        answer = self._ask(name, {"kind": "start", "run": self._plan.run, "roster": roster}, None)
        if answer is not None and answer.get("kind") == "ready":
            with self._guard:
                self._started.add(name)
        elif answer is not None:
            LOG.warning("%s did not start: %.200r", name, answer.get("sentence"))
            self._drop(name, self._links.get(name))

    def ready(self) -> set[str]:
        """Returns the names of connected owners that have started."""
        with self._guard:
            return set(self._links) & self._started

    def ask(self, messages: dict[str, Message], seconds: float) -> dict[str, Message | None]:
        """Returns the answers of owners, asked at once; None of those that are lost."""
        if not messages:
            return {}
        with ThreadPoolExecutor(len(messages)) as pool:
            found = pool.map(lambda name: self._ask(name, messages[name], seconds), messages)
            return dict(zip(messages, found, strict=True))

    def _ask(self, name: str, message: Message, seconds: float | None) -> Message | None:
        with self._asking[name]:
            with self._guard:
                link = self._links.get(name)
            if link is None:
                return None
            try:
                link.send(message, seconds)
                return link.receive(seconds)
            except (Lost, Malformed):
                self._drop(name, link)
                return None

    def _drop(self, name: str, link: Connection | None) -> None:
        with self._guard:
            if link is not None and self._links.get(name) is link:
                del self._links[name]
                self._started.discard(name)
        if link is not None:
            link.close()

    def close(self, message: Message | None = None) -> None:
        """Ends all connections, after a last message to all owners."""
        with self._guard:
            self._closed = True
            links = dict(self._links)
        for link in links.values():
            try:
                if message is not None:
                    link.send(message, SHAKE_SECONDS)
            except Lost:
                pass
            link.close()
        self._socket.close()
