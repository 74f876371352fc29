"""Audits and attacks from Python: the commands print what the public functions return."""

import json
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
from run_command import dpdistill, refused, succeeds

import dpdistill as dp
from dpdistill.cli import app

RECIPE = dp.RecipeChoice(method="dp-merf", settings=("steps=2", "samples=40"))
MERF = ("--method", "dp-merf", "--set", "steps=2", "--set", "samples=40")
SCHEMA = """
dpdistill: table schema
reviewed: true
label: outcome
classes: [died, recovered]
columns:
  - {name: age, kind: integer, bounds: [0, 110]}
  - {name: ward, kind: categorical, categories: [A, B]}
"""


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def in_json(*argv):
    code, out, err = dpdistill(*argv, "--json")
    assert code == 0, err
    return json.loads(out)


def as_read(results):
    return json.loads(json.dumps(results))


def arrays(n, seed=0, labels=None):
    X = np.random.default_rng(seed).integers(0, 256, (n, 8, 8, 1)).astype(np.uint8)
    y = np.arange(n) % 2 if labels is None else labels
    return dp.Records.from_arrays(X, y, "cat,dog", (0.0, 255.0), strict=False)


class TestSet:
    def test_images(self, here):
        succeeds("distill", "digits:train", "--out", "shared", *MERF)
        told = in_json("audit", "shared", "--members", "digits:train", "--non-members", "digits:test")
        found = dp.audit("shared", "digits:train", "digits:test", out="copy")
        assert told["results"] == as_read(found.to_json())
        assert told["page"] == str(here / "shared.audit/audit.html")
        for name in ("audit.html", "audit.json"):
            assert (here / "shared.audit" / name).read_bytes() == (here / "copy.audit" / name).read_bytes()
        assert (here / "copy.audit").stat().st_mode & 0o777 == 0o700
        assert {name: roc.area for name, roc in found.membership.items()} == {
            name: each["area"] for name, each in told["results"]["membership"].items()
        }
        assert (found.sizes, found.left_out, found.repeated) == ((1438, 359), (0, 0), 0)
        assert found.marginals is None
        again = dp.audit("shared", dp.load("digits:train"), dp.load("digits:test", "test"))
        assert again.to_json() == found.to_json()
        assert repr(found) == "SetAudit(Of shared.)"

    def test_a_table(self, here):
        rows = [(20 + i % 50, "AB"[i % 2], ("died", "recovered", "recovered")[i % 3]) for i in range(60)]
        frame = pd.DataFrame(rows, columns=["age", "ward", "outcome"])
        frame.iloc[:40].to_csv("rows.csv", index=False)
        frame.iloc[40:].to_csv("others.csv", index=False)
        (here / "schema.yaml").write_text(SCHEMA)
        small = ("--set", "frequencies=9", "--set", "steps=2", "--set", "samples=30", "--set", "hidden=4")
        succeeds("distill", "rows.csv", "--schema", "schema.yaml", "--out", "shared", *small)
        reading = dp.MemberReading(schema="schema.yaml")
        stated = ("audit", "shared", "--schema", "schema.yaml", "--members", "rows.csv")
        alone, both = in_json(*stated), in_json(*stated, "--non-members", "others.csv")
        assert alone["results"] == as_read(dp.audit("shared", "rows.csv", reading=reading).to_json())
        assert alone["results"]["rows"] == {"real": 40, "synthetic": 30, "left_out": 0}
        found = dp.audit("shared", frame.iloc[:40], frame.iloc[40:], reading=reading)
        assert both["results"] == as_read(found.to_json())
        assert [*found.membership] == ["distance", "loss"]
        assert not (here / "none.audit").exists()
        assert found.save("none") == here / "none.audit/audit.html"


class TestRun:
    @pytest.mark.slow
    def test_what_is_public_of_two_runs_with_one_seed_is_equal(self, here):
        told = in_json("audit", "run", "digits:train", "--out", "one", *MERF, "--canaries", 300, "--seed", 7)
        found = dp.audit_run("digits:train", RECIPE, dp.Budget(1.0), canaries=300, seed=7, out="two")
        public = found.to_json()
        for key in ("canaries", "certified", "confidence"):
            assert told["results"][key] == as_read(public[key])
        guesses = {name: each["guesses"] for name, each in told["results"]["attacks"].items()}
        assert guesses == found.guesses == {"all rounds": 60, "differences": 60, "nearest synthetic record": 30}
        assert 100 < told["results"]["included"] < 200  # by coins that no seed fixes
        assert found.result.recipe["seed"] == 7
        assert found.summary == "dp-merf on 300 canaries among the records."
        assert (here / "two.audit/canaries.html").exists()
        assert not (here / "two").exists()

    def test_a_published_recipe_is_audited_as_it_is_distilled(self):
        stated = dp.RecipeChoice(recipe="dos-kip-cifar10-eps1", method="dos")
        with pytest.raises(dp.DataError, match="A recipe determines its method"):
            dp.audit_run("digits:train", stated)

    @pytest.mark.parametrize("audit", [dp.audit_run, dp.audit_shadows, dp.audit_method])
    def test_units_are_refused(self, here, audit):
        budget = dp.Budget(1.0, unit="person", rows_per_unit=2)
        with pytest.raises(dp.DataError, match=r"Expected a budget of single records: an audit takes single rows\."):
            audit("missing", budget=budget)
        (here / "units.yaml").write_text(SCHEMA + "unit_column: person\n")
        with pytest.raises(
            dp.DataError, match=r"units\.yaml states unit_column 'person', and an audit takes single rows"
        ):
            audit("missing", reading=dp.Reading(schema="units.yaml"))

    def test_leaks_and_records_to_try_are_checked_first(self):
        with pytest.raises(dp.DataError, match="Unknown leak 'x': choose among noised-again"):
            dp.audit_run("missing", leak="x")
        with pytest.raises(dp.DataError, match="or 'all'; got 'some'"):
            dp.audit_method("missing", chosen="some")


class Own(dp.LDPDC):
    name = "own"


class TestMethod:
    def test_a_method_outside_of_the_package_is_distilled_and_audited(self):
        records, method = arrays(12), Own(per_class=1, sampling_prob=1.0)
        result = dp.distill(records, method, dp.Budget(1.0))
        assert result.schedule is not None
        assert (result.recipe["method"], result.schedule.budget.epsilon) == ("own", 1.0)
        found = dp.audit_method(records, method, chosen=1, fresh=False)
        assert (found.method, found.found) == ("own", False)

    def test_a_method_and_a_function_that_makes_one(self, here):
        records, method = arrays(12), dp.LDPDC(per_class=2, sampling_prob=1.0)
        audit = partial(dp.audit_method, records, chosen=(3,), fresh=False)
        found = audit(method, out="mine")
        assert str(found) == "No leak was found for the 1 record tried, of 12, in 5 replays"
        assert (found.method, [*found.chosen]) == ("ldpdc", [3])
        assert json.loads((here / "mine.audit/method.json").read_text())["tried"] == {"3": "stated"}
        assert not audit(lambda records: method).found

    def test_records_of_no_use_are_in_no_shadow(self):
        records = arrays(40, labels=np.r_[np.arange(36) % 2, -np.ones(4, int)])
        found = dp.audit_shadows(records, dp.KIP(rounds=1, per_class=1), runs=4)
        assert found.schedule is None
        assert found.summary == "kip, without privacy."
        tried = found.membership["distance"]
        assert 100 < len(tried.members) + len(tried.others) <= 4 * 36


class TestAttack:
    def test_training(self, here):
        how = ("--records", 4, "--widths", "8", "--training-steps", 100, "--steps", 3, "--layers", 1)
        told = in_json("attack", "training", "digits:train", "--out", "one", *how, "--positive", "1,3,5,7,9")
        training = dp.VictimTraining(
            records=4, widths=(8,), training_steps=100, layers=1, positive=("1", "3", "5", "7", "9")
        )
        found = dp.attack_training("digits:train", training=training, search=dp.TrainingSearch(steps=3), out="two")
        assert told["results"] == as_read(found.to_json())
        assert (found.rebuilt, len(found.members), found.removed) == (told["results"]["rebuilt"], 4, 1)
        for name in ("training.html", "training.json"):
            assert (here / "one.audit" / name).read_bytes() == (here / "two.audit" / name).read_bytes()

    @pytest.mark.parametrize(
        ("make", "sentence"),
        [
            (partial(dp.ModelSearch, pixel_bounds=(1, 0)), "Expected --bounds as two numbers, the lower first"),
            (partial(dp.ModelSearch, pixel_bounds=3), "Expected --bounds as two numbers, 0,1; got 3"),
            (partial(dp.ModelSearch, architecture="x"), "Unknown architecture 'x'"),
            (partial(dp.VictimTraining, widths=()), "Expected --widths as whole numbers above zero"),
            (partial(dp.VictimTraining, widths=(8,), weights="x.npz"), "Expected --widths without --weights"),
            (partial(dp.attack_training, "x", reading=dp.Reading(lenient=True)), "leave out --lenient"),
            (partial(dp.attack_training, "x", reading=dp.Reading(schema="s")), "leave out --schema and --sql"),
            (partial(dp.attack_model, "a", "b", "missing"), "missing does not exist"),
        ],
    )
    def test_what_cannot_be_is_refused(self, make, sentence):
        with pytest.raises(dp.DataError) as refusal:
            make()
        assert sentence in str(refusal.value)


class TestCommands:
    @pytest.mark.parametrize("name", ["model", "training"])
    def test_attacks_on_networks_have_moved(self, here, name):
        expected = f"Expected `dpdistill attack {name}` instead of `dpdistill audit {name}`; its options are the same."
        assert refused("audit", name, "digits:train", "--out", "x") == expected
        assert refused("audit", "--quiet", name) == expected
        (here / "dpdistill.toml").write_text(f"[audit.{name}]\nsteps = 3\n")
        assert f"Unknown section '{name}' in [audit]" in refused("attack", "training", "digits:train", "--out", "x")

    def test_a_command_takes_the_fields_of_a_dataclass_that_it_names(self):
        root: Any = typer.main.get_command(app)
        groups = root.commands
        run, method = (
            {param.name: param for param in groups["audit"].commands[name].params} for name in ("run", "method")
        )
        assert {"epsilon", "delta", "seed", "ledger"} <= {*run}
        assert not {"adjacency", "overwrite", "class_size"} & {*run}
        assert "adjacency" in method
        assert "FILE.py:NAME" in method["method"].help
        assert "FILE.py:NAME" not in run["method"].help
        assert method["recipe"].help == run["recipe"].help
