"""Commands that run a suite of benchmarks, and write pages of its results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpdistill.benchmark import SUITES
from dpdistill.cli.malloc import keep_freed_memory
from dpdistill.cli.terminal import FAILED, add_row, give, mode, note, say, show_table, table, warn, working
from dpdistill.schema import DataError

RESULTS, PAGE, MARKDOWN = "results.jsonl", "leaderboard.html", "results.md"


def benchmark(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help=f"{', '.join(SUITES)}, or a YAML file.")],
    *,
    to: Annotated[
        str,
        typer.Option(
            "--out", rich_help_panel="Output", help="Folder for sets, releases and results; for the owner of the data."
        ),
    ],
    data: Annotated[
        str | None, typer.Option(rich_help_panel="Data", help="Folder of the data sets: mnist/, adult/, ...")
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            min=1, metavar="<int>", rich_help_panel="Machine", help="Number of runs at a time, each in its own process."
        ),
    ] = 1,
) -> None:
    """Run a suite of methods and data sets, score the synthetic sets, and write a leaderboard.

    After a stop the same command resumes: it skips finished runs and repeats failed ones.
    """
    from dpdistill.benchmark.checks import check_runs
    from dpdistill.benchmark.suite import read_suite
    from dpdistill.folder.layout import CERTIFICATE

    folder = Path(to)
    if (folder / CERTIFICATE).exists():
        raise DataError(f"Expected --out as a folder for the owner of the data; {to} is one that may be shared.")
    with working("reading the suite"):
        path, stated = read_suite(suite)
        read = [each for run in stated.all_runs() for each in (run.source, run.public) if each is not None]
        outside = sorted({source.name for source in read if not source.train.startswith("digits:")})
        if outside and (data is None or not Path(data).is_dir()):
            raise DataError(f"Expected --data with the folder of {', '.join(outside)}; got {data}.")
        from dpdistill.benchmark.pool import read_lines, run_all
        from dpdistill.benchmark.worker import SETS, compute

        runs = check_runs(path, stated)
        known = read_lines(folder / RESULTS) if (folder / RESULTS).exists() else {}
        left = [run for run in runs if known.get(run.name, {"error": ""})["error"] is not None]
        places = [(run.source.name, place) for run in left for place in (run.source.train, run.source.test)]
        places += [(run.public.name, run.public.train) for run in left if run.public is not None]
        if missing := sorted({name for name, place in places if not _found(Path(data or "."), place)}):
            warn(f"Warning: {data} lacks files of {', '.join(missing)}: only runs on those data sets will fail.")
        tasks = [(run.name, run.release, (run, path, Path(data or "."), folder)) for run in runs]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    run_all(tasks, compute, folder / RESULTS, jobs, _tell, begin_process)
    known = read_lines(folder / RESULTS)
    lines = [known[run.name] for run in runs]
    _write(folder / MARKDOWN, lines, stated.title, [])
    _write(folder / PAGE, lines, stated.title, [folder / SETS])
    _say_tables(lines)
    failed = sum(line["error"] is not None for line in lines)
    give(page=str(folder / PAGE), failed=failed, runs=lines)
    say(f"{folder / PAGE}: {len(lines) - failed} runs" + (f", and {failed} failed" if failed else "") + ".")
    if failed:
        raise typer.Exit(FAILED)


def results(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files of results: results.jsonl.")],
    *,
    to: Annotated[str, typer.Option("--out", rich_help_panel="Output", help="The page: .md or .html.")],
    title: Annotated[str, typer.Option(rich_help_panel="Output", help="Heading of the page.")] = "Results",
) -> None:
    """Write a page of results: tables that compare published numbers with ours.

    A repeated run with new releases (new noise, same public seed) counts as one more run. A repeated run with the
    same releases replaces the earlier one.
    """
    from dpdistill.benchmark.pool import read_lines

    read: dict[Any, Any] = {}
    for file in files:
        for name, line in read_lines(Path(file)).items():
            read[name, line["release"] if line["error"] is None else "failed"] = line
    done = {name for (name, _), line in read.items() if line["error"] is None}
    lines = [line for (name, _), line in read.items() if line["error"] is None or name not in done]
    if Path(to).suffix not in (".md", ".html"):
        raise DataError(f"Expected --out as a page that ends in .md or .html; got {to}.")
    _write(Path(to), lines, title, [Path(file).parent / "sets" for file in files])
    give(page=to, runs=lines)
    say(f"{to}: {len(lines)} runs.")


def begin_process() -> None:
    """Prepares the process of one run: keeps freed memory and reports no progress of its own."""
    mode.quiet = True
    keep_freed_memory()


def _write(path: Path, lines: list[dict], title: str, sets: list[Path]) -> None:
    from dpdistill.benchmark.page import render_markdown, render_page
    from dpdistill.storage.atomic import write_atomically

    page = render_markdown(lines, title) if path.suffix == ".md" else render_page(lines, title, sets)
    write_atomically(path, lambda file: file.write(page.encode()))


def _found(data: Path, place: str) -> bool:
    """Returns whether a path of a data set exists; "" counts as missing."""
    from dpdistill.sources.load import part_named

    return not place or place.startswith("digits:") or Path(part_named(data / place, "train")[0]).exists()


def _tell(line: dict[str, Any], done: int, total: int, left: float) -> None:
    """Prints a finished run and the time left."""
    found = line["error"] or ", ".join(f"{score['score']} {score['value']}" for score in line["scores"])
    time = f"{left / 60:.0f} min" if left >= 90 else f"{left:.0f} s"
    note(f"{done} of {total}, about {time} left: {line['name']}: {found}")


def _say_tables(lines: list[dict]) -> None:
    from dpdistill.benchmark.figures import boards

    for board in boards(lines):
        for each in board.tables:
            listed = table("method", *map(str, each.columns), "scored by", title=f"{board.data}: {each.title}")
            for row in each.rows:
                add_row(listed, row.label, *(str(row.figures.get(c, "")) for c in each.columns), row.by)
            show_table(listed)
        for cost in board.costs:
            say(cost)
