"""Every malformed input is refused in one sentence, its own, and never with another exception."""

from __future__ import annotations

import malformed
import pytest

from dpdistill.schema import DataError
from dpdistill.sources.load import load

CASES = list(malformed.cases())


def test_there_are_many_and_their_names_differ():
    names = [name for name, _, _ in CASES]
    assert len(names) >= 440
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("says", "builder"), [case[1:] for case in CASES], ids=[repr(n)[1:-1] for n, _, _ in CASES])
def test_refused_in_one_sentence(says, builder, tmp_path):
    source, options = builder(tmp_path)
    with pytest.raises(DataError) as refusal:
        load(source, **options)
    text = str(refusal.value)
    assert says in text
    assert text.isprintable()
    assert 20 < len(text) < 1_000
    assert text.endswith(".")
