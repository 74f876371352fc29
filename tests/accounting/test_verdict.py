"""The verdict on the size of a class."""

import re
from pathlib import Path

import pytest

from dpdistill.accounting.schedule import Budget
from dpdistill.accounting.verdict import BORDERLINE, ENOUGH, KEPT, TOO_LITTLE, judge
from dpdistill.recipe.methods.decoupled_kip import DecoupledKIP
from dpdistill.recipe.methods.dos_kip import DOSKIP
from dpdistill.recipe.methods.dp_kip import DPKIP
from dpdistill.recipe.parts import implement
from dpdistill.run.forecast import outlook
from dpdistill.schema import Schema

DIGITS = Schema((8, 8, 1), (0.0, 16.0), tuple("0123456789"))
SINGLE = 3.7306
"""Noise multiplier of a single release at epsilon 1, delta 1e-5, add-or-remove."""


def test_words_and_ranges_follow_from_the_signal():
    found = [judge(size, 4.0) for size in (1, 47, 48, 399, 400, 10**6)]
    assert [v.word for v in found] == [TOO_LITTLE, TOO_LITTLE, BORDERLINE, BORDERLINE, ENOUGH, ENOUGH]
    assert [v.kept for v in found] == [(0, 18), (5, 53), (5, 84), (29, 96), (51, 97), (79, 97)]
    assert {v.enough for v in found} == {400}
    assert all(low < high for _, low, high in KEPT)


def test_the_sentence_states_size_range_and_remedy():
    assert str(judge(100, 4.0)) == (
        "100 records per class are borderline. With so many, released classifiers of five public data sets kept 29 to "
        "90 % of their accuracy above chance. Enough are 400 per class."
    )
    assert str(judge(4000, 4.0)).endswith("kept 79 to 97 % of their accuracy above chance.")


@pytest.mark.parametrize(("rounds", "epsilon", "size"), [(60, 1.0, 374), (20, 1.0, 374), (60, 3.0, 140)])
def test_the_classifiers_budget_decides_and_not_its_rounds(rounds, epsilon, size):
    verdict = outlook(implement(DecoupledKIP(rounds=rounds)), Budget(epsilon), DIGITS).verdict(143)
    assert verdict.enough == size
    if epsilon == 1.0:
        assert verdict.signal == pytest.approx(143 / SINGLE, rel=1e-3)


def test_half_of_the_budget_has_a_smaller_signal_and_other_methods_have_no_verdict():
    verdict = outlook(implement(DOSKIP()), Budget(1.0), DIGITS).verdict(143)
    assert verdict.signal == pytest.approx(143 / SINGLE * 0.5**0.5, rel=0.03)
    assert outlook(implement(DPKIP()), Budget(1.0), DIGITS).verdict(143) is None


def test_the_documents_have_these_ranges():
    text = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
    found = re.findall(
        r"^\| (?:below|above)? ?(\d+)(?: to \d+)? \| (\d+) to (\d+) \| ([a-z ]+) \|$", text, re.MULTILINE
    )
    starts = [0.0, *(float(start) for start, *_ in found[1:])]  # the first row is "below" the second one
    stated = [(start, int(low), int(high)) for start, (_, low, high, _) in zip(starts, found, strict=True)]
    assert tuple(stated) == KEPT
    assert [word for *_, word in found] == [judge(1000, 1000 / max(start, 0.1)).word for start in starts]
