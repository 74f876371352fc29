"""The command line."""

from dpdistill.cli import tables
from dpdistill.cli.commands import app, main
from dpdistill.cli.evaluate import evaluate
from dpdistill.cli.sample import sample

app.add_typer(tables.app, name="schema")
app.command(name="evaluate")(evaluate)
app.command(name="sample")(sample)
app.command(name="audit")(tables.audit)

__all__ = ["app", "main"]
