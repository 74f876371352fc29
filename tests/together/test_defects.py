"""Defects that would break the guarantee of several owners, and what finds each of them."""

import numpy as np
import pytest
from contract import make_records, tiny
from parties import Parties, split
from test_law import pvalues, shares_of

from dpdistill.accounting.noise_shares import noise_shares
from dpdistill.private import share
from dpdistill.together import owner
from dpdistill.together.masks import unmasked
from dpdistill.together.messages import pack_params
from dpdistill.together.owner_store import OwnerStore
from dpdistill.together.questions import Questions


def sums_of_two_lists(folder):
    """(sum over four owners, sum over three of them, share of the fourth), as far as owners reveal their masks."""
    parties = Parties(folder, tiny("ndpdc", most=3), split(make_records(48), 4))
    parties.start()
    params = pack_params(Questions(parties.method, parties.plan.facts, 0)[0][1])
    sums = []
    for attempt, names in enumerate((parties.plan.names, parties.plan.names[:3])):
        message = {"run": parties.plan.run, "round": 0, "attempt": attempt, "names": list(names), "params": params}
        answers = parties.links.ask({name: {**message, "kind": "contribute"} for name in names})
        statements = [answer.get("statement") for answer in answers.values()]
        asked = {**message, "kind": "reveal", "statements": statements}
        revealed = parties.links.ask({name: asked for name in names})
        if any("key" not in answer for answer in revealed.values()):
            sums.append(None)
            continue
        words = {name: np.frombuffer(answer["words"], np.uint64) for name, answer in answers.items()}
        sums.append(unmasked(words, {name: answer["key"] for name, answer in revealed.items()}))
    of_one = parties.links.owners["owner 03"]._share(0).ravel()
    parties.close()
    return *sums, of_one


def test_a_second_list_would_show_one_owners_sum(tmp_path, monkeypatch):
    """Without the durable note of the first list, the difference of two sums is what one owner sent."""
    monkeypatch.setattr(OwnerStore, "unmask", lambda *_: True)
    monkeypatch.setattr(OwnerStore, "unmasked", lambda *_: None)
    first, second, of_one = sums_of_two_lists(tmp_path)
    assert np.array_equal(first - second, of_one)


def test_with_the_note_there_is_one_sum(tmp_path):
    first, second, _ = sums_of_two_lists(tmp_path)
    assert first is not None
    assert second is None


@pytest.mark.parametrize(("owners", "defect"), [(2, "forgets"), (4, "all")])
def test_too_little_noise_is_found(monkeypatch, owners, defect):
    """One owner forgets its noise; or each owner divides the variance by n instead of by n - d - c."""
    drawn, original = [], share.rounded_gaussian

    def forgetful(shape, stddev, entropy):
        drawn.append(stddev)
        noise = original(shape, stddev, entropy)
        return noise * 0 if len(drawn) == 1 else noise

    if defect == "forgets":
        monkeypatch.setattr(share, "rounded_gaussian", forgetful)
    shares = noise_shares(3, 0, 1) if defect == "forgets" else 6
    found = pvalues(shares_of(owners, shares).sum(0))
    assert found[1.0] < 1e-12


def test_an_owner_that_sends_its_share_unmasked_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(owner, "masked", lambda value, own, pairs, name: value.reshape(-1).view(np.uint64))
    parties = Parties(tmp_path, tiny("ldpdc", sampling_prob=1.0), split(make_records(36), 3))
    parties.start()
    params = pack_params(Questions(parties.method, parties.plan.facts, 0)[0][1])
    message = {
        "kind": "contribute", "run": parties.plan.run, "round": 0, "attempt": 0, "names": list(parties.plan.names),
        "params": params,
    }  # fmt: skip
    answer = parties.links.owners["owner 00"].answer(message)
    words = np.frombuffer(answer["words"], np.int64)
    assert np.abs(words).max() < 2**40  # masked words fill all 64 bits: test_masks and test_protocol hold them to that
    parties.close()
