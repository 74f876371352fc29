"""Suites of benchmarks, read from YAML: which methods run on which data, how often, and how they are scored."""

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
from dpdistill.recipe.published.stated import named_under, published_fields, stated_by
from dpdistill.schema import DataError
from dpdistill.schema.facts import STRICT, read_facts
from dpdistill.sources.yaml_text import load_yaml
from dpdistill.storage.files import reading, show
from dpdistill.storage.options import parse_bounds, parse_classes, parse_resize

if TYPE_CHECKING:
    from dpdistill.public_images.image_source import PublicImages

FOLDER = Path(__file__).with_name("suites")
REAL = "real"
"""In the place of a method: the classifiers of tables learn from the records themselves, without privacy."""
OF_IMAGES = ("straighten", "classes", "bounds", "resize", "channels", "labels")
"""Of a data set: how its images are read. Tables have a schema."""
_LATER = (*OF_IMAGES, "student", "then_set")
"""What could not be stated from the first: names of runs have it only where it is."""
_TITLE = "benchmark suite"
_WORDS = ("label", "variant", "chosen_on", "tried", "recipe")
"""Of a run: what is said of it, and changes nothing that is computed."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set.

    Args:
        name: as runs and published numbers have it.
        train: its records: a path below the folder of data sets, or digits:train.
        test: records that are never distilled; empty where a share of the others is held out.
        test_share: of the records that are held out, drawn anew for every repeat, where there is no test; in mode
            paper of all records.
        schema: of a table: its schema.yaml, a path from the suite's file.
        most_missing: rows of a table with more missing values are left out; -1 for none.
        mirror: networks are trained on mirror images too: for photographs.
        straighten: images are brought upright by their own strokes: for handwriting.
        classes: of images: their number, or names, as `load` takes them; empty for what the format states.
        bounds: of a raw value of images, likewise.
        resize: side of the square that images are resized to, likewise.
        channels: 1 or 3 of images in files of their own, likewise.
        labels: which labels of images, where there are several, likewise.
        delta: of every budget on it.
        keep: share of the majority class that is kept in mode paper.
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
        for name, parse in (("classes", parse_classes), ("bounds", parse_bounds), ("resize", parse_resize)):
            if value := getattr(self, name):
                parse(value)
        stated = [name for name in OF_IMAGES if getattr(self, name)]
        if self.schema and stated:
            raise DataError(
                f"Expected data set {self.name!r}, a table, without {', '.join(stated)}: its schema says so."
            )


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A method with one recipe, on several data sets, budgets and sizes.

    Args:
        label: its row in the tables.
        method: as `dpdistill methods` lists it, or "real".
        recipe: in its place a published recipe by name, as `dpdistill methods --recipes` lists them.
        data: names of the suite's data sets.
        epsilon: budgets; none for what has no privacy.
        per_class: synthetic records a class; none for the recipe's.
        repeats: full runs of each, with new noise, a new public seed and a new start.
        set: recipe fields.
        variants: further fields by name. Runs that differ in nothing but free fields share one release, which is paid
            for once; so do those of several per_class where that is a free field.
        public: the data set whose training images are public, for a method's subspace; empty for drawn ones.
        chosen_on: data sets that the recipe was chosen on: there the selection is not included in epsilon.
        tried: how many runs that choice took.
        score: how the sets are scored.
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
            raise DataError(f"Expected {self.label!r} with a method, or in its place the name of a recipe.")

    def resolved(self) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The method, the fields of the recipe as a person writes them, and what `stated_by` says of it.

        Raises:
            DataError: neither method nor recipe is known.
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
    """One synthetic set of a suite: how it is made and scored. The fields are those of `Source` and `Entry`.

    The settings are those of the recipe, too, and `recipe` is what the certificate names: empty under another budget.
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
        """The method with its recipe.

        Args:
            public: the images of the public data set, where it has been read.

        Raises:
            DataError: an unknown method or field, or a value that the method refuses.
        """
        from dpdistill.api.recipes import build

        return build(self.method, self.settings, per_class=self.per_class, public_images=public)

    @property
    def budget(self) -> Budget | None:
        """What may be spent; None without privacy."""
        return None if self.epsilon is None else Budget(self.epsilon, self.source.delta)

    @property
    def name(self) -> str:
        """The same for whatever is stated in the same way; a field that is stated at its default makes another name."""
        facts = {k: v for k, v in _stated(self).items() if k not in _WORDS}
        if self.public is None:
            del facts["public"]
        return self._named(facts)

    @property
    def release(self) -> str:
        """The name of what is released, the same for runs that differ in free fields alone.

        Without privacy nothing is released: then that of the set, however it is scored.
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
    """What names are made of."""
    return asdict(part, dict_factory=lambda items: {k: v for k, v in items if v or k not in _LATER})


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What a suite's file states.

    Args:
        dpdistill: "benchmark suite".
        title: in a few words.
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
        """Every run, in order; repeats come last, so that a suite that is stopped has something of everything."""
        sources = {source.name: source for source in self.data}
        for repeat in range(max((entry.repeats for entry in self.runs), default=0)):
            for entry in (entry for entry in self.runs if repeat < entry.repeats):
                method, taken, stated = entry.resolved()
                size = taken.pop("per_class", None)
                named = (*entry.data, *([entry.public] if entry.public else []))
                if unknown := next((name for name in named if name not in sources), None):
                    raise DataError(f"{entry.label!r} runs on {unknown!r}, which is none of the suite's data sets.")
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
    """A suite that comes with the package, by name, or one in a file.

    Returns:
        (the suite's file, what it states).

    Raises:
        DataError: no such suite, a file that is none, or unknown methods and data sets.
    """
    path = FOLDER / f"{name}.yaml" if name in SUITES else Path(name)
    if not path.is_file():
        raise DataError(f"Expected a suite {show(name)} among {', '.join(SUITES)}, or as a YAML file; there is none.")
    with reading(path):
        content = path.read_bytes()
    try:
        content = load_yaml(content)
        if not isinstance(content, dict) or content.get("dpdistill") != _TITLE:
            raise DataError(f"Expected a suite, which begins with `dpdistill: {_TITLE}`.")
        suite = read_facts(Suite, content, "the suite")
        list(suite.all_runs())
    except (ValueError, TypeError) as error:
        raise DataError(f"{show(path)}: {error}") from None
    return path, suite
