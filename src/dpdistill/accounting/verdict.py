"""Judges from public facts whether a class has enough records for a released classifier."""

from __future__ import annotations

from typing import NamedTuple

TOO_LITTLE, BORDERLINE, ENOUGH = "too little", "borderline", "enough"
ENOUGH_FROM, BORDERLINE_FROM = 100.0, 12.0
KEPT = ((0.0, 0, 18), (3.0, 8, 25), (6.0, 5, 53), (12.0, 5, 84), (25.0, 29, 90), (50.0, 29, 96), (100.0, 51, 97),
        (200.0, 79, 97))  # fmt: skip
"""(least signal, lowest and highest percentage kept), measured by benchmarks/enough.py on five public data sets."""


class Verdict(NamedTuple):
    """Result that a class of some size can be expected to give.

    Args:
        word: too little, borderline or enough.
        class_size: records of a class that were judged.
        signal: class size relative to the noise multiplier of a single release with the classifier's budget.
        kept: lowest and highest percentage of the accuracy above chance without noise that was kept with this signal.
        enough: class size from which the verdict is "enough".
    """

    word: str
    class_size: int
    signal: float
    kept: tuple[int, int]
    enough: int

    def __str__(self) -> str:
        low, high = self.kept
        sentence = (
            f"{self.class_size:,} records per class are {self.word}. With so many, released classifiers of five public "
            f"data sets kept {low} to {high} % of their accuracy above chance."
        )
        return sentence if self.word == ENOUGH else f"{sentence} Enough are {self.enough:,} per class."


def judge(class_size: int, noise: float) -> Verdict:
    """Returns the verdict on a class.

    Args:
        class_size: records of the class, >= 1.
        noise: records whose sum equals the noise in one coordinate, after all rounds of the classifier (`records_heard`
            with one coordinate), > 0.
    """
    signal = class_size / noise
    word = ENOUGH if signal >= ENOUGH_FROM else BORDERLINE if signal >= BORDERLINE_FROM else TOO_LITTLE
    ends = [least for least, *_ in KEPT[1:]] + [float("inf")]
    kept = next((low, high) for (_, low, high), end in zip(KEPT, ends, strict=True) if signal < end)
    return Verdict(word, class_size, signal, kept, int(-(-ENOUGH_FROM * noise // 1)))
