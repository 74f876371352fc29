"""Reads suites of benchmarks from YAML: methods, data sets, repeats and scoring."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpdistill.accounting.schedule import Budget
from dpdistill.benchmark import SUITES
from dpdistill.benchmark.scoring import Scoring
from dpdistill.method import Method
from dpdistill.recipe.build import fields_of, shown
from dpdistill.recipe.earlier_names import first_fields
from dpdistill.recipe.fields import to_json
from dpdistill.recipe.published import full_name
from dpdistill.recipe.published.statements import named_under, published_fields, stated_by
from dpdistill.schema import DataError
from dpdistill.schema.facts import STRICT, read_facts
from dpdistill.sources.yaml_text import load_yaml
from dpdistill.storage.files import reading, show
from dpdistill.storage.options import parse_bounds, parse_classes, parse_resize

if TYPE_CHECKING:
    from dpdistill.public_images.image_source import PublicImages

FOLDER = Path(__file__).with_name("suites")
REAL = "real"
"""Name of the baseline without privacy: table classifiers trained on the real records."""
OF_IMAGES = ("straighten", "classes", "bounds", "resize", "channels", "labels", "unit")
"""Fields of a data set on reading images; tables have a schema instead."""
_LATER = (*OF_IMAGES, "rows_per_unit", "student", "then_set")
"""Fields added later, which are part of a run's name only if stated."""
_TITLE = "benchmark suite"
_WORDS = ("label", "variant", "chosen_on", "tried", "recipe")
"""Descriptive fields of a run, which do not change its results."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Data set of a suite.

    Args:
        name: name, as in runs and published numbers.
        train: records to distil: a path below the folder of data sets, or digits:train.
        test: held-out records; empty if a share of the training records is held out.
        test_share: share of held-out records, drawn for every repeat, without a test; in mode paper of all records.
        schema: schema.yaml of a table, a path relative to the suite's file.
        most_missing: maximum number of missing values of a table's row, else the row is left out; -1 for no maximum.
        mirror: also train networks on mirror images: for photographs.
        straighten: deskew, centre and rescale images by their own strokes: for handwriting.
        classes: number or names of image classes, as in `load`; empty for the format's.
        bounds: bounds of a raw value of images, likewise.
        resize: side of the square that images are resized to, likewise.
        channels: 1 or 3, for image files, likewise.
        labels: label kind of images where there are several, likewise.
        unit: unit of privacy, likewise: a column or array that names the person of each image; empty for single images.
        rows_per_unit: largest number of images of one unit that are used in a round; with a unit only.
        delta: delta of every budget on the data set.
        keep: kept share of the majority class in mode paper.
    """

    __pydantic_config__ = STRICT
    name: str
    train: str
    test: str = ""
    test_share: float = 0.0
    schema: str = ""
    most_missing: int = -1
    mirror: bool = False
    straighten: bool = False
    classes: str = ""
    bounds: str = ""
    resize: str = ""
    channels: Literal["", "1", "3"] = ""
    labels: str = ""
    unit: str = ""
    rows_per_unit: int = 0
    delta: float = 1e-5
    keep: float = 1.0

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", self.name):
            raise DataError(
                f"Expected data set {self.name!r} as a name of letters, digits, _ . and -: folders have it."
            )
        if not self.test and not 0.0 < self.test_share < 1.0:
            raise DataError(f"Expected data set {self.name!r} with a test, or with 0 < test_share < 1.")
        if not 0.0 < self.keep <= 1.0:
            raise DataError(f"Expected data set {self.name!r} with 0 < keep <= 1; got {self.keep}.")
        if bool(self.unit) != (self.rows_per_unit >= 1):
            raise DataError(
                f"Expected data set {self.name!r} with both a unit and rows_per_unit >= 1, or with neither."
            )
        if self.unit and not self.test:
            raise DataError(f"Expected data set {self.name!r}, which has a unit, with test records of other units.")
        for name, parse in (("classes", parse_classes), ("bounds", parse_bounds), ("resize", parse_resize)):
            if value := getattr(self, name):
                parse(value)
        stated = [name for name in OF_IMAGES if getattr(self, name)]
        if self.schema and stated:
            raise DataError(
                f"Expected data set {self.name!r}, a table, without {', '.join(stated)}, which its schema states."
            )


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Method with one recipe, on several data sets, budgets and sizes.

    Args:
        label: name of its row in the tables.
        method: as `dpdistill methods` lists it, or "real".
        recipe: name of a published recipe instead of a method, as `dpdistill methods --recipes` lists them.
        data: names of the suite's data sets.
        epsilon: budgets; empty without privacy.
        per_class: numbers of synthetic records per class; empty for the recipe's.
        repeats: number of full runs of each, with new noise, public seed and start.
        set: recipe fields.
        variants: further fields by name. Runs that differ only in free fields (including per_class, where that is a
            free field) share one release, which is paid once.
        public: data set whose training images are public, for a method's subspace; empty for generated images.
        chosen_on: data sets that the recipe was chosen on; for these, epsilon does not include the selection.
        tried: number of runs of that selection.
        score: options of scoring the sets.
    """

    __pydantic_config__ = STRICT
    label: str
    method: str = ""
    recipe: str = ""
    data: tuple[str, ...]
    epsilon: tuple[float, ...] = ()
    per_class: tuple[int, ...] = ()
    repeats: int = 1
    set: dict[str, str] = field(default_factory=dict)
    variants: dict[str, dict[str, str]] = field(default_factory=dict)
    public: str = ""
    chosen_on: tuple[str, ...] = ()
    tried: int = 0
    score: Scoring = field(default_factory=Scoring)

    def __post_init__(self) -> None:
        if self.repeats < 1 or not self.data:
            raise DataError(f"Expected {self.label!r} with repeats >= 1 and at least one data set.")
        if bool(self.method) == bool(self.recipe):
            raise DataError(f"Expected {self.label!r} with a method or the name of a recipe.")

    def resolved(self) -> tuple[str, dict[str, str], dict[str, Any]]:
        """Returns the method, the fields of the recipe as text, and the facts of `stated_by`.

        Raises:
            DataError: an unknown method or recipe.
        """
        if not self.recipe:
            if self.method != REAL:
                fields_of(self.method)
            return self.method, {}, {}
        if (name := full_name(self.recipe)) is None:
            raise DataError(
                f"Expected {self.label!r} with the name of a recipe, as `dpdistill methods --recipes` lists them; got "
                f"{self.recipe!r}."
            )
        stated = stated_by(name)
        return stated["method"], {k: shown(v) for k, v in published_fields(name).items()}, stated


@dataclass(frozen=True, kw_only=True)
class Run:
    """One synthetic set of a suite, with its scoring; the fields are those of `Source` and `Entry`.

    The settings include the recipe's, and `recipe` is the name in the certificate: empty under another budget.
    """

    label: str
    variant: str
    method: str
    source: Source
    epsilon: float | None
    per_class: int | None
    repeat: int
    settings: tuple[str, ...]
    recipe: str
    public: Source | None
    chosen_on: tuple[str, ...]
    tried: int
    score: Scoring

    def build(self, public: PublicImages | None = None) -> Method:
        """Returns the method with its recipe.

        Args:
            public: images of the public data set, once read.

        Raises:
            DataError: an unknown method or field, or a value that the method refuses.
        """
        from dpdistill.api.recipes import build

        return build(self.method, self.settings, per_class=self.per_class, public_images=public)

    @property
    def budget(self) -> Budget | None:
        """Returns the budget; None without privacy."""
        if self.epsilon is None:
            return None
        unit, rows = self.source.unit or None, self.source.rows_per_unit or 1
        return Budget(self.epsilon, self.source.delta, unit=unit, rows_per_unit=rows)

    @property
    def name(self) -> str:
        """Returns a name from all stated fields; a field stated at its default changes the name."""
        facts = {k: v for k, v in _stated(self).items() if k not in _WORDS}
        if self.public is None:
            del facts["public"]
        return self._named(facts)

    @property
    def release(self) -> str:
        """Returns the name of the release, equal for runs that differ only in free fields.

        Without privacy the name is that of the set, independent of scoring.
        """
        if self.method == REAL:
            return self.name
        method, private = self.build(), self.budget is not None
        kept = [f.name for f in fields(method) if not (private and f.metadata["finish"])]
        paid = first_fields(self.method, {name: to_json(getattr(method, name)) for name in kept})
        facts = [_stated(self.source), self.score.mode, self.epsilon, self.repeat, paid]
        return self._named(facts if self.public is None else [*facts, _stated(self.public)])

    def _named(self, facts: Any) -> str:
        return f"{self.source.name}-{self.method}-{hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:12]}"


def _stated(part: Any) -> dict[str, Any]:
    """Returns the facts that enter names."""
    return asdict(part, dict_factory=lambda items: {k: v for k, v in items if v or k not in _LATER})


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Content of a suite's file.

    Args:
        dpdistill: "benchmark suite".
        title: short title.
        data: the data sets.
        runs: the methods.
    """

    __pydantic_config__ = STRICT
    dpdistill: Literal["benchmark suite"]
    title: str
    data: tuple[Source, ...]
    runs: tuple[Entry, ...]

    def __post_init__(self) -> None:
        if not self.runs:
            raise DataError("Expected a suite with runs.")
        named = [source.name for source in self.data]
        if len({*named}) < len(named):
            raise DataError(f"Expected data sets of different names; got {', '.join(named)}.")

    def all_runs(self) -> Iterator[Run]:
        """Yields every run; repeats come last, so that a stopped suite has results of every entry."""
        sources = {source.name: source for source in self.data}
        for repeat in range(max((entry.repeats for entry in self.runs), default=0)):
            for entry in (entry for entry in self.runs if repeat < entry.repeats):
                method, taken, stated = entry.resolved()
                size = taken.pop("per_class", None)
                named = (*entry.data, *([entry.public] if entry.public else []))
                if unknown := next((name for name in named if name not in sources), None):
                    raise DataError(f"{entry.label!r} runs on {unknown!r}, which is not a data set of the suite.")
                for name, epsilon, per_class, (variant, more) in product(
                    entry.data,
                    entry.epsilon or (None,),
                    entry.per_class or (None if size is None else int(size),),
                    (entry.variants or {"": {}}).items(),
                ):
                    source, set_ = sources[name], taken | entry.set | more
                    budget = None if epsilon is None else (epsilon, source.delta)
                    yield Run(
                        **{k: getattr(entry, k) for k in ("label", "chosen_on", "tried", "score")},
                        **{"variant": variant, "source": source, "epsilon": epsilon, "per_class": per_class},
                        method=method,
                        recipe=named_under(stated, budget) or "",
                        settings=tuple(f"{field}={value}" for field, value in set_.items()),
                        public=sources.get(entry.public),
                        repeat=repeat,
                    )


def read_suite(name: str) -> tuple[Path, Suite]:
    """Reads a suite of the package, by name, or a suite in a file.

    Returns:
        (the suite's file, its content).

    Raises:
        DataError: an unknown suite, a file that is no suite, or unknown methods and data sets.
    """
    path = FOLDER / f"{name}.yaml" if name in SUITES else Path(name)
    if not path.is_file():
        raise DataError(f"Expected a suite {show(name)} among {', '.join(SUITES)}, or as a YAML file; there is none.")
    with reading(path):
        content = path.read_bytes()
    try:
        content = load_yaml(content)
        if not isinstance(content, dict) or content.get("dpdistill") != _TITLE:
            raise DataError(f"Expected a suite that begins with `dpdistill: {_TITLE}`.")
        suite = read_facts(Suite, content, "the suite")
        list(suite.all_runs())
    except (ValueError, TypeError) as error:
        raise DataError(f"{show(path)}: {error}") from None
    return path, suite
