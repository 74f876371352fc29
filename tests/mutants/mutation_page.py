"""Writes docs/experiments/mutation.md from the verdicts and the arguments: a function of the files of this folder."""

from __future__ import annotations

from collections import Counter

from mutant_files import CONFIG, ROOT, Key, read_arguments, read_verdicts, stands

PAGE = ROOT / "docs" / "experiments" / "mutation.md"
TO_ARGUE = ("accounting/", "private/")
"""Rooms of which every survivor is killed by a test or argued."""

VERDICTS = ("killed", "timeout", "argued", "survived", "no program")

HEAD = """# Mutation tests

A mutant is the source with one small change: `+` becomes `-`, a number grows by one, a condition is reversed. A test
should fail on the mutant. If no test fails, the mutant survives, and either a test is missing or the change does not
matter.

`make mutants` runs mutants that were written by hand, each a known defect of private distillation. This page is about a
sample that [Cosmic Ray](https://cosmic-ray.readthedocs.io) draws. `make mutation` runs the sample and writes this page.

* The seed is public: `{seed}`. `tests/mutants/sample_mutants.toml` states the number of mutants for each room.
* At most one mutant is drawn for each line, so that a line with many operators does not count more.
* Annotations, docstrings, blocks for types alone and `__all__` are left out: they do not run. So are replacements that
  fail on any input, such as `<<` for `+`.
* Each mutant runs in a copy of `src`, in its own process. The test file of the module runs first, then the other quick
  tests of the room. Tests of other rooms do not run, so that a mutant that survives here may fail elsewhere.
* *Timed out*: the tests took more than one and a half times their processor time on the source as it is. These mutants
  count as found, though a few of them may be slower forms of the same program.
* *Argued*: the mutant is the same program, or harmless. Each argument is below.

Verdicts are in `tests/mutants/sample_verdicts.csv`. A verdict counts as long as its line stands in the source.
`make mutation` resumes a sample that is not complete. A module may run before others of its room. The rate of a
room that is not complete is then not the rate of a random part.

## Results by room

"""


def page() -> str:
    """Returns the page."""
    arguments = read_arguments()
    rows = {key: row for key, row in read_verdicts().items() if stands(key[0], key[3])}
    counts: dict[str, Counter[str]] = {room: Counter() for room in CONFIG["rooms"]}
    modules: dict[str, Counter[str]] = {}
    argued, unexplained = [], []
    for key, row in sorted(rows.items()):
        verdict = row["verdict"]
        if verdict == "survived":
            verdict = "argued" if key in arguments else "survived"
            (argued if key in arguments else unexplained).append((key, row))
        counts[key[0].partition("/")[0]][verdict] += 1
        modules.setdefault(key[0], Counter())[verdict] += 1
    lines = [HEAD.format(seed=CONFIG["seed"])]
    lines += ["| room | drawn | not yet run | killed | timed out | argued | survived | no program | found |\n"]
    lines += ["|---|---|---|---|---|---|---|---|---|\n"]
    total = Counter()
    for room, count in counts.items():
        count["drawn"] = CONFIG["rooms"][room]["drawn"]
        count["open"] = max(0, count["drawn"] - sum(count[each] for each in VERDICTS))
        total += count
        lines.append(_row(room, count))
    lines.append(_row("all", total))
    lines.append(
        "\n*Found* is the share of killed and timed out mutants among those that ran, without those that are argued. "
        "*No program*: the change gives no Python, or the same program.\n"
    )
    lines.append("\n## Verdicts by module\n\nModules without a verdict are not listed.\n\n")
    lines += ["| module | killed | timed out | argued | survived | no program |\n|---|---|---|---|---|---|\n"]
    for module, count in modules.items():
        lines.append(f"| `{module}` | {' | '.join(str(count[each]) for each in VERDICTS)} |\n")
    lines.append("\n## Survivors without an argument\n\n")
    lines += [f"* {_place(key)}\n" for key, _ in unexplained] or ["None.\n"]
    lines.append("\n## Survivors that are argued\n\n")
    lines += [f"* {_place(key)}: {arguments[key]}\n" for key, _ in argued] or ["None.\n"]
    return "".join(lines)


def _row(room: str, count: Counter[str]) -> str:
    found = count["killed"] + count["timeout"]
    ran = found + count["survived"]
    share = f"{100 * found / ran:.0f} %" if ran else ""
    cells = (count[each] for each in ("drawn", "open", *VERDICTS))
    return f"| {room} | {' | '.join(map(str, cells))} | {share} |\n"


def _place(key: Key) -> str:
    module, operator, occurrence, text = key
    which = f", number {occurrence + 1}" if occurrence else ""
    return f"`{module}`, `{text}`, {operator}{which}"


def write() -> None:
    PAGE.write_text(page())
