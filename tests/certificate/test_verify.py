"""verify: an honest certificate passes, and every kind of tampering fails in one sentence."""

import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import time
from dataclasses import replace

import contract
import numpy as np
import pytest

from dpdistill.accounting.bounds import epsilon_rdp
from dpdistill.accounting.schedule import MAX_ROUNDS, Budget, Schedule, calibrate
from dpdistill.certificate import arithmetic
from dpdistill.certificate.build import (
    SCOPE,
    SEEDED_NOISE,
    build_certificate,
    recipe_content,
    write_certificate,
)
from dpdistill.certificate.check import FAILED, NOT_COMPARED, PASSED, Check, Expected, Verification
from dpdistill.certificate.format import Certificate
from dpdistill.certificate.verify import CLOSING, check_certificate
from dpdistill.folder import layout as folder_module
from dpdistill.ledger.run import RunLedger
from dpdistill.query import Stage
from dpdistill.recipe.published import all_published
from dpdistill.schema import Schema

FIELDS = tuple(field.alias or name for name, field in Certificate.model_fields.items() if field.is_required())
RECIPE = {
    **{"method": "ldpdc", "title": "LDPDC", "fields": {"per_class": 10}, "changed": [], "seed": 0},
    **{"origin": "package default", "references": ["Zheng and Li 2024"]},
}
SCHEMA = Schema((8, 8, 1), (0.0, 16.0), tuple("0123456789"))
FACTS = json.loads(json.dumps(SCHEMA.to_json()))
WHOLE = {**RECIPE, "schema": FACTS, "noise": "operating-system entropy"}
PLAN = (Stage(4), Stage(6, weight=2.0))
FULL = calibrate(PLAN, Budget(1.0))
SAMPLED = calibrate((Stage(1), Stage(20, sampling_prob=0.1)), Budget(2.0))


def make(folder, schedule=FULL, **changes):
    folder.mkdir()
    (folder / "images" / "0").mkdir(parents=True)
    np.savez(folder / "synthetic.npz", X=np.arange(6.0))
    (folder / "images" / "0" / "000.png").write_bytes(b"image")
    (folder / "recipe.json").write_bytes(recipe_content(RECIPE))
    facts = {"recipe": RECIPE, "schema": SCHEMA} | changes
    write_certificate(folder, build_certificate(folder, schedule=schedule, **facts))
    return folder


def run_all(folder, schedule=FULL, rounds=None, recipe=None):
    with RunLedger.open(folder, recipe or WHOLE, schedule, b"d") as ledger:
        for t in range(schedule.rounds if rounds is None else rounds):
            ledger.commit(t, schedule.event(t), np.zeros(2), 1.0)


@pytest.fixture
def demo(tmp_path):
    return make(tmp_path / "demo")


def verify(folder, run=None, **known):
    return check_certificate(folder, run, lambda certificate: Expected(**known))


def detail(verification, name):
    return "; ".join(check.detail for check in verification.checks if check.name == name)


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
    assert (verification.outcome == FAILED) is bool(names)
    assert verification.passed is (verification.outcome == PASSED)
    return names


def edit(folder, change):
    path = folder / "certificate.json"
    certificate = json.loads(path.read_text())
    change(certificate)
    text = json.dumps(certificate, indent=2, ensure_ascii=False) + "\n"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


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
        verification = verify(demo, plan=PLAN, recipe=RECIPE, schema=FACTS, slacks=(None,))
        assert failed(verification) == []
        assert results(verification) == {
            **dict.fromkeys(("certificate", "files", "recipe", "origin", "schema", "noise", "slack"), True),
            **dict.fromkeys(("events", "plan", "ledger", "epsilon", "epsilons", "attacker", "groups"), True),
            "public inputs": True,
            **dict.fromkeys(("contents", "report", "self-test", "looser bound", "covered", "scope"), None),
        }
        assert detail(verification, "covered") == SCOPE
        details = {check.name: check.detail for check in verification.checks}
        assert details["epsilon"].startswith("Claimed epsilon=1 at delta=1e-05: closed form 1, PLD 1")
        assert details["ledger"] == "The run's ledger holds 10 of 10 promised rounds, and no other."
        assert f"epsilon <= {epsilon_rdp(FULL.groups, 1e-5):.6g}" in details["looser bound"]

    def test_sampled(self, tmp_path):
        verification = verify(make(tmp_path / "demo", SAMPLED), plan=SAMPLED.stages)
        assert failed(verification) == []
        assert "lower bound 1.99" in detail(verification, "epsilon")

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

    @pytest.mark.parametrize("epsilon", [1e-9, 1e-5, 0.01, 10.0, 50.0, 1000.0])
    def test_small_and_large_epsilon(self, tmp_path, epsilon):
        assert failed(verify(make(tmp_path / "demo", calibrate(PLAN, Budget(epsilon))))) == []

    def test_a_delta_below_the_plds_reach(self, tmp_path):
        verification = verify(make(tmp_path / "demo", calibrate(PLAN, Budget(1.0, 1e-12))))
        assert failed(verification) == []
        assert "this delta is too small for the PLD" in detail(verification, "epsilon")

    def test_without_plan_and_ledger_they_are_left_open(self, demo):
        verification = verify(demo)
        assert verification.outcome == NOT_COMPARED
        assert (results(verification)["plan"], results(verification)["ledger"]) == (None, None)
        assert detail(verification, "plan") == "The recipe is unknown to this version: its plan was not checked."

    def test_facts_that_were_taken_from_the_records_are_named(self, tmp_path):
        inferred = replace(SCHEMA, inferred=("classes", "image size"))
        folder = make(tmp_path / "inferred", schema=inferred)
        certificate = json.loads((folder / "certificate.json").read_text())
        assert (certificate["schema"], certificate["inferred"]) == (FACTS, ["classes", "image size"])
        verification = verify(folder, schema={**FACTS, "inferred": ["classes", "image size"]})
        assert (failed(verification), results(verification)["facts"]) == ([], None)
        assert detail(verification, "facts").endswith("epsilon does not cover them: classes, image size.")
        assert failed(verify(folder, schema=FACTS)) == ["schema"]

    def test_a_run_that_stopped_early(self, demo):
        run_all(demo.with_name("demo.run"), rounds=3)
        verification = verify(demo)
        assert results(verification)["ledger"] is True
        assert "3 of 10 promised rounds" in detail(verification, "ledger")

    def test_the_folder_of_a_run_that_is_another_users(self, demo, monkeypatch):
        run_all(demo.with_name("demo.run"))
        (demo.with_name("demo.run") / "finished").write_text("0" * 64)
        assert failed(verify(demo)) == ["handover"]
        monkeypatch.setattr(os, "access", lambda path, mode: "demo.run" not in str(path))
        verification = verify(demo)
        assert verification.outcome == NOT_COMPARED
        assert "handover" not in results(verification)
        assert detail(verification, "ledger") == ("The run's ledger is not available here: the owner keeps it.")

    def test_no_guarantee_is_said(self, tmp_path):
        verification = verify(make(tmp_path / "demo", None))
        assert failed(verification) == []
        assert results(verification) == {
            **{"certificate": True, "files": True, "recipe": True, "public inputs": True},
            **dict.fromkeys(("contents", "origin", "schema", "report", "guarantee", "scope"), None),
        }
        assert detail(verification, "guarantee") == "epsilon is infinite: this run gives no privacy guarantee."

    def test_the_end_says_what_it_cannot_know(self):
        assert "verify checks arithmetic and files" in CLOSING
        assert "for that you trust the owner" in CLOSING


class TestFails:
    def test_seeded_noise(self, tmp_path):
        verification = verify(make(tmp_path / "demo", noise=SEEDED_NOISE))
        assert failed(verification) == ["noise"]
        assert "insecure: seeded noise" in detail(verification, "noise")

    def test_one_byte_of_the_synthetic_file(self, demo):
        content = bytearray((demo / "synthetic.npz").read_bytes())
        content[100] ^= 1
        (demo / "synthetic.npz").write_bytes(content)
        verification = verify(demo)
        assert failed(verification) == ["files"]
        assert "synthetic.npz was changed" in detail(verification, "files")

    def test_missing_and_extra_files(self, demo):
        (demo / "images" / "0" / "000.png").unlink()
        (demo / "classifier.npz").write_bytes(b"more")
        verification = verify(demo)
        assert failed(verification) == ["files"]
        assert "images/0/000.png is missing; classifier.npz is not in the certificate" in detail(verification, "files")

    def test_a_file_that_cannot_be_read(self, demo, monkeypatch):
        monkeypatch.setattr(folder_module, "sha256", lambda path: (path / "nothing").read_bytes())
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
            (put("claim", value={}), ["certificate"]),
            (put("schedule", "noise_multipliers", value=[10.0, 5.0]), ["events", "epsilon"]),
            (put("schedule", "stages", 0, "rounds", value=3), ["events", "epsilons", "attacker", "groups"]),
            (put("schedule", "stages", 0, "rounds", value=40), ["events", "epsilon"]),
            (put("events", "events", 0, "rounds", value=3), ["events"]),
            (put("events", "events", 0, "noise_multiplier", value=1e9), ["events"]),
            (put("events", value={}), ["certificate"]),
            (put("events", value=None), ["events"]),
            (put("relation", value="replace-one"), ["events"]),
            (put("unit", value="one pixel"), ["events"]),
            (put("scope", value="everything"), ["events"]),
            (put("noise", value="excellent"), ["noise"]),
            (put("epsilons", "1e-08", value=1.0), ["epsilons"]),
            (put("epsilons", "1e-08", value="low"), ["certificate"]),
            (put("epsilons", "1e-08", value=True), ["certificate"]),
            (put("epsilons", "1e-08", value=None), ["epsilons"]),
            (put("epsilons", "1e-09", value=1.0), ["epsilons"]),
            (put("epsilons", value={}), ["epsilons"]),
            (put("attacker", "0.001", value=0.001), ["attacker"]),
            (put("attacker", "advantage", value=0.05), ["attacker"]),
            (put("attacker", "0.1", value=0.3), ["attacker"]),
            (put("attacker", value={}), ["attacker"]),
            (put("groups", "5", value=5.0), ["groups"]),
            (put("groups", value={"2": 2.1538, "9": 1}), ["groups"]),
            (put("files", "../secret", value="ab" * 32), ["files"]),
            (put("files", value={"synthetic.npz": 3}), ["certificate"]),
            (put("files", value={f"{number}.npz": "ab" * 32 for number in range(1000)}), ["files"]),
            (put("files", "\x1b[2J\n", value="ab" * 32), ["files"]),
            (put("files", "\x1b[2J\n", value=""), ["certificate"]),
            (put("noise", value="\x1b[2J\n" * 99), ["noise"]),
            (put("epsilons", "\x1b[2J\n", value=1.0), ["epsilons"]),
            (put("noise", value="\ud800"), ["certificate"]),
            (put("claim", "epsilon", value=True), ["certificate"]),
            (put("events", "events", 0, "sampling_prob", value=True), ["certificate"]),
            (put("events", "events", 0, "rounds", value=True), ["certificate"]),
            (put("schedule", "stages", 0, "sampling_prob", value=True), ["certificate"]),
            (put("schedule", "budget", "unit", value=7), ["certificate"]),
            (put("schedule", "budget", "unit", value="patient_id"), ["events", "group privacy"]),
            (put("group_privacy", value=0.1), ["group privacy"]),
            (put("date", value="2026-01-31T10:00:00"), ["certificate"]),
            (put("date", value="20260131"), ["certificate"]),
            (put("versions", "dpdistill", value="newest"), ["certificate"]),
            (put("versions", "dpdistill", value=1), ["certificate"]),
            (put("versions", "torch", value="2.0"), ["certificate"]),
            (put("versions", value={}), ["certificate"]),
            (put("format", value=1), ["certificate"]),
            (put("format", value=4), ["certificate"]),
            (put("format", value=5), ["certificate"]),
            (put("format", value=6), ["certificate"]),
            (put("releases", value="ab"), ["certificate"]),
            (put("comment", value="audited"), ["certificate"]),
            (put("format", value=True), ["certificate"]),
            (put("format", value="3"), ["certificate"]),
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

    @pytest.mark.parametrize("key", FIELDS)
    def test_missing_and_wrong_keys(self, demo, key):
        edit(demo, put(key, value=[0.5]))
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
    @pytest.mark.parametrize("schedule", [FULL, SAMPLED], ids=["full", "sampled"])
    def test_absurd_noise(self, tmp_path, schedule):
        demo = make(tmp_path / "demo", schedule)
        edit(demo, put("schedule", "noise_multipliers", value=[1e-3] * 2))
        assert failed(verify(demo)) == ["events", "epsilon"]

    @pytest.mark.parametrize("noise_multiplier", [1e-200, 10**400], ids=["tiny", "huge"])
    @pytest.mark.parametrize("schedule", [FULL, SAMPLED], ids=["full", "sampled"])
    def test_noise_that_no_accountant_takes(self, tmp_path, schedule, noise_multiplier):
        demo = make(tmp_path / "demo", schedule)
        edit(demo, put("schedule", "noise_multipliers", value=[noise_multiplier] * 2))
        verification = verify(demo)
        assert failed(verification) == ["certificate"]
        assert detail(verification, "certificate") == "The certificate's 'schedule' is not a schedule."

    def test_full_batch_claim_lowered(self, tmp_path):
        contract.check_full_batch_claims()
        schedule = Schedule(FULL.stages, FULL.noise_multipliers, Budget(1 - 1e-6))
        assert failed(verify(make(tmp_path / "demo", schedule))) == ["epsilon"]

    def test_sampled_claim_lowered(self, tmp_path):
        schedule = Schedule(SAMPLED.stages, SAMPLED.noise_multipliers, Budget(1.98))
        assert failed(verify(make(tmp_path / "demo", schedule))) == ["epsilon"]

    def test_sampled_noise_lowered(self, tmp_path):
        schedule = Schedule(SAMPLED.stages, tuple(0.98 * s for s in SAMPLED.noise_multipliers), SAMPLED.budget)
        verification = verify(make(tmp_path / "demo", schedule))
        assert failed(verification) == ["epsilon"]
        assert "cost at least epsilon=2.0" in detail(verification, "epsilon")

    def test_sampled_beyond_the_tolerance_of_the_pld(self, tmp_path, monkeypatch):
        monkeypatch.setattr(arithmetic, "epsilon_lower_bound", lambda *_: 0.0)
        schedule = Schedule(SAMPLED.stages, SAMPLED.noise_multipliers, Budget(1.99))
        verification = verify(make(tmp_path / "demo", schedule))
        assert failed(verification) == ["epsilon"]
        assert "by the PLD" in detail(verification, "epsilon")

    def test_accountants_that_disagree(self, demo, monkeypatch):
        monkeypatch.setattr(arithmetic, "epsilon_pld", lambda *_: 1.0003)
        verification = verify(demo)
        assert failed(verification) == ["epsilon"]
        assert "they disagree" in detail(verification, "epsilon")


class TestFiles:
    def test_extra_files_that_look_like_a_runs_fail(self, demo):
        for name in ("more.npz", "records.CSV", "old/report.html", "images/cover.png", "images/0/me.txt", ".x.json"):
            (demo / name).parent.mkdir(exist_ok=True)
            (demo / name).write_bytes(b"real records")
            verification = verify(demo)
            assert failed(verification) == ["files"]
            assert detail(verification, "files") == (
                f"The files are not those of the certificate: {name} is not in the certificate."
            )
            (demo / name).unlink()
        assert failed(verify(demo)) == []

    def test_other_files_are_named(self, demo):
        (demo / "notes").mkdir()
        (demo / "notes" / "a\x1b[2J.txt").write_bytes(b"")
        (demo / "LICENSE").write_bytes(b"")
        verification = verify(demo)
        assert failed(verification) == []
        assert [check.detail for check in verification.checks if check.name == "not covered"] == [
            f"{name} is not in the certificate and was not checked." for name in ("LICENSE", "notes/a\\x1b[2J.txt")
        ]

    def test_links_pipes_and_devices_fail(self, demo, tmp_path):
        def link(path, to):
            os.remove(path)
            path.symlink_to(to)

        def link_folder():
            (demo / "images" / "0").symlink_to(elsewhere / "images" / "0")

        picture, elsewhere = demo / "images" / "0" / "000.png", tmp_path / "elsewhere"
        shutil.copytree(demo, elsewhere)
        for name, change in (
            ("images/0/000.png", lambda: link(picture, elsewhere / "images" / "0" / "000.png")),
            ("images/0/000.png", lambda: link(picture, "/dev/zero")),
            ("certificate.json", lambda: link(demo / "certificate.json", elsewhere / "certificate.json")),
            ("report.html", lambda: (demo / "report.html").symlink_to(elsewhere / "recipe.json")),
            ("images/0", lambda: (shutil.rmtree(demo / "images" / "0"), link_folder())),
            ("linked", lambda: (demo / "linked").symlink_to(demo / "images")),
            ("dangling", lambda: (demo / "dangling").symlink_to(demo / "nothing")),
            ("pipe", lambda: os.mkfifo(demo / "pipe")),
        ):
            change()
            verification = verify(demo)
            assert failed(verification) == ["files"]
            assert detail(verification, "files").startswith(
                f"Expected regular files; these are links, pipes or devices: {name}."
            )
            shutil.rmtree(demo)
            shutil.copytree(elsewhere, demo)

    def test_a_folder_that_might_be_a_class_fails(self, demo):
        (demo / "images" / "bird").mkdir()
        verification = verify(demo)
        assert failed(verification) == ["files"]
        assert "images/bird is not in the certificate" in detail(verification, "files")

    def test_deep_folders_are_no_traceback(self, demo):
        deepest = []
        for k in range(1200):
            deepest.append("d")
            if k % 400 == 399:  # a path is at most 4096 bytes long
                (demo / "/".join(deepest)).mkdir(parents=True)
        try:
            assert failed(verify(demo)) == []
        finally:
            subprocess.run(["rm", "-rf", str(demo / "d")], check=True)  # too deep for shutil.rmtree

    def test_no_more_than_twenty_are_named(self, demo):
        for k in range(25):
            (demo / f"{k:02d}.txt").write_bytes(b"")
        named = [check for check in verify(demo).checks if check.name == "not covered"]
        assert len(named) == 21
        assert named[-1].detail == "5 more files are not in the certificate."

    def test_scores_are_not_covered(self, demo):
        (demo / "scores.json").write_text("{}")
        verification = verify(demo)
        assert failed(verification) == []
        assert detail(verification, "not covered") == (
            "scores.json holds scores on test records: epsilon does not cover them."
        )

    def test_the_page_is_compared(self, demo):
        assert detail(verify(demo, page=b"page"), "report") == "report.html does not exist."
        (demo / "report.html").write_bytes(b"page")
        assert results(verify(demo))["report"] is None
        assert results(verify(demo, page=b"page"))["report"] is True
        for other in (b"PAGE", b"page "):
            verification = verify(demo, page=other)
            assert failed(verification) == ["report"]
            assert "`dpdistill report` writes the page again" in detail(verification, "report")
        edit(demo, put("versions", "pillow", value="1.0"))
        verification = verify(demo, page=b"other")
        assert failed(verification) == []
        assert "the folder was made with pillow 1.0, so it was not compared" in detail(verification, "report")
        assert verification.outcome == NOT_COMPARED

    def test_the_schema_is_compared(self, demo):
        assert results(verify(demo, schema=FACTS))["schema"] is True
        edit(demo, put("schema", "unit", value="patient"))
        verification = verify(demo, schema=FACTS)
        assert failed(verification) == ["schema", "events"]
        assert detail(verification, "schema") == "synthetic.npz and the certificate differ in unit."
        assert failed(verify(demo, fault="synthetic.npz cannot be read.")) == ["folder", "events"]

    def test_the_slack_is_that_of_the_queries(self, tmp_path, demo):
        assert results(verify(demo))["slack"] is None
        assert failed(verify(demo, slacks=("float64",))) == ["slack"]
        other = make(tmp_path / "other", slack="float64")
        assert failed(verify(other, slacks=("float64",))) == []
        verification = verify(other, slacks=(None,))
        assert failed(verification) == ["slack"]
        assert detail(verification, "slack") == (
            "The stated slack of the sums is not that of the recipe's queries: float64."
        )

    def test_a_name_that_is_there_twice(self, demo):
        text = (demo / "certificate.json").read_text()
        (demo / "certificate.json").write_text(text.replace('"noise":', '"noise": "secret", "noise":', 1))
        verification = verify(demo)
        assert failed(verification) == ["certificate"]
        assert "Expected each name once in an object of" in detail(verification, "certificate")

    def test_what_the_run_says_of_itself(self, tmp_path):
        demo = make(tmp_path / "demo", backend="gpu (H200)", self_test="rows bit-identical beside other rows")
        assert detail(verify(demo), "self-test") == (
            "Stated by the certificate, not checked: the run computed on gpu (H200); tested before:"
            " rows bit-identical beside other rows."
        )

    def test_a_large_delta_is_said(self, tmp_path):
        demo = make(tmp_path / "demo", calibrate(PLAN, Budget(1.0, 1e-3)))
        assert failed(verify(demo)) == []
        assert "the guarantee of a record may fail altogether" in detail(verify(demo), "covered")
        edit(demo, put("scope", value=SCOPE))
        assert failed(verify(demo)) == ["events"]


class TestHandover:
    @pytest.fixture
    def run(self, demo):
        run = demo.with_name("demo.run")
        run_all(run)
        digest = hashlib.sha256((demo / "certificate.json").read_bytes()).hexdigest()
        (run / "finished").write_text(f"{'0' * 64}\n{digest}\n")
        return run

    def test_the_certificate_that_was_handed_over(self, demo, run):
        assert results(verify(demo))["handover"] is True
        assert results(verify(demo, run))["handover"] is True
        (run / "finished").unlink()
        assert "handover" not in results(verify(demo))

    def test_replaced_records_and_an_honest_hash_of_them(self, demo, run):
        np.savez(demo / "synthetic.npz", X=np.zeros(6))
        digest = hashlib.sha256((demo / "synthetic.npz").read_bytes()).hexdigest()
        edit(demo, put("files", "synthetic.npz", value=digest))
        verification = verify(demo)
        assert failed(verification) == ["handover"]
        assert detail(verification, "handover") == (
            "The run wrote another certificate: the folder was changed after the run."
        )

    def test_a_later_set_from_the_same_releases(self, demo, run, tmp_path):
        again = make(tmp_path / "again", date="2020-01-01")
        verification = verify(again, run)
        assert failed(verification) == []
        assert results(verification)["handover"] is None


OTHERS = [
    ({"method": "dos"}, "method"),
    ({"seed": 1}, "seed"),
    ({"origin": "selected on digits"}, "origin"),
]
IN_THE_LEDGER = [
    *OTHERS,
    ({"schema": FACTS | {"classes": list("abcdefghij")}}, "schema"),
    ({"noise": "insecure: seeded noise"}, "noise"),
]


class TestRecipe:
    @pytest.mark.parametrize(
        ("change", "name"), [*OTHERS, ({"fields": {"per_class": 5}}, "fields"), ({"title": ""}, "title")]
    )
    @pytest.mark.parametrize("schedule", [FULL, None], ids=["private", "without a guarantee"])
    def test_another_recipe_in_the_folder(self, tmp_path, schedule, change, name):
        demo = make(tmp_path / "demo", schedule)
        honest = (demo / "recipe.json").read_text()
        (demo / "recipe.json").write_text(json.dumps(RECIPE | change))
        verification = verify(demo)
        assert failed(verification) == ["files", "recipe"]
        assert detail(verification, "recipe") == f"recipe.json and the certificate differ in {name}."
        (demo / "recipe.json").write_text(json.dumps({k: v for k, v in RECIPE.items() if k not in change}))
        assert failed(verify(demo)) == ["files", "recipe"]
        (demo / "recipe.json").write_text(honest)
        edit(demo, put("recipe", name, value=change[name]))
        assert failed(verify(demo)) == ["recipe"]

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "null", "[" * 100_000, '"\x00', json.dumps(RECIPE)[:-1] + ', "seed": 0}']
    )
    def test_what_is_no_recipe(self, demo, text):
        (demo / "recipe.json").write_text(text)
        assert failed(verify(demo)) == ["files", "recipe"]

    def test_no_recipe(self, demo):
        (demo / "recipe.json").unlink()
        verification = verify(demo)
        assert failed(verification) == ["files", "recipe"]
        assert "recipe.json is missing" in detail(verification, "files")
        edit(demo, lambda certificate: certificate["files"].pop("recipe.json"))
        assert "recipe.json is not listed" in detail(verify(demo), "files")

    @pytest.mark.parametrize("name", ["title", "origin", "changed", "references"])
    def test_what_the_method_does_not_say_of_itself(self, demo, name):
        assert failed(verify(demo, recipe=RECIPE)) == []
        verification = verify(demo, recipe=RECIPE | {name: "another"})
        assert failed(verification) == ["origin"]
        assert detail(verification, "origin") == f"The method states another {name} for these fields."
        edit(demo, put("versions", "dpdistill", value="0.0.1"))
        verification = verify(demo, recipe=RECIPE | {name: "another"})
        assert failed(verification) == ["origin"]
        assert detail(verification, "origin") == (
            f"The method states another {name} for these fields; the certificate was made with dpdistill 0.0.1, whose"
            " verify may check more."
        )

    @pytest.mark.parametrize(("change", "name"), IN_THE_LEDGER)
    @pytest.mark.parametrize("free", [None, {"per_class"}])
    def test_another_recipe_in_the_ledger(self, demo, change, name, free):
        run_all(demo.with_name("demo.run"), recipe=WHOLE | change)
        verification = verify(demo, free=free)
        assert failed(verification) == ["ledger"]
        assert detail(verification, "ledger") == f"The run's ledger has another recipe than the certificate: {name}."

    @pytest.mark.parametrize("fields", [{"per_class": 5}, {}, {"per_class": 10, "\x1b[2J\ud800": 1}])
    def test_other_fields_in_the_ledger(self, demo, fields):
        changed = "per_class" if len(fields) < 2 else "\x1b[2J\ud800"
        # Another origin goes with other fields.
        run_all(demo.with_name("demo.run"), recipe=WHOLE | {"fields": fields, "origin": "caller changed per_class"})
        for free, passed in (({changed}, True), ((), False), ({"rounds"}, False), (None, None)):
            verification = verify(demo, free=free)
            assert failed(verification) == (["ledger"] if passed is False else [])
            assert results(verification)["ledger"] is passed
            assert ascii(changed)[1:-1] in detail(verification, "ledger")

    @pytest.mark.parametrize("fields", [None, 3, [1]])
    def test_no_fields(self, demo, fields):
        run_all(demo.with_name("demo.run"), recipe=WHOLE | {"fields": fields})
        assert failed(verify(demo)) == ["ledger"]
        edit(demo, put("recipe", "fields", value=fields))
        assert failed(verify(demo)) == ["recipe", "ledger"]


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


@pytest.mark.parametrize(
    ("checks", "outcome"),
    [
        ([(True, True), (None, True)], PASSED),
        ([(True, True), (False, True)], FAILED),
        ([(True, True), (None, False)], NOT_COMPARED),
        ([(False, True), (None, False)], FAILED),
    ],
)
def test_the_outcome_is_one_of_three(checks, outcome):
    verification = Verification(tuple(Check("a", passed, ".", compared) for passed, compared in checks))
    assert verification.outcome == outcome
    assert verification.passed is (outcome == PASSED)


HOSTILE = [Stage(15_000, 0.01 + k / 1e4) for k in range(64)]


class TestWork:
    """A certificate of 64 stages of 15,000 rounds kept verify busy for minutes."""

    @pytest.mark.parametrize(
        ("stages", "sentence"),
        [
            (HOSTILE, "at most 4 stages with sampling, to compute its epsilon; got 64"),
            ([Stage(1, 0.5)] * 5, "at most 4 stages with sampling, to compute its epsilon; got 5"),
            ([Stage(1)] * 65, "at most 64 stages, to compute its epsilon; got 65"),
            ([Stage(2_000_000)], "at most 1,000,000 rounds, to compute its epsilon; got 2,000,000"),
            ([Stage(10**400)], "at most 1,000,000 rounds, to compute its epsilon; got a billion or more"),
        ],
    )
    def test_what_takes_too_long_is_refused_in_a_sentence(self, demo, stages, sentence):
        schedule = Schedule(tuple(stages), (5.0,) * len(stages), Budget(1.0))
        stated = json.loads(schedule.to_json())
        stated["budget"] |= {"unit": None, "rows_per_unit": 1}
        edit(demo, put("schedule", value=stated))
        began = time.monotonic()
        verification = verify(demo)
        assert time.monotonic() - began < 5.0
        assert failed(verification) == ["certificate"]
        assert detail(verification, "certificate") == f"The schedule is not checked. Expected a plan of {sentence}."
        with pytest.raises(ValueError, match=sentence):
            calibrate(stages, Budget(1.0))

    def test_every_published_recipe_is_far_below(self):
        plans = [row.build().plan() for row in all_published().values() if row.epsilon is not None]
        assert len(plans) > 50
        assert max(sum(stage.sampling_prob < 1.0 for stage in plan) for plan in plans) == 1
        assert max(map(len, plans)) <= 6
        assert max(sum(stage.rounds for stage in plan) for plan in plans) <= MAX_ROUNDS / 4


class TestText:
    """One text for each certificate: no two readers take it for two things."""

    @pytest.mark.parametrize(
        "change",
        {
            "BOM": lambda text: "\ufeff" + text,
            "CRLF": lambda text: text.replace("\n", "\r\n"),
            "1e0": lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1e0', 1),
            "1": lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1.00', 1),
            "escape": lambda text: text.replace('"noise"', '"nois\\u0065"', 1),
            "space": lambda text: text.replace('"noise": ', '"noise":  ', 1),
            "behind": lambda text: text + " ",
            "twice": lambda text: text.replace('"noise": ', '"noise": "none",\n  "noise": ', 1),
            "infinity": lambda text: text.replace('"epsilon": 1.0', '"epsilon": 1e400', 1),
            "nan": lambda text: text.replace('"epsilon": 1.0', '"epsilon": NaN', 1),
            "digits": lambda text: text.replace('"seed": 0', '"seed": ' + "9" * 5000, 1),
        }.items(),
        ids=lambda change: change[0],
    )
    def test_another_text_of_the_same_certificate(self, demo, change):
        text = (demo / "certificate.json").read_text()
        (demo / "certificate.json").write_bytes(change[1](text).encode())
        assert (demo / "certificate.json").read_bytes() != text.encode()
        assert failed(verify(demo)) == ["certificate"]

    @pytest.mark.parametrize("depth", [40, 700, 50_000])
    def test_deep_nesting(self, demo, depth):
        text = (demo / "certificate.json").read_text()
        deep = "[" * depth + "]" * depth
        (demo / "certificate.json").write_text(text.replace('"seed": 0', f'"seed": {deep}', 1))
        assert failed(verify(demo)) == ["certificate"]
        if depth < 1000:
            nested = []
            for _ in range(depth):
                nested = [nested]
            (demo / "certificate.json").write_text(text)
            edit(demo, put("recipe", "seed", value=nested))
            verification = verify(demo)
            assert failed(verification) == ["certificate"]
            assert "nested more deeply" in detail(verification, "certificate")
