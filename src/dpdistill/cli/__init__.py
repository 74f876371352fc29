"""The command line."""

from dpdistill.cli import (
    attack,
    audit,
    audit_method,  # noqa: F401 - adds its command, as the next three do
    audit_run,  # noqa: F401
    audit_set,  # noqa: F401
    audit_shadows,  # noqa: F401
    tables,
)
from dpdistill.cli.app import app, main
from dpdistill.cli.benchmarks.command import benchmark, results
from dpdistill.cli.commands import account, budget, methods, report, verify
from dpdistill.cli.demo import demo
from dpdistill.cli.distill import distill
from dpdistill.cli.evaluate import evaluate
from dpdistill.cli.export import export
from dpdistill.cli.plan import plan
from dpdistill.cli.sample import sample
from dpdistill.cli.student import student

for _command in (
    *(distill, plan, demo, evaluate, student, sample, export, report, verify),
    *(methods, account, benchmark, results),
):
    app.command(name=_command.__name__)(_command)
app.add_typer(budget, name="budget")
app.add_typer(tables.app, name="schema")
app.add_typer(audit.app, name="audit")
app.add_typer(attack.app, name="attack")

__all__ = ["app", "main"]
