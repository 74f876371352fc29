"""The driver: plan, schedule, ask / release / tell, finish; checkpoints, and the shared folder."""

from dpdistill.run.driver import (
    Result,
    check_cap,
    check_private,
    distill,
    distill_without_privacy,
    finish_again,
    open_run,
    recipe_of,
    run_rounds,
)

__all__ = [
    "Result",
    "check_cap",
    "check_private",
    "distill",
    "distill_without_privacy",
    "finish_again",
    "open_run",
    "recipe_of",
    "run_rounds",
]
