"""The driver: what a certificate says of a linear query's arithmetic, and how recipes are written down."""

import gc
import json
import re
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import contract
import jax.numpy as jnp
import numpy as np
import pytest
from contract import make_records

from dpdistill import begin_ledger, run
from dpdistill.accounting.schedule import Budget
from dpdistill.certificate.build import read_certificate
from dpdistill.certificate.check import FAILED, Expected
from dpdistill.certificate.verify import check_certificate
from dpdistill.errors import CuratorError
from dpdistill.features.scattering import ScatterNet
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method, finish_field, no_progress, release_field
from dpdistill.methods import METHODS
from dpdistill.methods.decoupled_kip import DecoupledKIP
from dpdistill.private.noise import SeededEntropy
from dpdistill.query import SLACK_TEXT, Stage
from dpdistill.recipe.fields import to_json
from dpdistill.run.driver import backend
from dpdistill.storage.feature_store import Features
from dpdistill.workers import Workers

RECORDS, BUDGET = make_records(30), Budget(3.0)


@dataclass(frozen=True, kw_only=True)
class Sums(Method):
    """Two noised sums of all records, and their signs as a set: with a linear query, or without."""

    linear: int = release_field(1, "whether the query is linear", ge=0)
    turned: int = finish_field(0, "whether the signs are turned", ge=0)

    title = "Sums"
    name = "two-sums"
    references = ()

    def plan(self):
        return (Stage(2),)

    def init(self, key, schema):
        return np.zeros((2, 64))

    def ask(self, state):
        query = contract.FlatLinear(clip_norm=2.0) if self.linear else contract.FlatQuery(2.0, by_class=False)
        return query, jnp.ones(())

    def tell(self, state, release):
        return np.concatenate([state[1:], release.value[None]])

    def finish(self, state, schema, progress=None):
        X = np.sign(state + 0.5).reshape(2, 8, 8, 1) * (-1 if self.turned else 1)
        return Distilled(X.astype(np.float32), np.array([0, 1], np.int32), schema)


def alive_features() -> int:
    return sum(type(thing) is Features for thing in gc.get_objects())


class KeepsFeatures(DecoupledKIP):
    """Counts the arrays of records' features that are alive when the set is made."""

    kept: ClassVar[list[int]] = []

    def finish(self, state, schema, progress=None):
        self.kept.append(alive_features())
        return super().finish(state, schema, progress or no_progress)


@pytest.mark.parametrize("distil", [run.distill, run.distill_without_privacy])
def test_features_of_records_are_gone_before_the_set_is_made(distil):
    KeepsFeatures.kept.clear()
    gc.collect()
    before = alive_features()
    distil(RECORDS, KeepsFeatures(rounds=2, steps=1, per_class=1, probes=0.0))
    assert KeepsFeatures.kept == [before]


@pytest.mark.parametrize(
    ("method", "epsilon"),
    [
        (METHODS["dp-kip"](balance=0.5, per_class=320, rounds=3), 1.0),  # its gradients have too many terms
        # Its signals have too little noise for a grid.
        pytest.param(METHODS["dos-kip"](rounds=1, networks=20, width=4), 1500.0, marks=pytest.mark.variants),
    ],
    ids=["dp-kip", "dos-kip"],
)
def test_what_a_later_stage_cannot_ask_is_refused_before_anything_is_paid(method, epsilon, tmp_path):
    ledger = begin_ledger(tmp_path / "all.ledger", 2 * epsilon)
    with pytest.raises(CuratorError, match=r"error_bound|noise_multiplier"):
        run.distill(RECORDS, method, Budget(epsilon), ledger=ledger)
    assert DatasetLedger(ledger).summary().runs == ()


def test_a_method_of_several_stages_counts_its_rounds():
    class TwoStages(Sums):
        def plan(self):
            return Stage(1), Stage(1)

    with pytest.raises(
        TypeError, match=r"Expected TwoStages, which has several stages, to count its rounds as state\["
    ):
        run.distill(RECORDS, TwoStages(), BUDGET)


def test_machines_of_a_cluster_are_not_said_to_be_this_one(monkeypatch):
    monkeypatch.setattr(Workers, "holders", lambda workers, folder: nullcontext())  # this process
    found = [
        run.distill(RECORDS, Sums(), BUDGET, workers=workers).backend
        for workers in (Workers(2), Workers(2, ray="local"), Workers(2, ray="auto", share="/everywhere"))
    ]
    assert found == [backend(), backend(), f"{backend()}; its sums on machines of a Ray cluster, not stated"]


def slack_of(result, folder) -> Any:
    """What the saved certificate says, once it is verified."""
    result.save(folder)
    assert check_certificate(folder, expect=lambda _: Expected(plan=Sums().plan())).outcome != FAILED
    return read_certificate(folder)["slack"]


@pytest.mark.parametrize(("linear", "expected"), [(1, SLACK_TEXT), (0, None)])
class TestSlack:
    def test_of_a_run_and_of_its_releases_used_again(self, linear, expected, tmp_path):
        method = Sums(linear=linear)
        result = run.distill(RECORDS, method, BUDGET, run_dir=tmp_path / "a.run")
        assert slack_of(result, tmp_path / "a") == expected
        assert RunLedger.read(tmp_path / "a.run").recipe["method"] == "two-sums"
        again = run.finish_again(tmp_path / "a.run", Sums(linear=linear, turned=1))
        assert slack_of(again, tmp_path / "b") == expected
        np.testing.assert_array_equal(again.X, -result.X)
        first, second = (read_certificate(tmp_path / name) for name in "ab")
        for key in ("backend", "self_test"):
            assert "the run that made the releases" in second[key]
            assert second[key] != first[key]
        anew = run.distill(RECORDS, method, BUDGET)
        seeded = run.distill(RECORDS, method, BUDGET, entropy=SeededEntropy(1))
        seeded.save(tmp_path / "c")
        assert read_certificate(tmp_path / "c")["releases"] is None  # without secret noise it is of the records
        assert re.fullmatch("[0-9a-f]{64}", first["releases"])
        assert first["releases"] == second["releases"] == result.releases != anew.releases
        said = {check.name: check.detail for check in check_certificate(tmp_path / "b").checks}["releases"]
        assert said.startswith(
            f"Release id, as stated by the certificate, not checked: {first['releases']}; sets with this id were"
        )
        another = json.loads((tmp_path / "b" / "croissant.json").read_text())["rai:dataReleaseMaintenancePlan"]
        assert (
            f"Another set made from the same noised sums (id {first['releases']} in certificate.json) costs" in another
        )

    def test_of_a_run_that_goes_on(self, linear, expected, tmp_path):
        method, settings = Sums(linear=linear), {"run_dir": tmp_path / "a.run"}

        def stop(stage, done, total):
            if done == 1:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run.distill(RECORDS, method, BUDGET, progress=stop, **settings)
        assert len(RunLedger.read(tmp_path / "a.run").events) == 1
        result = run.distill(RECORDS, method, BUDGET, **settings)
        assert slack_of(result, tmp_path / "a") == expected
        said = f"{backend()}; of its rounds before it was started again, not stated"
        assert read_certificate(tmp_path / "a")["backend"] == said

    def test_without_a_guarantee_there_is_none(self, linear, expected, tmp_path):
        assert run.distill_without_privacy(RECORDS, Sums(linear=linear)).releases is None
        assert slack_of(run.distill_without_privacy(RECORDS, Sums(linear=linear)), tmp_path / "a") is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            (RECORDS.X, Sums(), BUDGET),
            "Expected records from load(...) or Records.from_arrays(X, y, ...); got num",
        ),
        ((RECORDS, "dos", BUDGET), "Expected a method with its fields, such as DOS(per_class=10); got builtins.str"),
        ((RECORDS, Sums, BUDGET), "Expected a method with its fields, such as DOS(per_class=10); got the class Sums."),
        ((RECORDS, Sums(), 1.0), "Expected a budget such as Budget(epsilon=1.0), or None; got builtins.float."),
    ],
)
def test_what_is_of_another_type_is_refused_by_name(given, says):
    with pytest.raises(TypeError, match=re.escape(says)):
        run.distill(*given)
    if given[-1] is BUDGET:
        with pytest.raises(TypeError, match=re.escape(says)):
            run.distill_without_privacy(*given[:2])


def test_a_method_that_misstates_its_queries_is_refused():
    class Misstated(Sums):
        def ask(self, state):
            return Sums(linear=1 - self.linear).ask(state)

    for linear, stated in ((1, False), (0, True)):
        with pytest.raises(TypeError, match=f"Expected Misstated to state linear={stated}, as its first query is"):
            run.distill(RECORDS, Misstated(linear=linear), BUDGET)


def test_a_later_linear_query_that_is_not_stated_is_not_asked():
    class Turns(Sums):
        def ask(self, state):
            return Sums(linear=int(bool(np.any(state)))).ask(state)

    with pytest.raises(TypeError, match="Expected Turns to state linear=True: the query of round 1 is linear"):
        run.distill(RECORDS, Turns(linear=0), BUDGET)


def test_fields_as_json():
    kernel = FeatureKernel(ScatterNet(groups=27))
    encoder = {"kind": "ScatterNet", "J": 2, "L": 8, "groups": 27, "per_position": False, "normalise": False}
    assert to_json(kernel) == {"kind": "FeatureKernel", "encoder": encoder}
    assert to_json((1, ("a", FCNTK(2, 1.0, 0.0)), None)) == [
        1, ["a", {"kind": "FCNTK", "depth": 2, "w_std": 1.0, "b_std": 0.0}], None,
    ]  # fmt: skip
    assert to_json(FCNTK) is FCNTK
    assert json.loads(json.dumps(to_json(kernel))) == to_json(kernel)


@dataclass(frozen=True, kw_only=True)
class Kernels(Sums):
    kernel: FCNTK = release_field(FCNTK(2), "a kernel")
    strategies: tuple[Literal["crop"], ...] = release_field(("crop",), "words")

    name = "kernels"


def test_a_recipe_names_what_differs_from_the_defaults():
    same, other = Kernels(kernel=FCNTK(2), strategies=("crop",)), Kernels(kernel=FCNTK(2, b_std=0.0))
    assert run.recipe_of(same, 3)["changed"] == []
    assert run.recipe_of(same, 3)["origin"] == "package default"
    assert run.recipe_of(other, 3)["changed"] == ["kernel"]
    assert run.recipe_of(other, 3)["origin"] == "caller changed kernel"
    assert run.recipe_of(other, 3)["method"] == "kernels"
    assert run.recipe_of(other, 3)["fields"]["kernel"] == {"kind": "FCNTK", "depth": 2, "w_std": 2**0.5, "b_std": 0.0}
    assert run.recipe_of(other, 3)["fields"]["strategies"] == ["crop"]
