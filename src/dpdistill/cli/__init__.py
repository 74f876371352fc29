"""The command line."""

from dpdistill.cli import audit_networks, tables
from dpdistill.cli.benchmarks.command import benchmark, results
from dpdistill.cli.commands import app, main
from dpdistill.cli.demo import demo
from dpdistill.cli.evaluate import evaluate
from dpdistill.cli.export import export
from dpdistill.cli.sample import sample

app.add_typer(tables.app, name="schema")
app.command(name="demo")(demo)
app.command(name="evaluate")(evaluate)
app.command(name="sample")(sample)
app.command(name="benchmark")(benchmark)
app.command(name="results")(results)
app.command(name="export")(export)
app.add_typer(audit_networks.app, name="audit")

__all__ = ["app", "main"]
