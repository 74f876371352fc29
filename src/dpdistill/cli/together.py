"""`dpdistill together`: several owners distil one set without pooling their records."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import dpdistill as dp
from dpdistill.api.options import SOURCES, BudgetChoice, Persons, Reading, RecipeChoice
from dpdistill.cli.expand import Fields, expand
from dpdistill.cli.listener import Terminal
from dpdistill.cli.passphrase import unlocked
from dpdistill.cli.terminal import give, note, say
from dpdistill.schema import DataError

app = typer.Typer(no_args_is_help=True, help="Distil one set from the records of several owners, who do not pool them.")
OutFolder = Annotated[str, typer.Option("--out", rich_help_panel="Output", help="Folder for the result.")]
WaitSeconds = Annotated[
    float, typer.Option("--wait", rich_help_panel="Machine", help="Seconds to wait for other parties.", min=0.0)
]


@app.command("plan")
@expand
def plan(
    *,
    out: OutFolder,
    owner: Annotated[
        list[str],
        typer.Option(
            "--owner", rich_help_panel="Data", help="NAME=KEY.pub,MOST: an owner, and its largest number of records."
        ),
    ],
    shape: Annotated[
        str | None, typer.Option("--shape", rich_help_panel="Data", help="Size of images: height,width,channels.")
    ] = None,
    reading: Annotated[Reading, Fields("schema", "classes", "bounds", "straighten")],
    choice: Annotated[RecipeChoice, Fields("method", "recipe", "per_class", "settings")],
    budget: BudgetChoice,
    persons: Annotated[Persons, Fields("unit_column", "rows_per_unit")],
    dropouts: Annotated[
        int | None,
        typer.Option(rich_help_panel="Privacy", help="Owners that may be missing in a round; 0 of 3, 1 of more."),
    ] = None,
    colluders: Annotated[
        int, typer.Option(rich_help_panel="Privacy", help="Owners that may collude with the coordinator.")
    ] = 1,
    persons_at: Annotated[
        int, typer.Option(rich_help_panel="Persons", help="Owners at which one person may have records.")
    ] = 1,
    address: Annotated[
        str, typer.Option(rich_help_panel="Machine", help="host:port of the coordinator, for owners.")
    ] = "localhost:9474",
    pace: Annotated[
        float, typer.Option(rich_help_panel="Machine", help="Answers leave owners at whole multiples of these seconds.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(rich_help_panel="Recipe", help="Seed of everything public.")] = 0,
) -> None:
    """Make the plan of a run: a file that the coordinator gives to every owner."""
    from dpdistill.api.together import budget_of, schema_of

    made, path = dp.together_plan(
        out, dict(map(_owner, owner)), schema_of(reading, shape), choice, budget_of(budget, persons), dropouts=dropouts,
        colluders=colluders, persons_at=persons_at, pace=pace, address=address, seed=seed,
    )  # fmt: skip
    give(plan=str(path), run=made.run)
    for sentence in made.sentences():
        say(sentence)
    say(f"{path} is the plan: give every owner a copy, which `dpdistill together join` shows before it asks.")


@app.command("serve")
def serve(
    out: OutFolder,
    listen: Annotated[
        str | None, typer.Option(rich_help_panel="Machine", help="host:port to listen on; the plan's by default.")
    ] = None,
    patience: Annotated[
        float,
        typer.Option(rich_help_panel="Machine", help="Seconds to wait for a round before a shorter list is tried."),
    ] = 600.0,
    wait: WaitSeconds = 86400.0,
    title: Annotated[
        str | None, typer.Option(rich_help_panel="Output", help="Name of the set, the heading of its page.")
    ] = None,
) -> None:
    """Coordinate the run of a plan. The coordinator holds no records; the same command resumes a run."""
    dp.together_serve(out, listen=listen, patience=patience, wait=wait, title=title, listener=Terminal())
    give(folder=out)
    say(f"{out} is the result of all owners: `dpdistill verify {out}` checks it. Send the folder to every owner.")


@app.command("join")
@expand
def join(
    data: Annotated[str, typer.Argument(metavar="DATA", help=SOURCES)],
    *,
    plan_file: Annotated[str, typer.Option("--plan", rich_help_panel="Data", help="The plan, from the coordinator.")],
    key: Annotated[str, typer.Option("--key", rich_help_panel="Data", help="Your private key: `dpdistill key new`.")],
    ledger: Annotated[
        str, typer.Option("--ledger", rich_help_panel="Privacy", help="Your data set's ledger, which pays and refuses.")
    ],
    run_dir: Annotated[
        str, typer.Option("--run", rich_help_panel="Output", help="Your folder of the run; never share it.")
    ],
    reading: Annotated[Reading, Fields("schema", "sql", "labels", "lenient")],
    address: Annotated[
        str | None, typer.Option(rich_help_panel="Machine", help="host:port of the coordinator; the plan's by default.")
    ] = None,
    wait: WaitSeconds = 86400.0,
    yes: Annotated[bool, typer.Option("--yes", rich_help_panel="Privacy", help="Accept the plan unasked.")] = False,
) -> None:
    """Take part in a run as an owner: records stay here. The same command resumes a run."""
    from dpdistill.together.plan import TogetherPlan

    plan = TogetherPlan.read(Path(plan_file))
    for sentence in plan.sentences():
        note(sentence)
    if not yes:
        if not sys.stdin.isatty():
            raise DataError("Expected --yes, as there is no terminal to ask on: nothing was read or paid.")
        if not typer.confirm("Do you accept this plan?"):
            raise DataError("You refused the plan: nothing was read or paid.")
    dp.together_join(
        plan, data, unlocked(key), ledger, run_dir, reading=reading, address=address, wait=wait, listener=Terminal()
    )  # fmt: skip
    give(run=plan.run)
    say(f"The run has ended. {ledger} has paid for it; keep {run_dir}, and do not share it.")


@app.command("check")
def check(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The result.")],
    plan_file: Annotated[str, typer.Option("--plan", rich_help_panel="Data", help="The plan of its run.")],
    transcript: Annotated[
        str, typer.Option(rich_help_panel="Data", help="A copy of the folder `transcript` of the coordinator.")
    ],
    run_dir: Annotated[
        str | None, typer.Option("--run", rich_help_panel="Data", help="Your folder of the run, to find your own sums.")
    ] = None,
    owner: Annotated[str, typer.Option(rich_help_panel="Data", help="Your name in the plan, with --run.")] = "",
) -> None:
    """Check that a result follows from what the owners signed, by computing it again; exit code 1 if not."""
    checks = dp.together_check(folder, plan_file, transcript, run_dir, owner)
    for each in checks:
        say(each.detail, {True: "ok   ", False: "FAILED ", None: "     "}[each.passed])
    passed = all(each.passed is not False for each in checks)
    give(passed=passed)
    say("PASSED" if passed else "FAILED")
    if not passed:
        raise typer.Exit(1)


def _owner(text: str) -> tuple[str, tuple[str, int]]:
    """Returns (name, (file of the key, largest number of records)) of an option NAME=KEY.pub,MOST."""
    name, equal, rest = text.partition("=")
    file, comma, most = rest.rpartition(",")
    if not (equal and comma and file and most.isdigit()):
        raise DataError(f"Expected --owner NAME=KEY.pub,MOST; got {text[:100]!r}.")
    return name, (file, int(most))
