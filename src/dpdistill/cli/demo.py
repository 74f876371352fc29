"""A first result in seconds: the digits that scikit-learn holds, distilled to one image each."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dpdistill.cli.terminal import Bar, give, note, say

CLASSIFIER = "logistic regression"


def demo(
    to: Annotated[str, typer.Option("--out", help="Folder for the result.")] = "demo",
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier result.")] = False,
) -> None:
    """Distil scikit-learn's digits to one image each in seconds, and tell what they teach beside the real ones."""
    from dpdistill.run.output_folder import output_folder, owner_folder

    path, replaces = output_folder(to, overwrite)
    from dpdistill import run
    from dpdistill.accounting.schedule import Budget
    from dpdistill.evaluation.score import scaled
    from dpdistill.methods.baselines.ldpdc import LDPDC
    from dpdistill.sources.load import load

    budget, records, test = Budget(epsilon), load("digits:train"), load("digits:test")
    with Bar() as bar:
        paid = {"run_dir": owner_folder(path), "label": path.name, "overwrite": overwrite}
        result = run.distill(records, LDPDC(per_class=1, sampling_prob=1.0), budget, progress=bar, **paid)
    result.save(path, replaces)
    made = result.distilled
    private, real = _accuracy(made.X, made.y, test), _accuracy(*scaled(records), test)
    say(f"Accuracy with a guarantee of epsilon = {epsilon:g}: {private:.1f} %, from {len(made.y)} synthetic digits.")
    say(f"Accuracy without: {real:.1f} %, from {len(records):,} real ones. Both: {CLASSIFIER} on pixels, one run.")
    note(f"Look at {path / 'synthetic.png'} and {path / 'report.html'}; `dpdistill verify {to}` re-checks them.")
    give(folder=str(path), epsilon=epsilon, accuracy_with_guarantee=private, accuracy_without=real)


def _accuracy(X: Any, y: Any, test: Any) -> float:
    """In percent."""
    from dpdistill.evaluation import score_pixels

    return score_pixels(X, y, test.schema, test, name=CLASSIFIER).mean
