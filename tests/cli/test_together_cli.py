"""`dpdistill together` and `dpdistill demo together`: real processes, and what the commands refuse."""

import json
import shutil

import numpy as np
import pytest
from run_command import dpdistill, refused, succeeds

import dpdistill as dp
from dpdistill.verification import verify

PLAN = ["--shape", "8,8,1", "--bounds", "0,16", "--classes", 10, "--method", "ldpdc", "--set", "sampling_prob=1"]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in "abc":
        dp.new_key(folder / f"{name}.key", None)
    return folder


def stopped(*argv):
    """The sentence with which an owner's command ends, after the plan."""
    code, out, err = dpdistill(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("Run ")
    return err.splitlines()[-1]


def owners(keys, most=1000, names="abc"):
    return [word for name in names for word in ("--owner", f"{name}={keys / name}.key.pub,{most}")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, json.loads(succeeds("demo", "together", "--out", folder / "set", "--json"))


def test_an_owner_checks_the_result(demo, tmp_path):
    folder, _ = demo
    run = folder / "set.run"
    how = ["--plan", run / "plan.json", "--transcript", run / "transcript"]
    said = succeeds("together", "check", folder / "set", *how, "--run", run / "south" / "run", "--owner", "south")
    assert "Your contributions are in 1 rounds; your ledger has paid for 1 of 1." in said
    assert said.splitlines()[-1] == "PASSED"
    shutil.copytree(run / "transcript", tmp_path / "transcript")
    words = tmp_path / "transcript" / "words-000000.bin"
    content = bytearray(words.read_bytes())
    content[-1] ^= 1
    words.write_bytes(content)
    how = ["--plan", run / "plan.json", "--transcript", tmp_path / "transcript"]
    code, out, _ = dpdistill("together", "check", folder / "set", *how)
    assert code == 1
    assert "Round 0 of the transcript is wrong: the words of 'west' are not those that it signed." in out
    assert out.splitlines()[-1] == "FAILED"
    words.unlink()
    code, out, _ = dpdistill("together", "check", folder / "set", *how)
    assert code == 1
    assert "Round 0 is not in the transcript" in out
    assert "one of them does not exist" in refused("together", "check", folder / "set", *how, "--run", tmp_path)


def test_the_demo_pays_in_three_ledgers_and_verifies(demo):
    folder, found = demo
    assert found["accuracy_with_guarantee"] > 50.0
    assert verify(folder / "set").passed
    certificate = json.loads((folder / "set" / "certificate.json").read_text())
    assert [owner["name"] for owner in certificate["owners"]] == ["north", "south", "west"]
    assert (certificate["summation"]["dropouts"], certificate["summation"]["colluders"]) == (0, 1)
    for name in ("north", "south", "west"):
        summary = dp.ledger_summary(folder / "set.run" / name / "data.ledger")
        assert summary.spent == pytest.approx(1.0)
        assert len(summary.runs) == 1
    assert "3, of whom at most 0 drop out of a round and at most 1 collude" in (folder / "set/report.html").read_text()
    assert "is not empty" in refused("demo", "together", "--out", folder / "set")
    shutil.rmtree(folder / "set")
    assert "Expected no folder at" in refused("demo", "together", "--out", folder / "set")


def test_a_plan_in_json(keys, tmp_path):
    found = json.loads(succeeds("together", "plan", "--out", tmp_path / "x", *owners(keys), *PLAN, "--json"))
    assert found["plan"] == str(tmp_path / "x.run" / "plan.json")
    assert len(found["run"]) == 64
    assert "a plan is never replaced" in refused("together", "plan", "--out", tmp_path / "x", *owners(keys), *PLAN)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--dropouts", 1], "owners=3 > 2 dropouts + colluders = 3"),
        (["--colluders", 0], "colluders=0 as a whole number >= 1"),
        (["--persons-at", 9], "1 <= persons_at=9 <= 3 owners"),
        (["--address", "here"], "Expected an address host:port"),
        (["--owner", "d"], "Expected --owner NAME=KEY.pub,MOST; got 'd'"),
        (["--owner", "d=missing,5"], "Expected a public key at"),
        (["--method", "dm"], "has no private form"),
    ],
)
def test_plans_that_are_refused(keys, tmp_path, options, found):
    assert found in refused("together", "plan", "--out", tmp_path / "x", *owners(keys), *PLAN, *options)
    assert not (tmp_path / "x.run" / "plan.json").exists()


def test_facts_must_be_stated(keys, tmp_path):
    how = ("together", "plan", "--out", tmp_path / "x", *owners(keys))
    assert "Expected --schema of a table, or --shape 28,28,1 and --classes of images" in refused(*how)


class TestJoin:
    @pytest.fixture
    def place(self, keys, tmp_path):
        np.savez(tmp_path / "a.npz", X=np.zeros((5, 8, 8, 1), np.uint8), y=np.arange(5))
        dp.begin_ledger(tmp_path / "a.ledger", 1.0)
        succeeds("together", "plan", "--out", tmp_path / "x", *owners(keys), *PLAN, "--address", "localhost:9")
        return tmp_path

    def join(self, place, keys, *changed, **other):
        options = {
            "--plan": place / "x.run" / "plan.json", "--key": keys / "a.key", "--ledger": place / "a.ledger",
            "--run": place / "a.run", "--wait": 0.1, **other,
        }  # fmt: skip
        return ("together", "join", place / "a.npz", *(word for pair in options.items() for word in pair), *changed)

    def test_nothing_is_read_before_the_plan_is_accepted(self, place, keys):
        (place / "a.npz").unlink()
        assert "Expected --yes" in stopped(*self.join(place, keys))

    def test_no_coordinator_means_that_nothing_is_paid(self, place, keys):
        assert "No coordinator answered at localhost:9" in stopped(*self.join(place, keys, "--yes"))
        assert dp.ledger_summary(place / "a.ledger").spent == 0.0

    def test_a_ledger_that_would_exceed_its_cap(self, place, keys):
        dp.begin_ledger(place / "small", 0.5)
        said = stopped(*self.join(place, keys, "--yes", **{"--ledger": place / "small"}))
        assert "0.5" in said
        assert not (place / "a.run").exists()

    def test_a_key_of_no_owner(self, place, keys, tmp_path):
        dp.new_key(tmp_path / "z.key", None)
        said = stopped(*self.join(place, keys, "--yes", **{"--key": tmp_path / "z.key"}))
        assert "The plan has no owner with your key SHA256:" in said

    def test_images_of_another_size(self, place, keys):
        np.savez(place / "a.npz", X=np.zeros((5, 9, 9, 1), np.uint8), y=np.arange(5))
        code, _, err = dpdistill(*self.join(place, keys, "--yes"))
        assert code == 2
        assert "No coordinator" not in err

    def test_more_records_than_the_plan_says(self, keys, place):
        np.savez(place / "a.npz", X=np.zeros((1001, 8, 8, 1), np.uint8), y=np.arange(1001) % 10)
        assert "allows a at most 1,000 records, and there are more" in stopped(*self.join(place, keys, "--yes"))
