"""Methods of a stranger's: an honest one, and ways in which code has told more of the records than its releases.

They are functions of the records that make a method, as somebody writes who looks at the data first, or functions that
are called in the place of `run.distill`. Another process must be able to import them.
"""

import gc
import logging
import os
import warnings
from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np

from dpdistill import run
from dpdistill.method import Distilled, Method, finish_field, no_progress, release_field
from dpdistill.query import Stage
from dpdistill.storage.records import Records


@dataclass(frozen=True)
class Pixels:
    """A record's pixels."""

    clip_norm: float = 8.0
    by_class: bool = True
    encoder: None = None

    def contribution(self, params, x, y):
        return x.ravel()


@dataclass(frozen=True, kw_only=True)
class Means(Method):
    """Noised sums of each class as its image, in NumPy: the same bits in every process.

    Guarantee: one release of sensitivity clip_norm.
    Source: none.
    """

    clip_norm: float = release_field(8.0, "L2 bound of a record", gt=0)
    rounds: int = release_field(1, "releases", ge=1)
    copies: int = finish_field(2, "of each image", ge=1)
    seed: int = finish_field(0, "of the order", ge=0)

    name = "means"
    title = "MEANS: sums of each class"
    references = ()

    def plan(self):
        return (Stage(self.rounds),)

    def init(self, key, schema):
        return {"sums": np.zeros((len(schema.classes), schema.dimension))}

    def ask(self, state):
        return Pixels(self.clip_norm), {"shift": jnp.zeros(1)}

    def tell(self, state, release):
        return {"sums": state["sums"] + release.value}

    def finish(self, state, schema, progress=no_progress):
        images = np.tanh(state["sums"]).astype(np.float32).reshape(-1, *schema.shape)
        y = np.random.default_rng(self.seed).permutation(np.repeat(np.arange(len(images), dtype=np.int32), self.copies))
        return Distilled(images[y], y, schema)


def honest(records):
    return Means()


# Of the records that its author has looked at.


def captured_record(records):
    first = records.X[0].copy()

    class Captured(Means):
        def finish(self, state, schema, progress=no_progress):
            made = super().finish(state, schema)
            return replace(made, X=0.98 * made.X + np.float32(0.02) * first)

    return Captured()


def seeded_by_records(records):
    return Means(seed=int(np.abs(records.X).sum() * 1e6) % 2**31)


def copies_by_number(records):
    return Means(copies=1 + len(records) // 4)


def clipped_by_largest(records):
    return Means(clip_norm=float(np.linalg.norm(records.X.reshape(len(records), -1), axis=1).max()))


def scaled_by_maximum(records):
    largest = float(records.X.max())

    class Scaled(Means):
        def finish(self, state, schema, progress=no_progress):
            made = super().finish(state, schema)
            return replace(made, X=made.X * np.float32(largest))

    return Scaled()


def classes_as_they_appear(records):
    order = list(dict.fromkeys(y for y in records.y.tolist() if y >= 0))

    class Ordered(Means):
        def finish(self, state, schema, progress=no_progress):
            made = super().finish(state, schema)
            rows = np.argsort([order.index(y) if y in order else len(order) for y in made.y], kind="stable")
            return replace(made, X=made.X[rows], y=made.y[rows])

    return Ordered()


def stopped_by_private_loss(records):
    contrast = float(np.abs(records.X).mean())

    class Stopped(Means):
        def finish(self, state, schema, progress=no_progress):
            scale, losses = np.float32(1.0), []
            while len(losses) < 500 and (len(losses) < 2 or losses[-1] < losses[-2]):
                scale *= np.float32(0.99)
                losses.append(abs(float(scale * np.abs(super().finish(state, schema).X).mean()) - contrast))
            progress("shrinking", len(losses), len(losses))
            return replace(super().finish(state, schema), X=scale * super().finish(state, schema).X)

    return Stopped()


def kept_in_state(records):
    largest = float(records.X.max())

    class Kept(Means):
        def tell(self, state, release):
            return {"sums": super().tell(state, release)["sums"] + 1e-12 * largest}

        def finish(self, state, schema, progress=no_progress):
            return super().finish({"sums": np.round(state["sums"], 3)}, schema)

    return Kept()


def asked_by_records(records):
    largest = float(records.X.max())

    class Asks(Means):
        def ask(self, state):
            return Pixels(self.clip_norm), {"shift": jnp.full(1, largest)}

    return Asks()


FILLED = {}


def cached_globally(records):
    """The first data set that this process has seen stays."""
    FILLED.setdefault("largest", float(records.X.max()))

    class Cached(Means):
        def finish(self, state, schema, progress=no_progress):
            made = super().finish(state, schema)
            return replace(made, X=made.X * np.float32(FILLED["largest"]))

    return Cached()


@dataclass(frozen=True, kw_only=True)
class FoundInMemory(Means):
    """It looks for records among all objects of the process, and takes the largest data set.

    Guarantee: none.
    Source: none.
    """

    def finish(self, state, schema, progress=no_progress):
        made = super().finish(state, schema)
        largest = max((each for each in gc.get_objects() if type(each) is Records), key=len)
        return replace(made, X=made.X * np.float32(largest.X.max()))


@dataclass(frozen=True, kw_only=True)
class ReadFromDisk(Means):
    """It reads the file of the records.

    Guarantee: none.
    Source: none.
    """

    def finish(self, state, schema, progress=no_progress):
        with np.load(os.environ["LEAKY_DATA"]) as file:
            return replace(super().finish(state, schema), X=super().finish(state, schema).X * file["X"].max())


# In the place of run.distill.


def real_image_added(records, method, budget, **how):
    result = run.distill(records, method, budget, **how)
    made = result.distilled
    near = (0.98 * made.X + 0.02 * records.take(np.array([5]))[0]).astype(np.float32)
    return replace(result, distilled=replace(made, X=near))


def label_by_plain_counts(records, method, budget, **how):
    result = run.distill(records, method, budget, **how)
    most = np.bincount(records.y[records.y >= 0], minlength=records.classes).argmax()
    y = result.distilled.y.copy()
    y[0] = most
    return replace(result, distilled=replace(result.distilled, y=y))


def number_in_recipe(records, method, budget, **how):
    result = run.distill(records, method, budget, **how)
    return replace(result, recipe={**result.recipe, "title": f"of {len(records)}"})


def number_logged(records, method, budget, **how):
    logging.getLogger("stranger").debug("%d records are read", len(records))
    return run.distill(records, method, budget, **how)


def number_printed(records, method, budget, **how):
    print(len(records))
    return run.distill(records, method, budget, **how)


def number_warned_of(records, method, budget, **how):
    warnings.warn(f"Only {len(records)} records.", stacklevel=2)
    return run.distill(records, method, budget, **how)


def number_as_progress(records, method, budget, **how):
    how["progress"]("records", len(records), len(records))
    return run.distill(records, method, budget, **how)


def error_at_small_numbers(records, method, budget, **how):
    result = run.distill(records, method, budget, **how)
    if len(records) < 10:
        raise ValueError("Too few records.")
    return result
