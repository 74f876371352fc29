"""Real connections on this machine: TLS, who is let in, lost connections, and answers at the plan's pace."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from contract import make_records, tiny
from parties import Parties, new_keys, split

from dpdistill.errors import CuratorError, LedgerError, Unanswered
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.schema import DataError
from dpdistill.together import client, join, tls
from dpdistill.together.messages import MOST_HEADER, Malformed, decode, encode
from dpdistill.together.owner import Owner
from dpdistill.together.owner_store import OwnerStore
from dpdistill.together.serve import serve
from dpdistill.together.server import Server
from dpdistill.together.tls import Connection, Lost, client_context, connect, new_certificate
from dpdistill.together.transcript import FOLDER, Transcript


class Network(Parties):
    """Owners as threads of this process, each with the connection that it has in a process of its own."""

    def __init__(self, folder, n=3, method=None, **stated):
        self.place = folder / "shared.run"
        method = method or tiny("ldpdc", sampling_prob=1.0)
        certificate = new_certificate(self.place)
        super().__init__(folder, method, split(make_records(12 * n), n), certificate=certificate, **stated)
        self.errors: dict[str, BaseException] = {}
        self.port = 0

    def take_part(self, name, key=None, plan=None, run_dir=None, ledger=None):
        """Starts an owner in a thread; its error is kept."""

        def run():
            try:
                join.join(
                    plan or self.plan, key or self.keys[name], self.parts[self.plan.names.index(name)],
                    run_dir or self.folder / f"{name}.run", ledger or self.folder / f"{name}.ledger",
                    address=f"localhost:{self.port}", wait=20.0,
                )  # fmt: skip
            except BaseException as error:
                self.errors[name] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def serve(self, **how):
        """Starts all owners once the coordinator listens, and returns its result."""
        threads = []

        def listening(port):
            self.port = port
            threads.extend(self.take_part(name) for name in self.plan.names)

        how = {"patience": 20.0, "wait": 20.0, **how}
        try:
            return serve(self.plan, self.place, address="localhost:0", **how, listening=listening)
        finally:
            for thread in threads:
                thread.join(30)

    @contextmanager
    def server(self, plan=None):
        transcript = Transcript(self.place / FOLDER, self.plan.run)
        made = Server(plan or self.plan, self.place, transcript, "localhost:0")
        self.port = made.port
        yield made
        made.close()

    def refused(self, name="owner 00", **how):
        self.take_part(name, **how).join(20)
        return str(self.errors.pop(name))


@pytest.fixture
def network(tmp_path):
    return Network(tmp_path)


def test_a_run_over_tls_pays_once_for_every_owner(network):
    result = network.serve()
    assert network.errors == {}
    assert len(result.X) == len(result.y)
    assert result.owners == network.plan.names
    assert result.summation["plan"] == network.plan.run
    for name in network.plan.names:
        assert network.ledgers[name].summary().spent == pytest.approx(1.0, rel=1e-6)
        assert len(RunLedger.read(network.folder / f"{name}.run").events) == network.plan.schedule.rounds
    again = network.serve()  # all rounds are released: no owner is needed, and nothing is paid
    assert np.array_equal(again.X, result.X)
    assert network.ledgers["owner 00"].summary().spent == pytest.approx(1.0, rel=1e-6)


class TestWhoIsLetIn:
    def test_a_stranger_with_a_wrong_key(self, network):
        (stranger,) = new_keys(("owner 00",)).values()
        with network.server():
            assert "no owner with your key" in network.refused(key=stranger)
            owner = network.links.owners["owner 00"]
            link = connect(f"localhost:{network.port}", client_context(network.plan.certificate))
            challenge = link.receive(5.0)["challenge"]
            assert len(challenge) == 32
            link.send(owner.hello(bytes(32)))  # a recorded answer to another challenge
            assert link.receive(5.0)["sentence"] == "your key is not that of owner 00 in the plan"
            link.close()

    def test_another_plan(self, network):
        other = replace(network.plan, nonce="1")
        with network.server():
            found = network.refused(plan=other, run_dir=network.folder / "x.run")
            assert "you have another plan than the coordinator" in found

    def test_another_version(self, network):
        with network.server():
            link = connect(f"localhost:{network.port}", client_context(network.plan.certificate))
            challenge = link.receive(5.0)["challenge"]
            link.send(network.links.owners["owner 00"].hello(challenge) | {"version": "0.1"})
            sentence = link.receive(5.0)["sentence"]
            link.close()
        assert "and you have '0.1': install the same" in sentence

    def test_an_owner_that_joins_twice(self, network):
        with network.server() as server:
            network.take_part("owner 00")
            until = time.monotonic() + 20
            while not server.connected() and time.monotonic() < until:
                time.sleep(0.01)
            sentence = network.refused(run_dir=network.folder / "second.run")
            assert "joined this run from another folder already: join from that folder, once" in sentence
            assert server.connected() == {"owner 00"}

    def test_another_tls_certificate(self, network, tmp_path):
        impostor = replace(network.plan, certificate=new_certificate(tmp_path / "impostor"))
        with network.server():
            sentence = network.refused(plan=impostor, run_dir=tmp_path / "x.run")
        assert "has another TLS certificate than the plan's: nothing was sent to it" in sentence

    def test_a_coordinator_without_the_plans_key(self, network, tmp_path):
        with pytest.raises(DataError, match="Expected the TLS key of the plan"):
            Server(network.plan, tmp_path, Transcript(tmp_path / FOLDER, network.plan.run), "localhost:0")

    def test_an_address_that_is_taken(self, network):
        with network.server() as server, pytest.raises(DataError, match="cannot listen at localhost"):
            Server(network.plan, network.place, Transcript(network.place / FOLDER, ""), f"localhost:{server.port}")

    @pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"", b"\xff" * 1000])
    def test_garbage_ends_its_connection_alone(self, network, sent):
        with network.server() as server:
            with socket.create_connection(("localhost", server.port)) as channel:
                channel.sendall(sent)
            context = client_context(network.plan.certificate)
            with context.wrap_socket(socket.create_connection(("localhost", server.port))) as inner:
                inner.sendall((1 << 60).to_bytes(8, "big") + sent)
            link = connect(f"localhost:{server.port}", context)
            assert len(link.receive(5.0)["challenge"]) == 32
            link.close()
            assert server.connected() == set()


def test_owners_that_do_not_come_cost_nothing(network):
    with pytest.raises(Unanswered, match=r"Owners did not connect: owner 00, owner 01, owner 02\. Nothing was asked"):
        serve(network.plan, network.place, address="localhost:0", wait=0.3)
    assert network.ledgers["owner 00"].summary().spent == 0.0


def test_no_coordinator(network):
    network.port = 9
    store = OwnerStore(network.folder / "x.run", network.plan.run, "owner 00")
    owner = Owner(network.plan, "owner 00", network.keys["owner 00"], store, lambda: None)
    with pytest.raises(Unanswered, match=r"No coordinator answered at localhost:9 for 0\.2 seconds: nothing is lost"):
        client.take_part(network.plan, owner, "localhost:9", wait=0.2)


def test_a_cap_that_is_too_small_is_refused_before_anything(network):
    DatasetLedger.begin(network.folder / "small", 0.5)
    with network.server() as server:
        network.take_part("owner 00", ledger=network.folder / "small").join(20)
        assert server.connected() == set()
    assert isinstance(network.errors["owner 00"], LedgerError)


def test_a_cap_that_earlier_runs_have_used_is_refused_before_anything(network):
    ledger = DatasetLedger.begin(network.folder / "used", 1.2)
    ledger.bind(lambda key: bytes(32))
    ledger.reserve("1" * 32, "an earlier run", network.plan.schedule, ("1" * 32, "2" * 32))
    with network.server() as server:
        network.take_part("owner 00", ledger=network.folder / "used").join(20)
        assert server.connected() == set()
    assert isinstance(network.errors["owner 00"], LedgerError)


def test_an_owner_that_refuses_stops_the_run_on_both_sides(network, monkeypatch):
    original = Owner._contribute

    def contribute(self, message):
        if self.name == "owner 02":
            raise MemoryError("of 12,345 records")
        return original(self, message)

    monkeypatch.setattr(Owner, "_contribute", contribute)
    with pytest.raises(CuratorError, match="Owner owner 02 could not answer; its own terminal says why") as caught:
        network.serve()
    assert "12,345" not in str(caught.value)
    assert isinstance(network.errors["owner 02"], MemoryError)
    assert "The coordinator stopped the run: Owner owner 02 could not" in str(network.errors["owner 01"])


def test_a_connection_that_is_cut_is_made_again(network, monkeypatch):
    cut, original = [], Connection.send

    def send(self, message, seconds=None):
        if message.get("kind") in ("contribution", "revealed") and len(cut) < 4:
            cut.append(message["kind"])
            self.close()
            raise Lost
        original(self, message, seconds)

    monkeypatch.setattr(Connection, "send", send)
    network.serve(patience=5.0)
    assert len(cut) == 4
    assert network.errors == {}
    assert {round(each.summary().spent, 6) for each in network.ledgers.values()} == {1.0}


def test_answers_leave_at_whole_multiples_of_the_pace():
    slept = []
    arrived = time.monotonic() - 2.3
    client._sleep_until(arrived, 1.0, slept.append)
    assert slept[0] == pytest.approx(0.7, abs=0.05)
    client._sleep_until(arrived, 0.0, slept.append)
    assert len(slept) == 1


class TestMessages:
    def test_a_message_is_read_as_it_was_written(self):
        message = {"kind": "x", "round": 3, "names": ["a"], "params": b"\0\xff", "none": b""}
        assert decode(encode(message)) == message

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"12345678",
            (1 << 60).to_bytes(8, "big"),
            (MOST_HEADER + 1).to_bytes(8, "big") + b" " * 20,
            (2).to_bytes(8, "big") + b"[]",
            (2).to_bytes(8, "big") + b"{}",
            encode({"a": b"12"})[:-1],
            encode({"a": b"12"}) + b"1",
            encode({"a": b"12"}).replace(b'["a", 2]', b'["a",-2]'),
            encode({"a": b"12"}).replace(b'["a", 2]', b'["a", x]'),
        ],
    )
    def test_other_bytes_are_malformed(self, content):
        with pytest.raises(Malformed):
            decode(content)

    def test_a_large_message_of_a_stranger_is_not_read(self):
        ours, theirs = socket.socketpair()
        theirs.sendall((tls.MOST_HELLO + 1).to_bytes(8, "big"))
        connection = Connection.__new__(Connection)
        connection._channel = ours
        with pytest.raises(Malformed, match="too large"):
            connection.receive(1.0, tls.MOST_HELLO)
        theirs.close()
        with pytest.raises(Lost):
            connection.receive(1.0)
        ours.close()

    @pytest.mark.parametrize("address", ["localhost", "localhost:x", ":1", "localhost:99999"])
    def test_addresses(self, address):
        with pytest.raises(DataError, match="Expected an address host:port"):
            tls.split_address(address)
        assert tls.split_address("[::1]:80") == ("::1", 80)
