"""verify: an honest certificate passes, and every kind of tampering fails in one sentence."""

import json
import sqlite3

import numpy as np
import pytest

from dpdistill.accounting.schedule import Budget, Schedule, calibrate, epsilon_rdp
from dpdistill.certificate import verify as verify_module
from dpdistill.certificate.build import SEEDED_NOISE, build_certificate, write_certificate
from dpdistill.certificate.verify import CLOSING, Check, Verification, verify
from dpdistill.ledger.run import RunLedger
from dpdistill.query import Stage
from dpdistill.schema import Schema

RECIPE = {"method": "ldpdc", "fields": {"per_class": 10}}
WHOLE = {**RECIPE, "seed": 0, "origin": "package default", "title": "LDPDC", "noise": "operating-system entropy"}
SCHEMA = Schema((8, 8, 1), (0.0, 16.0), tuple("0123456789"))
PLAN = (Stage(4), Stage(6, weight=2.0))
FULL = calibrate(PLAN, Budget(1.0))
SAMPLED = calibrate((Stage(1), Stage(20, sampling_prob=0.1)), Budget(2.0))


def make(folder, schedule=FULL, **changes):
    folder.mkdir()
    (folder / "images" / "0").mkdir(parents=True)
    np.savez(folder / "synthetic.npz", X=np.arange(6.0))
    (folder / "images" / "0" / "000.png").write_bytes(b"image")
    facts = {"recipe": RECIPE, "origin": "package default", "schema": SCHEMA, "public_seed": 0} | changes
    write_certificate(folder, build_certificate(folder, schedule=schedule, **facts))
    return folder


def run_all(folder, schedule=FULL, rounds=None, recipe=None):
    with RunLedger.open(folder, recipe or WHOLE, schedule, b"d") as ledger:
        for t in range(schedule.rounds if rounds is None else rounds):
            ledger.commit(t, schedule.event(t), np.zeros(2), 1.0)


@pytest.fixture
def demo(tmp_path):
    return make(tmp_path / "demo")


def results(verification):
    return {check.name: check.passed for check in verification.checks}


def failed(verification):
    """Names of the failed checks; every detail of every check is one sentence."""
    for check in verification.checks:
        assert check.detail.endswith(".")
        assert check.detail.isascii()
        assert check.detail.isprintable()
        assert len(check.detail) < 400
    assert verification.checks[-1] == Check("scope", None, CLOSING)
    names = [check.name for check in verification.checks if check.passed is False]
    assert verification.passed is not bool(names)
    return names


def edit(folder, change):
    path = folder / "certificate.json"
    certificate = json.loads(path.read_text())
    change(certificate)
    path.write_text(json.dumps(certificate))


def put(*path, value):
    def change(certificate):
        for key in path[:-1]:
            certificate = certificate[key]
        certificate[path[-1]] = value

    return change


def both(*changes):
    def change(certificate):
        for one in changes:
            one(certificate)

    return change


class TestHonest:
    def test_full_batch(self, demo):
        run_all(demo.with_name("demo.run"))
        verification = verify(demo, plan=PLAN)
        assert failed(verification) == []
        assert results(verification) == {
            **dict.fromkeys(("certificate", "files", "noise", "events", "plan", "ledger", "epsilon"), True),
            **{"looser bound": None, "epsilons": True, "groups": True, "scope": None},
        }
        details = {check.name: check.detail for check in verification.checks}
        assert details["epsilon"].startswith("Claimed epsilon=1 at delta=1e-05: closed form 1, PLD 1")
        assert details["ledger"] == "The run's ledger holds 10 of 10 promised rounds, and no other."
        assert f"epsilon <= {epsilon_rdp(FULL.groups, 1e-5):.6g}" in details["looser bound"]

    def test_sampled(self, tmp_path):
        verification = verify(make(tmp_path / "demo", SAMPLED), plan=SAMPLED.stages)
        assert failed(verification) == []
        detail = next(check.detail for check in verification.checks if check.name == "epsilon")
        assert "lower bound 1.99" in detail

    def test_replace_one_is_never_judged_by_renyi(self, tmp_path):
        schedule = calibrate(PLAN, Budget(1.0, 1e-5, "replace-one"))
        verification = verify(make(tmp_path / "demo", schedule))
        assert failed(verification) == []
        assert "looser bound" not in results(verification)
        assert results(verification)["epsilon"] is True

    def test_sampled_replace_one(self, tmp_path):
        schedule = calibrate((Stage(10, sampling_prob=0.1),), Budget(2.0, 1e-5, "replace-one"))
        verification = verify(make(tmp_path / "demo", schedule))
        assert failed(verification) == []
        assert results(verification)["groups"] is True

    @pytest.mark.parametrize("epsilon", [0.01, 10.0, 50.0])
    def test_small_and_large_epsilon(self, tmp_path, epsilon):
        assert failed(verify(make(tmp_path / "demo", calibrate(PLAN, Budget(epsilon))))) == []

    def test_a_delta_below_the_plds_reach(self, tmp_path):
        verification = verify(make(tmp_path / "demo", calibrate(PLAN, Budget(1.0, 1e-12))))
        assert failed(verification) == []
        assert "no PLD at so small a delta" in verification.checks[6].detail

    def test_without_plan_and_ledger_they_are_left_open(self, demo):
        verification = verify(demo)
        assert verification.passed
        assert (results(verification)["plan"], results(verification)["ledger"]) == (None, None)
        plan = next(check.detail for check in verification.checks if check.name == "plan")
        assert plan == "The recipe is unknown to this version: its plan was not checked."

    def test_a_run_that_stopped_early(self, demo):
        run_all(demo.with_name("demo.run"), rounds=3)
        verification = verify(demo)
        assert results(verification)["ledger"] is True
        assert "3 of 10 promised rounds" in verification.checks[5].detail

    def test_files_of_the_owner_are_nobodys_business(self, demo):
        for stray in ("more.npz", "plot.png", "images/cover.png", "images/0/me.png"):
            (demo / stray).write_bytes(b"the owner's")
        assert failed(verify(demo)) == []

    def test_no_guarantee_is_said(self, tmp_path):
        verification = verify(make(tmp_path / "demo", None))
        assert failed(verification) == []
        assert results(verification) == {"certificate": True, "files": True, "guarantee": None, "scope": None}
        assert verification.checks[2].detail == "epsilon is infinite: this run gives no privacy guarantee."

    def test_the_end_says_what_it_cannot_know(self):
        assert "verify checks arithmetic and files" in CLOSING
        assert "rests on who ran it" in CLOSING


class TestFails:
    def test_seeded_noise(self, tmp_path):
        verification = verify(make(tmp_path / "demo", noise=SEEDED_NOISE))
        assert failed(verification) == ["noise"]
        assert "insecure: seeded noise" in verification.checks[2].detail

    def test_one_byte_of_the_synthetic_file(self, demo):
        content = bytearray((demo / "synthetic.npz").read_bytes())
        content[100] ^= 1
        (demo / "synthetic.npz").write_bytes(content)
        verification = verify(demo)
        assert failed(verification) == ["files"]
        assert "synthetic.npz was changed" in verification.checks[1].detail

    def test_missing_and_extra_files(self, demo):
        (demo / "images" / "0" / "000.png").unlink()
        (demo / "classifier.npz").write_bytes(b"more")
        verification = verify(demo)
        assert failed(verification) == ["files"]
        assert "images/0/000.png is missing; classifier.npz is not in the certificate" in verification.checks[1].detail

    def test_a_file_that_cannot_be_read(self, demo, monkeypatch):
        monkeypatch.setattr(verify_module.cert, "_sha256", lambda path: (path / "nothing").read_bytes())
        assert failed(verify(demo)) == ["files"]

    def test_a_list_without_the_synthetic_file(self, demo):
        (demo / "synthetic.npz").unlink()
        edit(demo, lambda certificate: certificate["files"].pop("synthetic.npz"))
        assert failed(verify(demo)) == ["files"]

    def test_another_plan(self, demo):
        assert failed(verify(demo, plan=(Stage(4), Stage(7, weight=2.0)))) == ["plan"]

    @pytest.mark.parametrize(
        ("change", "names"),
        [
            (put("claim", "epsilon", value=0.5), ["events"]),
            (both(put("claim", "epsilon", value=0.5), put("schedule", "budget", "epsilon", value=0.5)), ["epsilon"]),
            (put("claim", "delta", value=1e-9), ["events"]),
            (put("claim", value={}), ["events"]),
            (put("schedule", "noise_multipliers", value=[10.0, 5.0]), ["events", "epsilon"]),
            (put("schedule", "stages", 0, "rounds", value=3), ["events", "epsilons", "groups"]),
            (put("schedule", "stages", 0, "rounds", value=40), ["events", "epsilon"]),
            (put("events", "composition", 0, "rounds", value=3), ["events"]),
            (put("events", "composition", 0, "noise_multiplier", value=1e9), ["events"]),
            (put("events", value={}), ["events"]),
            (put("events", value=None), ["events"]),
            (put("relation", value="replace-one"), ["events"]),
            (put("unit", value="one pixel"), ["events"]),
            (put("scope", value="everything"), ["events"]),
            (put("noise", value="excellent"), ["noise"]),
            (put("epsilons", "1e-08", value=1.0), ["epsilons"]),
            (put("epsilons", "1e-08", value="low"), ["epsilons"]),
            (put("epsilons", "1e-08", value=True), ["epsilons"]),
            (put("epsilons", "1e-08", value=None), ["epsilons"]),
            (put("epsilons", "1e-09", value=1.0), ["epsilons"]),
            (put("epsilons", value={}), ["epsilons"]),
            (put("groups", "5", value=5.0), ["groups"]),
            (put("groups", value={"2": 2.1538, "9": 1}), ["groups"]),
            (put("files", "../secret", value="ab" * 32), ["files"]),
            (put("files", value={"synthetic.npz": 3}), ["certificate"]),
            (put("files", value={f"{number}.npz": "" for number in range(1000)}), ["files"]),
            (put("files", "\ud800\x1b[2J\n", value=""), ["files"]),
            (put("noise", value="\ud800\x1b[2J\n" * 99), ["noise"]),
            (put("epsilons", "\ud800\x1b[2J\n", value=1.0), ["epsilons"]),
            (put("format", value=2), ["certificate"]),
            (put("format", value=True), ["certificate"]),
            (put("format", value="1"), ["certificate"]),
            (put("schedule", value={}), ["certificate"]),
            (put("schedule", value=None), ["certificate"]),
            (put("schedule", "stages", value=[]), ["certificate"]),
            (put("schedule", "stages", value=7), ["certificate"]),
            (put("schedule", "stages", 0, value=None), ["certificate"]),
            (put("schedule", "stages", 0, "rounds", value=1.5), ["certificate"]),
            (put("schedule", "stages", 0, "rounds", value="4"), ["certificate"]),
            (put("schedule", "stages", 0, "rounds", value=10**400), ["certificate"]),
            (put("schedule", "stages", 0, "sampling_prob", value=-1.0), ["certificate"]),
            (put("schedule", "stages", 0, "extra", value=1), ["certificate"]),
            (put("schedule", "noise_multipliers", value=[1.0]), ["certificate"]),
            (put("schedule", "noise_multipliers", value=[float("nan"), 1.0]), ["certificate"]),
            (put("schedule", "noise_multipliers", value=["a", "b"]), ["certificate"]),
            (put("schedule", "budget", value=None), ["certificate"]),
            (put("schedule", "budget", "epsilon", value="one"), ["certificate"]),
            (put("schedule", "budget", "adjacency", value=["add-remove"]), ["certificate"]),
        ],
    )
    def test_tampering(self, demo, change, names):
        edit(demo, change)
        assert failed(verify(demo)) == names

    @pytest.mark.parametrize("key", ["format", *verify_module._TYPES])
    def test_missing_and_wrong_keys(self, demo, key):
        edit(demo, put(key, value=[0.5] if key != "public_data" else 1))
        assert failed(verify(demo)) == ["certificate"]
        edit(demo, lambda certificate: certificate.pop(key))
        assert failed(verify(demo)) == ["certificate"]

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, "\x00"])
    def test_not_a_certificate(self, demo, text):
        (demo / "certificate.json").write_text(text)
        assert failed(verify(demo)) == ["certificate"]

    def test_no_certificate(self, tmp_path):
        assert failed(verify(tmp_path)) == ["certificate"]
        assert failed(verify(tmp_path / "nowhere")) == ["certificate"]

    @pytest.mark.parametrize("key", ["claim", "noise", "scope", "epsilons"])
    def test_a_guarantee_claimed_without_a_schedule(self, tmp_path, demo, key):
        plain = make(tmp_path / "plain", None)
        honest = json.loads((demo / "certificate.json").read_text())
        edit(plain, put(key, value=honest[key]))
        assert failed(verify(plain)) == ["certificate"]

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    @pytest.mark.parametrize("noise_multiplier", [1e-3, 1e-200, 10**400])
    @pytest.mark.parametrize("schedule", [FULL, SAMPLED], ids=["full", "sampled"])
    def test_absurd_noise(self, tmp_path, schedule, noise_multiplier):
        demo = make(tmp_path / "demo", schedule)
        edit(demo, put("schedule", "noise_multipliers", value=[noise_multiplier] * 2))
        assert failed(verify(demo)) == ["events", "epsilon"]

    def test_sampled_claim_lowered(self, tmp_path):
        schedule = Schedule(SAMPLED.stages, SAMPLED.noise_multipliers, Budget(1.98))
        assert failed(verify(make(tmp_path / "demo", schedule))) == ["epsilon"]

    def test_sampled_noise_lowered(self, tmp_path):
        schedule = Schedule(SAMPLED.stages, tuple(0.98 * s for s in SAMPLED.noise_multipliers), SAMPLED.budget)
        verification = verify(make(tmp_path / "demo", schedule))
        assert failed(verification) == ["epsilon"]
        assert "cost at least epsilon=2.0" in verification.checks[6].detail

    def test_sampled_beyond_the_tolerance_of_the_pld(self, tmp_path, monkeypatch):
        monkeypatch.setattr(verify_module, "epsilon_lower_bound", lambda *_: 0.0)
        schedule = Schedule(SAMPLED.stages, SAMPLED.noise_multipliers, Budget(1.99))
        verification = verify(make(tmp_path / "demo", schedule))
        assert failed(verification) == ["epsilon"]
        assert "by the PLD" in verification.checks[6].detail

    def test_accountants_that_disagree(self, demo, monkeypatch):
        monkeypatch.setattr(verify_module, "epsilon_pld", lambda *_: 1.0003)
        verification = verify(demo)
        assert failed(verification) == ["epsilon"]
        assert "they disagree" in verification.checks[6].detail


OTHERS = [
    ({"method": "dos"}, "method"),
    ({"seed": 1}, "seed"),
    ({"origin": "selected on digits"}, "origin"),
]


class TestRecipe:
    def test_of_the_folder(self, demo):
        (demo / "recipe.json").write_text(json.dumps(WHOLE))
        verification = verify(demo)
        assert failed(verification) == []
        assert results(verification)["recipe"] is True

    @pytest.mark.parametrize(("change", "name"), [*OTHERS, ({"fields": {"per_class": 5}}, "fields")])
    @pytest.mark.parametrize("schedule", [FULL, None], ids=["private", "without a guarantee"])
    def test_another_recipe_in_the_folder(self, tmp_path, schedule, change, name):
        demo = make(tmp_path / "demo", schedule)
        (demo / "recipe.json").write_text(json.dumps(WHOLE | change))
        verification = verify(demo)
        assert failed(verification) == ["recipe"]
        assert verification.checks[2].detail == f"recipe.json and the certificate differ in {name}."
        (demo / "recipe.json").write_text(json.dumps({k: v for k, v in WHOLE.items() if k not in change}))
        assert failed(verify(demo)) == ["recipe"]

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000, '"\x00'])
    def test_what_is_no_recipe(self, demo, text):
        (demo / "recipe.json").write_text(text)
        assert failed(verify(demo)) == ["recipe"]

    @pytest.mark.parametrize(("change", "name"), OTHERS)
    @pytest.mark.parametrize("free", [None, {"per_class"}])
    def test_another_recipe_in_the_ledger(self, demo, change, name, free):
        run_all(demo.with_name("demo.run"), recipe=WHOLE | change)
        verification = verify(demo, free=free)
        assert failed(verification) == ["ledger"]
        assert verification.checks[5].detail == f"The run's ledger has another recipe than the certificate: {name}."

    @pytest.mark.parametrize("fields", [{"per_class": 5}, {}, {"per_class": 10, "\x1b[2J\ud800": 1}])
    def test_other_fields_in_the_ledger(self, demo, fields):
        changed = "per_class" if len(fields) < 2 else "\x1b[2J\ud800"
        # Another origin goes with other fields.
        run_all(demo.with_name("demo.run"), recipe=WHOLE | {"fields": fields, "origin": "caller changed per_class"})
        for free, passed in (({changed}, True), ((), False), ({"rounds"}, False), (None, None)):
            verification = verify(demo, free=free)
            assert failed(verification) == (["ledger"] if passed is False else [])
            assert results(verification)["ledger"] is passed
            assert ascii(changed)[1:-1] in verification.checks[5].detail

    @pytest.mark.parametrize("fields", [None, 3, [1]])
    def test_no_fields(self, demo, fields):
        run_all(demo.with_name("demo.run"), recipe=WHOLE | {"fields": fields})
        assert failed(verify(demo)) == ["ledger"]
        edit(demo, put("recipe", "fields", value=fields))
        assert failed(verify(demo)) == ["ledger"]


class TestLedger:
    def test_another_schedule(self, demo, tmp_path):
        run_all(tmp_path / "other", calibrate(PLAN, Budget(2.0)))
        assert failed(verify(demo, run=tmp_path / "other")) == ["ledger"]

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE rounds SET noise_multiplier = 1.0 WHERE round = 2",
            "UPDATE rounds SET sampling_prob = 0.5 WHERE round = 2",
            "INSERT INTO rounds SELECT 10, noise_multiplier, 1.0, 1.0, '', '', NULL FROM rounds WHERE round = 9",
            "DELETE FROM run",
            "UPDATE run SET schedule = 'x'",
            "UPDATE run SET schedule = '{}'",
            "UPDATE run SET recipe = '[]'",
            "DROP TABLE rounds",
        ],
    )
    def test_a_changed_ledger(self, demo, statement):
        run = demo.with_name("demo.run")
        run_all(run)
        db = sqlite3.connect(run / "ledger.sqlite")
        with db:
            db.execute(statement)
        db.close()
        assert failed(verify(demo)) == ["ledger"]

    def test_a_ledger_asked_for_that_is_not_there(self, demo, tmp_path):
        verification = verify(demo, run=tmp_path / "nothing")
        assert failed(verification) == ["ledger"]


def test_passed_means_nothing_failed():
    assert Verification((Check("a", True, "."), Check("b", None, "."))).passed
    assert not Verification((Check("a", True, "."), Check("b", False, "."))).passed
