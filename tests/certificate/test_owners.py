"""Certificates of several owners: what they state, and what `verify` finds wrong."""

import json

import pytest

from dpdistill.accounting.noise_shares import log10_aliasing
from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.certificate.build import build_certificate, certificate_content, write_certificate
from dpdistill.certificate.format import parse
from dpdistill.certificate.owners import check_owners
from dpdistill.certificate.verify import check_certificate
from dpdistill.errors import CertificateError
from dpdistill.query import Stage
from dpdistill.schema import Schema

NAMES = ("a", "b", "c")
SCHEDULE = calibrate((Stage(2),), Budget(1.0))
RECIPE = {
    **{"method": "ldpdc", "title": "LDPDC", "fields": {}, "changed": [], "seed": 0},
    **{"origin": "package default", "references": []},
}


def summation(**changed):
    return {
        "mode": "summed unseen", "plan": "1f" * 32, "keys": ["k1", "k2", "k3"], "dropouts": 0, "colluders": 1,
        "persons_at": 1, "aliasing": log10_aliasing(SCHEDULE.noise_multipliers, 1.0, 2, False), **changed,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "synthetic.npz").write_bytes(b"x")
    (tmp_path / "recipe.json").write_text(f"{json.dumps(RECIPE, indent=2)}\n")
    return tmp_path


def certificate(folder, owners=NAMES, **changed):
    schema = Schema((4, 4, 1), (0.0, 1.0), ("x", "y"))
    return build_certificate(
        folder, schedule=SCHEDULE, recipe=RECIPE, schema=schema, owners=owners, summation=summation(**changed)
    )


def checked(content):
    (check,) = check_owners(parse(content), SCHEDULE)
    return check.passed, check.detail


def test_a_good_certificate(folder):
    content = certificate(folder, persons_at=2)
    assert [*content][-2:] == ["scope", "summation"]
    assert content["owners"] == [{"name": name, "part": name} for name in NAMES]
    passed, detail = checked(content)
    assert passed
    assert "each added 1/2 of the variance" in detail
    assert "delta grows by at most 10^-1.178e+12" in detail
    assert "at 2 owners, as stated, and then has 2 times mu" in detail


def test_one_share_has_no_aliasing(folder):
    passed, detail = checked(certificate(folder, colluders=2, aliasing=None))
    assert passed
    assert "delta grows by exactly 0" in detail


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"dropouts": 1}, "noise does not suffice. Expected owners=3 > 2 dropouts"),
        ({"aliasing": -1e13}, "aliasing, or its owners of a person, contradict"),
        ({"aliasing": None}, "aliasing, or its owners of a person, contradict"),
        ({"persons_at": 4}, "aliasing, or its owners of a person, contradict"),
        ({"keys": ["k1", "k1", "k3"]}, "one key for each owner"),
        ({"keys": ["k1", "k2"]}, "one key for each owner"),
        ({"owners": ("b", "a", "c")}, "not in the order of their names"),
        ({"owners": ("a", "a", "c")}, "not in the order of their names"),
        ({"owners": ("a", "b"), "keys": ["k1", "k2"]}, "owners=2 as a whole number >= 3"),
    ],
)
def test_what_contradicts_itself_fails(folder, changed, found):
    passed, detail = checked(certificate(folder, **changed))
    assert not passed
    assert found in detail


def test_a_certificate_of_one_owner_has_no_summation(folder):
    content = build_certificate(
        folder, schedule=SCHEDULE, recipe=RECIPE, schema=Schema((4, 4, 1), (0.0, 1.0), ("x", "y"))
    )
    assert "summation" not in content
    assert [*check_owners(parse(content), SCHEDULE)] == []
    with pytest.raises(CertificateError, match="'summation' is of the wrong type"):
        parse(content | {"summation": None})


@pytest.mark.parametrize("remove", ["owners", "summation"])
def test_owners_and_summation_come_together(folder, remove):
    content = certificate(folder)
    content = {**content, "owners": []} if remove == "owners" else {k: v for k, v in content.items() if k != remove}
    write_certificate(folder, content)
    assert (folder / "certificate.json").read_bytes() == certificate_content(content)
    details = [check.detail for check in check_certificate(folder).checks if check.passed is False]
    assert details == ["The certificate states 'owners' without 'summation', or the other way round."]
