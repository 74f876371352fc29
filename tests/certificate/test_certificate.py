"""The certificate: what it says, to the digit, and what it must not hold."""

import hashlib
import json
import math
import re

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from dpdistill.accounting.gaussian import gaussian_epsilon
from dpdistill.accounting.schedule import Budget, Schedule, calibrate
from dpdistill.certificate.build import (
    INFINITE,
    NO_NOISE,
    NO_SCOPE,
    SCOPE,
    SEEDED_NOISE,
    SYSTEM_NOISE,
    CertificateError,
    build_certificate,
    group_epsilon,
    read_certificate,
    unit,
    write_certificate,
)
from dpdistill.folder.layout import hash_files
from dpdistill.folder.save import write_distilled
from dpdistill.method import Distilled
from dpdistill.query import Stage
from dpdistill.schema import Schema

SCHEMA = Schema((8, 8, 1), (0.0, 16.0), tuple("0123456789"))
RECIPE = {"method": "ldpdc", "fields": {"per_class": 10}, "origin": "package default", "seed": 7}
FACTS = {"recipe": RECIPE, "schema": SCHEMA}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images" / "class-0").mkdir(parents=True)
    (tmp_path / "synthetic.npz").write_bytes(b"synthetic")
    (tmp_path / "images" / "class-0" / "000.png").write_bytes(b"image")
    (tmp_path / "recipe.json").write_text("{}")
    (tmp_path / "report.html").write_text("not covered")
    return tmp_path


def full(epsilon=1.0, rounds=1, adjacency="add-remove"):
    return calibrate((Stage(rounds),), Budget(epsilon, 1e-5, adjacency))


class TestGroups:
    @pytest.mark.parametrize("rounds", [1, 12])
    def test_full_batch(self, rounds):
        assert group_epsilon(full(1.0, rounds), 1, 1e-5) == pytest.approx(1.0, abs=1e-8)
        assert round(group_epsilon(full(1.0, rounds), 2, 1e-5), 2) == 2.15
        assert round(group_epsilon(full(1.0, rounds), 5, 1e-5), 2) == 6.17

    def test_full_batch_stages(self):
        schedule = Schedule((Stage(2), Stage(3)), (4.0, 6.0), Budget(1.0))
        mu = math.sqrt(2 / 16 + 3 / 36)
        assert group_epsilon(schedule, 3, 1e-6) == pytest.approx(gaussian_epsilon(1 / (3 * mu), 1e-6), rel=1e-12)

    def test_replace_one_starts_from_twice_mu(self):
        assert group_epsilon(full(1.0, adjacency="replace-one"), 2, 1e-5) == pytest.approx(2.15, abs=0.005)

    def test_one_sampled_row_is_the_schedules_epsilon(self):
        schedule = Schedule((Stage(30, sampling_prob=0.1),), (2.0,), Budget(2.0))
        assert group_epsilon(schedule, 1, 1e-5) == pytest.approx(schedule.epsilon(1e-5), rel=1e-3)

    def test_sampled_rows(self):
        schedule = Schedule((Stage(30, sampling_prob=0.1),), (2.0,), Budget(2.0))
        two, five = group_epsilon(schedule, 2, 1e-5), group_epsilon(schedule, 5, 1e-5)
        epsilon = schedule.epsilon(1e-5)
        assert 2 * epsilon < two < five
        # Both rows in the sample or neither costs more than independent coins.
        together = pld.from_gaussian_mechanism(
            2.0, sensitivity=2.0, sampling_prob=0.1, value_discretization_interval=1e-3
        ).self_compose(30)
        assert two < together.get_epsilon_for_delta(1e-5)
        mixture = pld.from_mixture_gaussian_mechanism(
            2.0, [0.0, 1.0, 2.0], [0.81, 0.18, 0.01], value_discretization_interval=5e-4
        ).self_compose(30)
        assert two == pytest.approx(mixture.get_epsilon_for_delta(1e-5), rel=1e-3)

    def test_sampled_under_replace_one_is_not_computed(self):
        schedule = Schedule((Stage(30, sampling_prob=0.1),), (2.0,), Budget(2.0, 1e-5, "replace-one"))
        assert group_epsilon(schedule, 2, 1e-5) is None

    def test_rows_below_one(self):
        with pytest.raises(CertificateError, match="Expected rows=0 >= 1"):
            group_epsilon(full(), 0, 1e-5)


class TestBuild:
    def test_what_it_says(self, folder):
        schedule = full()
        stated = {"backend": "cpu", "self_test": "rows bit-identical", "date": "2026-03-04"}
        certificate = build_certificate(folder, schedule=schedule, **stated, **FACTS)
        assert certificate["format"] == 3
        assert (certificate["backend"], certificate["self_test"]) == ("cpu", "rows bit-identical")
        assert certificate["claim"] == {"epsilon": 1.0, "delta": 1e-5}
        assert certificate["relation"] == "add-remove"
        assert certificate["unit"] == unit(Budget(1.0), certificate["schema"])
        assert unit(Budget(1.0), {"unit": ["patient"]}) == unit(Budget(1.0), {"unit": "row"}) == certificate["unit"]
        assert certificate["unit"].startswith(
            "one row (adding or removing one row); a person with k rows has k times mu"
        )
        assert {rows: round(epsilon, 2) for rows, epsilon in certificate["groups"].items()} == {"2": 2.15, "5": 6.17}
        # The best attack on it reaches norm.cdf(norm.ppf(rate) + mu), mu = 0.26805, and 2 norm.cdf(mu / 2) - 1.
        assert list(certificate["attacker"]) == ["0.001", "0.01", "0.05", "advantage"]
        for found, best in zip(certificate["attacker"].values(), (0.00236, 0.0197, 0.0842, 0.1066), strict=True):
            assert best <= found < 1.1 * best
        assert list(certificate["epsilons"]) == ["0.0001", "1e-05", "1e-06", "1e-07", "1e-08"]
        sigma = schedule.noise_multipliers[0]
        for delta, epsilon in certificate["epsilons"].items():
            assert epsilon == pytest.approx(gaussian_epsilon(sigma, float(delta)), rel=1e-12)
        assert certificate["events"] == {
            "kind": "composition",
            "part": "all",
            "events": [{"kind": "gaussian", "part": "all", "rounds": 1, "noise_multiplier": sigma}],
        }
        assert Schedule.from_json(json.dumps(certificate["schedule"])) == schedule
        assert certificate["noise"] == SYSTEM_NOISE == "operating-system entropy"
        assert certificate["slack"] is None
        assert certificate["recipe"] == FACTS["recipe"]
        assert Schema.from_json(certificate["schema"]) == SCHEMA
        packages = {"dpdistill", "jax", "numpy", "scipy", "dp-accounting", "pillow", "jinja2", "python"}
        assert certificate["versions"].keys() == packages
        assert re.fullmatch(r"3\.\d+\.\d+.*", certificate["versions"]["python"])
        assert certificate["date"] == "2026-03-04"
        assert certificate["scope"] == SCOPE

    def test_the_scope_names_what_is_not_covered(self):
        for words in ("choosing the recipe on these records", "other runs on them", "scores on real records"):
            assert words in SCOPE

    def test_it_holds_these_keys_and_no_other(self, folder):
        certificate = build_certificate(folder, schedule=full(), **FACTS)
        assert certificate.keys() == {
            *(
                "format",
                "claim",
                "relation",
                "unit",
                "attacker",
                "groups",
                "epsilons",
                "schedule",
                "events",
                "noise",
                "slack",
            ),
            *("backend", "self_test", "releases", "recipe", "schema", "versions", "files", "date", "scope"),
            *(
                "group_privacy",
                "inferred",
                "public_inputs",
                "choices",
                "owners",
                "scores",
                "ledger_head",
                "attestations",
            ),
        }
        assert str(folder) not in json.dumps(certificate)

    def test_the_date_has_no_time_of_day(self, folder):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", build_certificate(folder, schedule=full(), **FACTS)["date"])

    def test_replace_one(self, folder):
        certificate = build_certificate(folder, schedule=full(adjacency="replace-one"), **FACTS)
        assert certificate["relation"] == "replace-one"
        assert certificate["unit"].startswith("one row (replacing one row by another)")

    def test_what_is_not_computed_is_null(self, folder):
        schedule = Schedule((Stage(5, sampling_prob=0.1),), (2.0,), Budget(2.0, 1e-5, "replace-one"))
        certificate = build_certificate(folder, schedule=schedule, **FACTS)
        assert certificate["groups"] == {"2": None, "5": None}

    def test_seeded_noise_and_slack(self, folder):
        slack = "float64 ghost sum, bound 1e-9"
        certificate = build_certificate(folder, schedule=full(), noise=SEEDED_NOISE, slack=slack, **FACTS)
        assert certificate["noise"] == "insecure: seeded noise"
        assert certificate["slack"] == slack

    def test_no_guarantee_in_words(self, folder):
        certificate = build_certificate(folder, schedule=None, **FACTS)
        assert certificate["claim"] == {"epsilon": INFINITE, "delta": None}
        assert INFINITE == "infinite: no privacy guarantee"
        assert certificate["noise"] == NO_NOISE
        assert certificate["scope"] == NO_SCOPE
        # Without noise the releases are the records' own sums: nothing that depends on them is stated.
        assert build_certificate(folder, schedule=None, releases="1f" * 32, **FACTS)["releases"] is None
        assert build_certificate(folder, schedule=full(), releases="1f" * 32, **FACTS)["releases"] == "1f" * 32
        assert certificate["schedule"] is certificate["events"] is certificate["unit"] is None

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"noise": "none"}, "Expected noise 'operating-system entropy' or 'insecure: seeded noise'; got 'none'"),
            ({"recipe": RECIPE | {"origin": "somewhere"}}, "Expected an origin .* got 'somewhere'"),
            ({"recipe": {"method": "ldpdc"}}, "Expected an origin .* got None"),
            ({"date": "2026-03-04T10:11"}, "Expected an ISO date without a time of day; got '2026-03-04T10:11'"),
        ],
    )
    def test_refusals(self, folder, changes, message):
        with pytest.raises(CertificateError, match=message):
            build_certificate(folder, **({"schedule": full()} | FACTS | changes))

    @pytest.mark.parametrize("name", ["synthetic.npz", "recipe.json"])
    def test_no_records_or_no_recipe(self, folder, name):
        (folder / name).unlink()
        with pytest.raises(CertificateError, match=f"Expected {re.escape(name)} in"):
            build_certificate(folder, schedule=full(), **FACTS)

    def test_a_large_delta_is_explained(self, folder):
        schedule = calibrate((Stage(1),), Budget(1.0, 1e-3))
        assert build_certificate(folder, schedule=schedule, **FACTS)["scope"] == (
            f"{SCOPE} delta = 0.001 is large: with probability up to delta the guarantee of a record may fail"
            " altogether; of 1,000 records that may be about one."
        )


class TestFiles:
    def test_hashes(self, folder):
        assert hash_files(folder) == {
            "images/class-0/000.png": hashlib.sha256(b"image").hexdigest(),
            "recipe.json": hashlib.sha256(b"{}").hexdigest(),
            "synthetic.npz": hashlib.sha256(b"synthetic").hexdigest(),
        }

    def test_every_file_that_a_run_writes_and_no_other(self, tmp_path):
        schema = Schema((8, 8, 1), (0.0, 16.0), ("a", "b/c"))
        X, y = np.zeros((1002, 8, 8, 1), np.float32), np.zeros(1002, np.int64)
        y[-1] = 1
        write_distilled(tmp_path, Distilled(X, y, schema, (X, y), np.zeros((1002, 2)), np.zeros((7, 2))))
        written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
        arrays = {"synthetic.npz", "training.npz", "classifier.npz"}
        assert arrays | {"synthetic.png", "images/a/1000.png", "images/b_c/000.png"} < written
        assert hash_files(tmp_path).keys() == written
        (tmp_path / "images" / "a" / "deep").mkdir()
        for stray in ("more.npz", "plot.png", "images/cover.png", "images/a/me.png", "images/a/deep/000.png"):
            (tmp_path / stray).write_bytes(b"the owner's")
        (tmp_path / "images" / "a" / "2000.png").mkdir()
        assert hash_files(tmp_path).keys() == written

    def test_written_and_read_back(self, folder):
        certificate = build_certificate(folder, schedule=full(), **FACTS)
        path = write_certificate(folder, certificate)
        assert path == folder / "certificate.json"
        assert read_certificate(folder) == certificate
        assert sorted(p.name for p in folder.glob("certificate*")) == ["certificate.json"]

    @pytest.mark.parametrize("value", [object(), math.nan, math.inf])
    def test_what_is_not_json_is_not_written(self, folder, value):
        with pytest.raises(CertificateError, match="The certificate cannot be written as JSON"):
            write_certificate(folder, {"claim": value})
        assert not (folder / "certificate.json").exists()

    def test_unreadable(self, tmp_path):
        with pytest.raises(CertificateError, match=r"Expected certificate\.json in .*; it does not exist"):
            read_certificate(tmp_path)
        for text in ("{", "[" * 100_000, '"\ud800"'):
            (tmp_path / "certificate.json").write_bytes(text.encode("utf-8", "surrogatepass"))
            with pytest.raises(CertificateError, match="Expected JSON in"):
                read_certificate(tmp_path)
        (tmp_path / "certificate.json").write_text("[1]")
        with pytest.raises(CertificateError, match="Expected a JSON object in"):
            read_certificate(tmp_path)
