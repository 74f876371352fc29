"""`dpdistill account`: noise and epsilon of a plan."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import dpdistill as dp
from dpdistill.cli.listener import Terminal
from dpdistill.cli.terminal import epsilon_text, give, say

PANEL: Any = {"rich_help_panel": "Privacy"}


def account(
    epsilon: Annotated[
        float | None, typer.Option(**PANEL, help="Calculate the noise multiplier for this epsilon.")
    ] = None,
    delta: Annotated[float, typer.Option(**PANEL, help="Delta of the budget.")] = 1e-5,
    adjacency: Annotated[str, typer.Option(**PANEL, help="add-remove or replace-one.")] = "add-remove",
    noise_multiplier: Annotated[
        float | None, typer.Option(**PANEL, help="Calculate the epsilon of this noise multiplier.")
    ] = None,
    rounds: Annotated[int, typer.Option(**PANEL, help="Releases.")] = 1,
    sampling_prob: Annotated[float, typer.Option(**PANEL, help="Poisson sampling probability.")] = 1.0,
) -> None:
    """Calculate the epsilon of a noise multiplier, or the noise multiplier of an epsilon."""
    schedule = dp.account(
        epsilon=epsilon, noise_multiplier=noise_multiplier, rounds=rounds, sampling_prob=sampling_prob, delta=delta,
        adjacency=adjacency, listener=Terminal(),  # type: ignore[arg-type]
    )  # fmt: skip
    epsilons, noise = schedule.epsilons(), schedule.noise_multipliers[0]
    releases = "1 release" if rounds == 1 else f"{rounds} releases"
    say(f"noise_multiplier = {noise:.6g} for {releases} at sampling_prob = {sampling_prob:g}, {adjacency}")
    give(noise_multiplier=noise, rounds=rounds, sampling_prob=sampling_prob, adjacency=adjacency)
    give(epsilons={f"{d:g}": e for d, e in epsilons.items()})
    for d, e in epsilons.items():
        say(f"epsilon = {epsilon_text(e)} at delta = {d:g}", mark="  ")
