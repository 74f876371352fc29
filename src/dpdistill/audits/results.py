"""Results of audits and attacks, each with its owner's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpdistill.accounting.schedule import Schedule
from dpdistill.attacks.model_attack import Reconstructed
from dpdistill.attacks.reconstruction import Reconstruction, mean_image_error
from dpdistill.attacks.repeated_reconstruction import Layer
from dpdistill.audits.canaries import OneRun
from dpdistill.audits.marginals import Comparison, compare_marginals
from dpdistill.audits.marginals_page import marginal_chapters, to_json
from dpdistill.audits.membership import Roc, attack_membership, on_both_sides
from dpdistill.audits.method_audit import Replays
from dpdistill.audits.page import Audit, Page
from dpdistill.audits.page_chapters import (
    canary_chapter,
    membership_chapter,
    onion_chapter,
    outlier_chapter,
    reconstruction_chapter,
    replays_chapter,
)
from dpdistill.method import Distilled
from dpdistill.schema import TableSchema
from dpdistill.storage.records import Records


@dataclass(frozen=True, eq=False, repr=False)
class SetAudit(Audit):
    """Comparison of a synthetic set with its private records.

    Args:
        name: name of its folder.
        distilled: the set.
        marginals: marginals of a table, synthetic and private; None for images.
        membership: rates of each membership attack; empty without non-members.
        schedule: schedule that the certificate states as paid, or None.
        sizes: numbers of (members, non-members).
        repeated: number of non-members equal to a member.
    """

    name: str
    distilled: Distilled
    marginals: Comparison | None
    membership: Mapping[str, Roc]
    schedule: Schedule | None
    sizes: tuple[int, int]
    repeated: int = 0

    @property
    def left_out(self) -> tuple[int, int]:
        """Returns the numbers of unused members and non-members: of an unknown class, or with a missing value."""
        if not self.membership:
            return 0, 0
        used = self.membership["distance"]
        return self.sizes[0] - len(used.members), self.sizes[1] - len(used.others)

    @property
    def summary(self) -> str:
        return f"Of {self.name}."

    def _page(self) -> Page:
        chapters, results = [], {}
        if self.marginals is not None:
            assert isinstance(self.distilled.schema, TableSchema)
            chapters = marginal_chapters(self.marginals, self.distilled.schema)
            results = to_json(self.marginals, self.distilled.schema)
        if self.membership:
            attacks, rates = membership_chapter(self.membership, self.schedule)
            chapters, results = [*chapters, attacks], {**results, **rates}
        title = "A set beside the records it stands for"
        return Page("audit", title, self.summary, tuple(chapters), results)


def compare_set(
    name: str, distilled: Distilled, members: Records, non_members: Records | None, schedule: Schedule | None
) -> SetAudit:
    """Compares a synthetic set with its private records, and runs membership attacks.

    Args:
        name: name of the set's folder.
        distilled: the set.
        members: records used in the run.
        non_members: records of the same kind, not used in the run; None for no attack.
        schedule: schedule that was paid for the set, or None.

    Raises:
        DataError: records of a different kind than the set, no usable record, or equal sides.
    """
    table = isinstance(distilled.schema, TableSchema)
    marginals = compare_marginals(distilled, members) if table else None
    if non_members is None:
        return SetAudit(name, distilled, marginals, {}, schedule, (len(members), 0))
    found = attack_membership(distilled, members, non_members)
    repeated = on_both_sides(members, non_members)
    return SetAudit(name, distilled, marginals, found, schedule, (len(members), len(non_members)), repeated)


@dataclass(frozen=True, eq=False, repr=False)
class RunAudit(Audit, OneRun):
    """Run with canaries, and the attacker's lower bounds on epsilon, with the fields of `OneRun`.

    Args:
        leak: name of the planted defect, or None.
    """

    leak: str | None = None

    @classmethod
    def of(cls, run: OneRun, leak: str | None) -> RunAudit:
        """Returns the audit of a run."""
        return cls(**vars(run), leak=leak)

    @property
    def summary(self) -> str:
        leak = "" if self.leak is None else f", with a leak planted: {self.leak}"
        return f"{self.result.recipe['method']} on {len(self.included)} canaries among the records{leak}."

    def _page(self) -> Page:
        made, results = canary_chapter(self)
        return Page("canaries", "What one run gives away", self.summary, (made,), results)


@dataclass(frozen=True, eq=False, repr=False)
class ShadowAudit(Audit):
    """Membership attacks on runs on halves of the records.

    Args:
        method: name of the method.
        runs: number of runs.
        membership: rates of each attack, over all runs.
        schedule: schedule that each run paid; None without privacy.
    """

    method: str
    runs: int
    membership: Mapping[str, Roc]
    schedule: Schedule | None

    @property
    def summary(self) -> str:
        budget = None if self.schedule is None else self.schedule.budget
        paid = "without privacy" if budget is None else f"epsilon {budget.epsilon:g}, delta {budget.delta:g}"
        return f"{self.method}, {paid}."

    def _page(self) -> Page:
        made, results = membership_chapter(self.membership, self.schedule, self.runs)
        return Page("shadows", f"Who was in, by {self.runs} shadows", self.summary, (made,), results)


@dataclass(frozen=True, eq=False, repr=False)
class MethodAudit(Audit, Replays):
    """Result of replays of a method, with the fields of `Replays`.

    Args:
        method: name or location of the method.
    """

    method: str = ""

    @classmethod
    def of(cls, replays: Replays, method: str) -> MethodAudit:
        """Returns the audit of a method."""
        return cls(**vars(replays), method=method)

    @property
    def summary(self) -> str:
        return f"{self}."

    def _page(self) -> Page:
        made, results = replays_chapter(self)
        return Page("method", f"{self.method}, replayed", self.summary, (made,), results)


@dataclass(frozen=True, eq=False, repr=False)
class ModelAttack(Audit, Reconstructed):
    """Training images reconstructed from the parameters of a network, with the fields of `Reconstructed`.

    Args:
        attack: options of the search.
    """

    attack: Reconstruction

    @classmethod
    def of(cls, found: Reconstructed, attack: Reconstruction) -> ModelAttack:
        """Returns the result of an attack."""
        return cls(**vars(found), attack=attack)

    @property
    def baseline(self) -> float:
        """Returns the mean squared distance of the training images to their mean."""
        return mean_image_error(self.members)

    @property
    def rebuilt(self) -> int:
        """Returns the number of reconstructed training images."""
        return self.pairs.rebuilt(self.baseline)

    @property
    def summary(self) -> str:
        return (
            f"{self.attack.images} images were searched for in {self.attack.steps:,} steps; "
            f"{100 * self.unexplained:.2g} % of the change is left."
        )

    def _page(self) -> Page:
        pictures, results = reconstruction_chapter(self.pairs, self.members, self.found, self.baseline)
        chapters = [pictures]
        if self.duals is not None and self.turned is not None:
            outliers, more = outlier_chapter(self.duals, self.pairs.distances, self.turned)
            chapters, results = [pictures, outliers], results | more
        return Page("model", "What a network gives away", self.summary, tuple(chapters), results)


@dataclass(frozen=True, eq=False, repr=False)
class TrainingAttack(Audit):
    """Training images reconstructed from repeated trainings, each without the best reconstructed images.

    Args:
        network: description of the trained network.
        loss: loss of its training.
        linearised: True if the first-order expansion was trained.
        members: training images, (n, h, w, c) in [0, 1].
        layers: trainings and attacks, beginning with all images.
        removed: number of images left out after each training.
    """

    network: str
    loss: str
    linearised: bool
    members: np.ndarray
    layers: tuple[Layer, ...]
    removed: int

    @property
    def baseline(self) -> float:
        """Returns the mean squared distance of the training images to their mean."""
        return mean_image_error(self.members)

    @property
    def rebuilt(self) -> int:
        """Returns the number of images reconstructed from the network trained on all images."""
        return self.layers[0].pairs.rebuilt(self.baseline)

    @property
    def summary(self) -> str:
        how = "to first order" if self.linearised else "in full"
        return f"{self.network} trained on {len(self.members)} records {how}, by {self.loss}."

    def _page(self) -> Page:
        first, nothing = self.layers[0], self.baseline
        made = [
            reconstruction_chapter(first.pairs, self.members, first.found, nothing),
            outlier_chapter(first.duals, first.pairs.distances, first.turned),
            *([onion_chapter(self.layers, self.removed, nothing)] if len(self.layers) > 1 else []),
        ]
        results: dict[str, Any] = {name: value for _, each in made for name, value in each.items()}
        chapters = tuple(chapter for chapter, _ in made)
        return Page("training", "What training gives away", self.summary, chapters, results)
