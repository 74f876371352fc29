"""One list of what every method of the table keeps to: a method that is added to the table is run through it.

Nothing here names a method or a field: small settings, switches and bad values follow from what the fields say of
themselves, and queries are found by asking. At the end methods that are made to be thrown away are run through the
list: one that passes it, and defective ones that it catches.
"""

import dataclasses
import math
import re
import sys
from dataclasses import dataclass
from functools import lru_cache

import contract
import jax
import numpy as np
import pytest
from contract import ALL, DEFAULT, OTHERS, Stop, make_records, stop_after, subset, table_records, tiny
from contract.float32 import assert_close_float32

from dpdistill import run
from dpdistill.accounting.schedule import Budget
from dpdistill.api.recipes import build
from dpdistill.certificate.build import read_certificate
from dpdistill.errors import LedgerError
from dpdistill.folder.save import read_distilled
from dpdistill.ledger.run import RunLedger
from dpdistill.method import Distilled, Method, finish_field, no_progress, release_field
from dpdistill.methods import METHODS
from dpdistill.private.noise import SeededEntropy
from dpdistill.programs.checks import types_of
from dpdistill.programs.self_test import check_rows
from dpdistill.query import ByValue, Event, LinearQuery, Release, Stage
from dpdistill.recipe.build import from_fields, shown
from dpdistill.recipe.methods import PURPOSES, RECIPES, method_for
from dpdistill.recipe.parts import implement
from dpdistill.recipe.rules import rules_of
from dpdistill.run import checkpoint as stores
from dpdistill.run.checkpoint import Store
from dpdistill.run.serialize import releases_id
from dpdistill.run.start import queries_of
from dpdistill.schema import Schema, TableSchema
from dpdistill.storage.records import Records

RECORDS = {Schema: make_records(40), TableSchema: table_records(40)}
BUDGET = Budget(5.0)
CHUNK = 5
"""Rows of a chunk: odd, and the same where it may be, so that a program is compiled once."""


def kinds_of(name, which=ALL):
    """The kinds of records that a method distils. The default is its first, and all where people are given it."""
    kinds = METHODS[name].schemas
    default = kinds if name in map(method_for, PURPOSES) else kinds[:1]
    return {ALL: kinds, DEFAULT: default, OTHERS: [kind for kind in kinds if kind not in default]}[which]


def records_of(name, which=ALL):
    """A data set of each kind that a method distils."""
    return [given(name, kind) for kind in kinds_of(name, which)]


def given(name, kind):
    """A data set of a kind; a method that takes no label but a number has one with a number to predict."""
    schema = contract.fitting(name, RECORDS[kind].schema)
    return RECORDS[kind] if schema == RECORDS[kind].schema else table_records(40, schema=schema)


class SteadyEntropy(SeededEntropy):
    """Places of the records come from no stream: drawn again when a run goes on, they would move what follows them."""

    def __init__(self, seed, records):
        super().__init__(seed)
        self.places = 2 * records

    def bytes(self, n):
        return b"\7" * n if n == self.places else super().bytes(n)


def distil(name, records, method, seed=0, entropy=3, **how):
    """A run in the way that the method can be run: under a budget, or without a guarantee."""
    if not METHODS[name].private:
        return run.distill_without_privacy(records, method, seed=seed)
    entropy = SteadyEntropy(entropy, len(records)) if isinstance(entropy, int) else entropy
    return run.distill(records, method, BUDGET, seed=seed, entropy=entropy, **how)


@lru_cache(maxsize=64)
def once(name, kind):
    """A result in the tiny setting, made once."""
    return distil(name, given(name, kind), tiny(name))


def results_of(name, which=ALL):
    return [once(name, kind) for kind in kinds_of(name, which)]


def fields_of(name, finish=None):
    """The fields, or those that may (not) change afterwards."""
    found = dataclasses.fields(METHODS[name])
    return [field for field in found if finish is None or field.metadata["finish"] is finish]


def rule_of(name, field):
    """What a field may hold."""
    return rules_of(METHODS[name])[field.name]


def same_leaves(one, other):
    leaves = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b) for a, b in leaves)


# What it says of itself.


def it_says_what_it_is(name, tmp_path):
    kind = METHODS[name]
    assert kind.name == name, "The table has it under another name."
    assert re.fullmatch(r"[^:]+: .+", kind.title), "Its title is not short name: meaning."
    assert kind.references, "It cites nobody."
    assert all(re.search(r"\(\d{4}\)\. ", reference) for reference in kind.references)
    assert set(kind.schemas) <= set(RECORDS), "It distils records of an unknown kind."
    assert kind.schemas
    for schema in (given(name, each).schema for each in kind.schemas):
        query, _ = tiny(name).ask(tiny(name).init(jax.random.key(0), schema))
        assert isinstance(query, LinearQuery) == tiny(name).linear, "Its queries are not what it states of them."
    assert re.search(r"^    Source: |^    [\w ,]+\(\d{4}\)", kind.__doc__, re.M), "Its docstring names no source."
    assert "Guarantee: " in kind.__doc__, "Its docstring states no guarantee."


def its_fields_say_what_they_are(name, tmp_path):
    for field in fields_of(name):
        rule = rule_of(name, field)
        assert len(field.metadata["help"]) > 2, "A field has no help."
        assert isinstance(field.metadata["finish"], bool)
        assert field.kw_only
        if rule.kind in (int, float):
            low, high = (rule.ge, rule.gt), (rule.le, rule.lt)
            assert any(v is not None for v in (*low, *high)), f"Any number may be {field.name}."
            assert None in low, f"{field.name} has two lower bounds."
            assert None in high, f"{field.name} has two upper bounds."
        assert rule.kind not in (str, tuple) or rule.choices, f"Any word may be in {field.name}."
        for end in (rule.ge, rule.le):
            if end is not None:
                assert getattr(tiny(name, **{field.name: rule.kind(end)}), field.name) == end


def bad_values(rule):
    """What a field must refuse: the other side of each bound, what is not finite, other kinds of value."""
    if rule.kind in (int, float):
        low, high = rule.ge, rule.le
        ends = [v for v in (rule.gt, rule.lt) if v is not None]
        beyond = [*([low - 1] if low is not None else []), *([high + 1] if high is not None else []), *ends]
        also = [1.5, 2**31, 10**400] if rule.kind is int else [math.nan, math.inf, -math.inf]
        if rule.kind is float:
            beyond += [math.nextafter(v, s) for v, s in ((low, -math.inf), (high, math.inf)) if v is not None]
        return [*beyond, *also, "3", None, True]
    if rule.kind is bool:
        return [1, "true", None]
    if rule.kind is str:
        return ["nosuch", "", rule.choices, 3, None]
    if rule.kind is tuple:
        return [("nosuch",), (*rule.choices, ""), ["nosuch"], *rule.choices[:1]]
    return [None, "fc-ntk", 3, {}]


def it_refuses_bad_values(name, tmp_path):
    for field in fields_of(name):
        for value in bad_values(rule_of(name, field)):
            said = refused_by(name, field.name, value)
            assert re.match(rf"Expected .*\b{field.name}\b.*\.$", said), said


def refused_by(name, field, value):
    """What a method says of a value that it does not accept."""
    try:
        tiny(name, **{field: value})
    except ValueError as error:
        return str(error)
    return f"{field}={value!r} is accepted."


def it_is_a_frozen_value(name, tmp_path):
    one, same = tiny(name), tiny(name)
    field = fields_of(name)[0].name
    assert one == same
    assert hash(one) == hash(same)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(one, field, getattr(one, field))
    for each in fields_of(name):
        assert one != dataclasses.replace(one, **{each.name: another(name, each)})


def another(name, field):
    """Another value that a field may hold than it has in the tiny setting."""
    rule, value = rule_of(name, field), getattr(tiny(name), field.name)
    candidates = {
        int: lambda: [value + 1],
        float: lambda: [value / 2 + 0.1, value / 2],
        bool: lambda: [not value],
        str: lambda: rule.choices,
        tuple: lambda: [rule.choices, ()],
    }.get(rule.kind, lambda: [*contract.small_parts(rule.kind), dataclasses.replace(value)])()
    for candidate in candidates:
        if candidate != value and refused_by(name, field.name, candidate).endswith(" is accepted."):
            return candidate
    return dataclasses.replace(contract.SCATTER, encoder=dataclasses.replace(contract.SCATTER.encoder, L=4))


def its_recipe_comes_back(name, tmp_path):
    method = tiny(name)
    recipe = run.recipe_of(method, 0)
    assert recipe["method"] == name
    assert implement(from_fields(name, recipe["fields"])) == method
    written = [f"{f.name}={shown(getattr(method, f.name))}" for f in fields_of(name) if "kind" not in recipe["fields"]]
    kernels = {f.name for f in fields_of(name) if dataclasses.is_dataclass(f.default)}
    stated = [text for text in written if text.partition("=")[0] not in kernels]
    named = {kernel: getattr(method, kernel) for kernel in kernels}
    assert build(name, stated, **named) == method


# What it asks.


def queries(name, which):
    """Every query on every kind of records; and linear ones of images with a clip norm that clips everything.

    The default are those of the method as it is on its default kinds; the clip norm, as tests/methods/test_ghost.py
    tests it, is among the others.
    """
    for kind in kinds_of(name, which if which == DEFAULT else ALL):
        schema = given(name, kind).schema
        default = contract.queries_of(name, schema, DEFAULT) if kind in kinds_of(name, DEFAULT) else {}
        for label, (query, params) in contract.queries_of(name, schema, DEFAULT if which == DEFAULT else ALL).items():
            if which != OTHERS or label not in default:
                yield query, params, schema
            clips = "clip_norm" in METHODS[name].__dataclass_fields__ and isinstance(query, LinearQuery)
            if kind is Schema and clips and which != DEFAULT:
                yield dataclasses.replace(query, clip_norm=1e-4 * query.clip_norm), params, schema


CHECKED = set()
"""What has passed: a check, a query by value, a schema, and types of params."""


def unchecked(check, name, which):
    """The queries of a private method that have not passed the check yet: several methods ask the same."""
    for query, params, schema in queries(name, which) if METHODS[name].private else ():
        asked = check, ByValue(query), schema, types_of(params)
        if asked not in CHECKED:
            yield query, params, schema
            CHECKED.add(asked)


def its_sums_move_by_what_is_stated(name, tmp_path, which=ALL):
    """Add-or-remove and replace-one, with adversarial records, for every query."""
    for query, params, schema in unchecked("sums", name, which):
        records = table_records(7, schema=schema)
        if isinstance(query, LinearQuery):
            contract.check_linear_sensitivity(query, params, records, chunk=CHUNK)
        else:
            contract.check_add_remove(query, params, records)
            contract.check_replace_one(query, params, records)


def a_persons_rows_move_them_by_what_is_stated(name, tmp_path, which=ALL):
    """A unit of one, of the most and of ten times the most rows that are used; and the others stay as they were."""
    for query, params, schema in unchecked("persons", name, which):
        linear = isinstance(query, LinearQuery)
        contract.check_unit_sensitivity(query, params, table_records(7, schema=schema), CHUNK if linear else 4)
        if not linear:
            contract.check_others_of_a_unit_stay(query, params, table_records(23, 3, schema))


def its_rows_stay(name, tmp_path, which=ALL):
    """What is computed of a record does not depend on the others: as programs are tested, and as records are."""
    for query, params, schema in unchecked("rows", name, which):
        with jax.default_matmul_precision("highest"):  # as the curator has it: nothing is compiled again
            check_rows(query, params, schema, CHUNK)
        for chunk in () if isinstance(query, LinearQuery) else (4, CHUNK):
            contract.check_places(query, params, table_records(23, 3, schema), chunk)


def it_states_whether_it_has_linear_queries(name, tmp_path, which=ALL):
    """In every variant: the certificate says what they round away; and the non-private ones are not answered."""
    for method in contract.chosen_variants(name, which).values() if METHODS[name].private else ():
        for kind in kinds_of(name, DEFAULT if which == DEFAULT else ALL):
            try:
                asked = contract.asked(method, given(name, kind).schema, contract.rounds_of(method))
            except ValueError:
                continue
            found = any(isinstance(query, LinearQuery) for query, _ in asked)
            assert found == method.linear, "Whether there are linear queries is not what it states."
    if not METHODS[name].private:
        with pytest.raises(ValueError, match="has no private form: `dpdistill distill --non-private` runs it"):
            run.distill(records_of(name)[0], tiny(name), BUDGET)


def its_stages_ask_what_they_are_said_to_ask(name, tmp_path, which=ALL):
    """What is looked at before anything is paid has the query and the shapes of what each stage asks first."""
    for method in contract.chosen_variants(name, which).values():
        for kind in kinds_of(name, DEFAULT if which == DEFAULT else ALL):
            schema = given(name, kind).schema
            try:
                asked = list(contract.asked(method, schema, contract.rounds_of(method)))
            except ValueError:
                continue
            rounds = [stage.rounds for stage in method.plan()]
            first = [asked[sum(rounds[:i])] for i in range(len(rounds))]
            assert 0 <= method.main_stage < len(rounds)
            for (query, params), (expected, truly) in zip(queries_of(method, schema), first, strict=True):
                assert query == expected, "Another query is looked at than is asked."
                assert jax.tree.structure(params) == jax.tree.structure(truly)
                for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(truly), strict=True):
                    assert (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)


# What it makes.


def the_same_key_and_releases_give_the_same_result(name, tmp_path, which=ALL):
    for records, result in zip(records_of(name, which), results_of(name, which), strict=True):
        method = tiny(name)

        def same(records=records, method=method, made=result.distilled, **how):
            """Records, and what is said of them where that is all a method learned."""
            again = distil(name, records, method, **how).distilled
            pairs = ((again.X, made.X), (again.soft_labels, made.soft_labels))
            return all((one is None) == (other is None) and np.array_equal(one, other) for one, other in pairs)

        assert same(), "The same run gives another result."
        states = [method.init(jax.random.key(seed), records.schema) for seed in (0, 1)]
        assert same(seed=1) == same_leaves(*states), "The key has no effect."
        assert not METHODS[name].private or not same(entropy=4), "Other noise gives the same."


def records_are_in_bounds_whatever_was_distilled(name, tmp_path, which=ALL):
    """Also where a class has no records, one class has all but one of them, or there are none at all."""
    for records in records_of(name, which):
        first = np.flatnonzero(records.y == 0)
        rare = np.concatenate([first, np.flatnonzero(records.y == 1)[:1]])
        for rows in (slice(None), records.y != 1, rare, []):
            made = distil(name, subset(records, rows), tiny(name))
            X, y, schema = made.distilled.X, made.y, records.schema
            assert (X.shape[1:], X.dtype, y.dtype) == (schema.shape, np.float32, np.int32)
            assert len(X) == len(y) > 0
            assert np.isfinite(X).all(), "A synthetic record is not finite."
            assert np.abs(X).max() <= 1.0, "A synthetic record is out of bounds."
            assert made.distilled.schema == schema
            assert set(y.tolist()) <= set(range(len(schema.classes)))
            if "per_class" in METHODS[name].__dataclass_fields__:
                assert y.tolist() == np.repeat(range(len(schema.classes)), tiny(name).per_class).tolist()


def records_of_one_class_are_distilled_or_refused(name, tmp_path):
    """What they have in common can be learned without other classes, or the method says that it needs more."""
    if Schema not in METHODS[name].schemas:  # the schema of a table has two classes at least
        return
    schema = Schema((8, 8, 1), (-1.0, 1.0), ("digit",))
    records = Records(np.random.default_rng(0).uniform(-1, 1, (20, 8, 8, 1)), np.zeros(20, np.int64), schema)
    if METHODS[name].least_classes == 1:
        assert (distil(name, records, tiny(name)).y == 0).all()
    else:
        with pytest.raises(ValueError, match="needs at least 2 classes, and these records have 1: choose one of dp-"):
            distil(name, records, tiny(name))


def it_saves_and_loads(name, tmp_path, which=ALL):
    for k, result in enumerate(results_of(name, which)):
        folder = result.save(tmp_path / f"shared {k}")
        back = read_distilled(folder)
        assert_close_float32(back.X, result.distilled.X, terms=6, scale=1.0)
        np.testing.assert_array_equal(back.y, result.y)
        assert (back.schema, back.training) == (result.distilled.schema, None)
        for part in ("targets", "classifier", "soft_labels"):
            kept, made = getattr(back, part), getattr(result.distilled, part)
            assert (kept is None) == (made is None)
            np.testing.assert_array_equal(kept, made)
        assert (back.classifier is None) != hasattr(METHODS[name], "classifier"), "Suites ask for it before a run."
        recipe = read_certificate(folder)["recipe"]
        assert implement(from_fields(recipe["method"], recipe["fields"])) == tiny(name)


def only_releases_speak(name, tmp_path):
    if METHODS[name].private and Schema in METHODS[name].schemas:
        contract.check_only_releases_speak(tmp_path, name)


def its_state_keeps_its_types(name, tmp_path, which=ALL):
    for records in records_of(name, which):
        method = tiny(name)
        state = method.init(jax.random.key(0), records.schema)
        for t in range(contract.rounds_of(method)):
            query, params = method.ask(state)
            value = np.ones(contract.release_shape(query, params, records.schema))
            after = method.tell(state, Release(t, value, 1.0, Event(1.0)))
            assert jax.tree.structure(state) == jax.tree.structure(after)
            for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(after), strict=True):
                same = (np.shape(a), np.asarray(a).dtype) == (np.shape(b), np.asarray(b).dtype)
                assert same, "A state changes its types: a checkpoint of it would not be read."
            state = after


# What it pays.


def its_budget_is_spent(name, tmp_path):
    """Every round is in the ledger once, at its price, and together they cost what was asked for."""
    sampled = {field.name: 0.5 for field in fields_of(name) if contract.is_sampling_prob(rule_of(name, field))}
    for fields in (({}, sampled) if sampled else ({},)) if METHODS[name].private else ():
        method, folder = tiny(name, **fields), tmp_path / f"run {len(fields)}"
        result = distil(name, records_of(name)[0], method, run_dir=folder)
        events, plan = RunLedger.read(folder).events, method.plan()
        assert len(events) == contract.rounds_of(method) == result.schedule.rounds
        assert list(events) == [result.schedule.event(t) for t in range(result.schedule.rounds)]
        assert [e.sampling_prob for e in events] == [stage.sampling_prob for stage in plan for _ in range(stage.rounds)]
        assert BUDGET.epsilon * (1 - 1e-3) <= result.epsilon <= BUDGET.epsilon
        assert result.noise == "insecure: seeded noise"


def a_killed_run_goes_on(name, tmp_path):
    """From its checkpoint, and from the ledger alone: the result is that of a run that was not stopped."""
    for every in (0.0, 1e9) if METHODS[name].private else ():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stores, "EVERY", every)
            how = {"run_dir": tmp_path / f"run {every}", "entropy": SteadyEntropy(3, 40)}
            records, told, rounds = records_of(name)[0], [], contract.rounds_of(tiny(name))
            with pytest.raises(Stop):
                distil(name, records, tiny(name), progress=stop_after(1), **how)
            assert len(RunLedger.read(how["run_dir"]).events) == 1
            result = distil(name, records, tiny(name), progress=lambda *said: told.append(said), **how)  # noqa: B023
        assert told[0] == ("releasing", 1 if every == 0.0 or rounds == 1 else 0, rounds)
        assert len(RunLedger.read(how["run_dir"]).events) == rounds
        np.testing.assert_array_equal(result.X, results_of(name)[0].X, "A run that goes on ends elsewhere.")
        record = RunLedger.read(how["run_dir"])
        state = Store(how["run_dir"], record.run_id).load(tiny(name).init(jax.random.key(0), records.schema))[1]
        assert result.releases == releases_id(record.run_id, state)


def it_goes_on_for_the_same_recipe_and_records_only(name, tmp_path):
    if not METHODS[name].private:
        return
    how, records = {"run_dir": tmp_path / "run", "entropy": SeededEntropy(3)}, records_of(name)[0]
    with pytest.raises(Stop):
        distil(name, records, tiny(name), progress=stop_after(1), **how)
    numbers = [field for field in fields_of(name, finish=False) if rule_of(name, field).kind is float]
    paid = min(
        numbers, key=lambda field: contract.is_sampling_prob(rule_of(name, field))
    )  # the noise of sampled rounds takes seconds to find
    changed = tiny(name, **{paid.name: another(name, paid)})
    others = [
        (subset(records, np.arange(39)), tiny(name), BUDGET, 0),
        (records, changed, BUDGET, 0),
        (records, tiny(name), Budget(4.0), 0),
        (records, tiny(name), BUDGET, 1),
    ]
    for data, method, budget, seed in others:
        with pytest.raises(LedgerError, match="Another run is kept"):
            run.distill(data, method, budget, seed=seed, **how)
    assert len(RunLedger.read(how["run_dir"]).events) == 1


def recording(method):
    """The same method, and the names of the fields that its own code has read since it was made."""
    read = set()

    class Recording(type(method)):
        def __getattribute__(self, name):
            if sys._getframe(1).f_code.co_name not in ("__hash__", "__eq__", "__post_init__"):
                read.add(name)
            return super().__getattribute__(name)

    made = Recording(**{field.name: getattr(method, field.name) for field in dataclasses.fields(method)})
    read.clear()
    return made, read


def what_may_change_afterwards_is_read_by_finish_alone(name, tmp_path, which=ALL):
    """And what is paid is read before, in one variant or another: else it need not be paid."""
    if not METHODS[name].private:
        return
    free, paid = ({field.name for field in fields_of(name, finish)} for finish in (True, False))
    schema, used = records_of(name)[0].schema, set()
    for k, variant in enumerate(contract.chosen_variants(name, which).values()):
        method, read = recording(variant)
        state = method.init(jax.random.key(0), schema)
        used |= read & paid
        read.clear()  # a start may refuse images of fewer pixels than tiles
        for t in range(contract.rounds_of(method)):
            query, params = method.ask(state)
            value = np.ones(contract.release_shape(query, params, schema))
            state = method.tell(state, Release(t, value, 1.0, Event(1.0)))
        assert not read & free, f"Read before finish: {read & free}."
        used |= read & paid
        if k == 0:
            method.finish(state, schema)
            assert free <= read, f"Read by nobody: {free - read}."
    assert which == DEFAULT or used == paid, f"Paid and not read: {paid - used}."


CHECKS = {
    check.__name__: check
    for check in (
        it_says_what_it_is,
        its_fields_say_what_they_are,
        it_refuses_bad_values,
        it_is_a_frozen_value,
        its_recipe_comes_back,
        its_sums_move_by_what_is_stated,
        a_persons_rows_move_them_by_what_is_stated,
        its_rows_stay,
        it_states_whether_it_has_linear_queries,
        its_stages_ask_what_they_are_said_to_ask,
        the_same_key_and_releases_give_the_same_result,
        records_are_in_bounds_whatever_was_distilled,
        records_of_one_class_are_distilled_or_refused,
        it_saves_and_loads,
        only_releases_speak,
        its_state_keeps_its_types,
        its_budget_is_spent,
        a_killed_run_goes_on,
        it_goes_on_for_the_same_recipe_and_records_only,
        what_may_change_afterwards_is_read_by_finish_alone,
    )
}


OF_VARIANTS = [
    its_sums_move_by_what_is_stated,
    a_persons_rows_move_them_by_what_is_stated,
    its_rows_stay,
    it_states_whether_it_has_linear_queries,
    its_stages_ask_what_they_are_said_to_ask,
    what_may_change_afterwards_is_read_by_finish_alone,
]
"""Checks of what every variant of a method asks: in the default run of the method as it is."""
OF_KINDS = [
    the_same_key_and_releases_give_the_same_result,
    records_are_in_bounds_whatever_was_distilled,
    it_saves_and_loads,
    its_state_keeps_its_types,
]
"""Checks of each kind of records that a method distils: in the default run of its default kinds."""


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", list(METHODS))
def test_conformance(name, check, tmp_path):
    CHECKS[check](name, tmp_path, **{"which": DEFAULT} if CHECKS[check] in [*OF_VARIANTS, *OF_KINDS] else {})


@pytest.mark.variants
@pytest.mark.parametrize("check", [check.__name__ for check in OF_VARIANTS])
@pytest.mark.parametrize("name", list(METHODS))
def test_conformance_of_variants(name, check, tmp_path):
    by_query = CHECKS[check] in OF_VARIANTS[:3]
    CHECKS[check](name, tmp_path, OTHERS if by_query else ALL)


@pytest.mark.variants
@pytest.mark.parametrize("check", [check.__name__ for check in OF_KINDS])
@pytest.mark.parametrize("name", [name for name in METHODS if kinds_of(name, OTHERS)])
def test_conformance_on_other_kinds_of_records(name, check, tmp_path):
    CHECKS[check](name, tmp_path, OTHERS)


# Methods to be thrown away: one that keeps the contract, and others that break it.


@dataclass(frozen=True, kw_only=True)
class OneSum(Method):
    """The noised sum of all records of a class, once, as an image or a row.

    Guarantee: one release of sensitivity clip_norm.
    Source: nobody.
    """

    clip_norm: float = release_field(5.0, "L2 bound of one record", gt=0)
    per_class: int = finish_field(10, "copies of a class's mean", ge=1)
    size: float = finish_field(13.0, "records a class is taken to have", gt=0)

    name = "one-sum"
    title = "One sum: the least there is"
    references = ("Nobody, A. (2026). A sum.",)
    schemas = (Schema, TableSchema)

    def plan(self):
        return (Stage(1),)

    def init(self, key, schema):
        return np.zeros((len(schema.classes), schema.dimension), np.float32)

    def ask(self, state):
        return contract.FlatQuery(self.clip_norm), np.float32(1.0)

    def tell(self, state, release):
        return release.value.astype(np.float32)

    def finish(self, state, schema, progress=no_progress):
        X = np.clip(np.repeat(state / self.size, self.per_class, 0), -1.0, 1.0)
        y = np.repeat(np.arange(len(schema.classes), dtype=np.int32), self.per_class)
        return Distilled(X.reshape(-1, *schema.shape), y, schema)


@pytest.mark.parametrize("check", CHECKS)
def test_a_method_that_is_added_is_run_through_the_list(check, tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, "one-sum", OneSum)
    CHECKED.clear()
    CHECKS[check]("one-sum", tmp_path)


@dataclass(frozen=True)
class LyingNorms(contract.FlatLinear):
    """Norm bounds that are half of the norms."""

    def norm(self, params, x):
        return 0.5 * super().norm(params, x)


class Defective(OneSum):
    """What the defects below have in common."""

    name = "defective"


class OneLinearSum(Defective):
    """The sum of all classes, by a linear query that may lie."""

    def query(self):
        return LyingNorms(self.clip_norm)

    def ask(self, state):
        return self.query(), np.float32(1.0)

    def tell(self, state, release):
        return np.broadcast_to(release.value.ravel(), state.shape).astype(np.float32)


class Honest(OneLinearSum):
    def query(self):
        return contract.FlatLinear(self.clip_norm)


class Undecided(OneLinearSum):
    """Linear by its own mood."""

    def plan(self):
        return (Stage(2),)

    def ask(self, state):
        return (self.query() if not state.any() else contract.FlatQuery(self.clip_norm, False)), np.float32(1.0)


class SeesFree(Defective):
    def ask(self, state):
        return contract.FlatQuery(self.clip_norm), np.float32(self.size / 13.0)


class Widens(Defective):
    def tell(self, state, release):
        return release.value


class Dices(Defective):
    def finish(self, state, schema, progress=no_progress):
        made = super().finish(state, schema)
        return dataclasses.replace(made, X=made.X * np.float32(np.random.default_rng().random()))


class Unbounded(Defective):
    def finish(self, state, schema, progress=no_progress):
        X = np.repeat(state, self.per_class, 0).reshape(-1, *schema.shape)
        return dataclasses.replace(super().finish(state, schema), X=X)


@dataclass(frozen=True, kw_only=True)
class Boundless(Defective):
    size: float = finish_field(13.0, "records a class is taken to have")


@dataclass(frozen=True, kw_only=True)
class PaysForNothing(Defective):
    taste: float = release_field(1.0, "read by nobody", gt=0)


@dataclass(frozen=True, kw_only=True)
class Waives(Defective):
    """Its own check of its fields forgets the one of all methods."""

    def __post_init__(self):
        pass


DEFECTS = [
    (OneLinearSum, its_sums_move_by_what_is_stated, "moves the sum by more than Delta"),
    (Undecided, it_states_whether_it_has_linear_queries, "Whether there are linear queries is not what it states"),
    (SeesFree, what_may_change_afterwards_is_read_by_finish_alone, "Read before finish: {'size'}"),
    (PaysForNothing, what_may_change_afterwards_is_read_by_finish_alone, "Paid and not read: {'taste'}"),
    (Widens, its_state_keeps_its_types, "A state changes its types"),
    (Dices, the_same_key_and_releases_give_the_same_result, "The same run gives another result"),
    (Unbounded, records_are_in_bounds_whatever_was_distilled, "out of bounds"),
    (Boundless, its_fields_say_what_they_are, "Any number may be size"),
    (Waives, it_refuses_bad_values, "is accepted"),
    (OneSum, it_says_what_it_is, "The table has it under another name"),
]


@pytest.mark.parametrize(("kind", "check", "said"), DEFECTS, ids=[kind.__name__ for kind, _, _ in DEFECTS])
def test_a_defect_is_caught(kind, check, said, tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, "defective", kind)
    contract.forget_queries()
    once.cache_clear()
    CHECKED.clear()
    with pytest.raises(AssertionError, match=re.escape(said)):
        check("defective", tmp_path)


def test_honest_norms_are_not_caught(tmp_path, monkeypatch):
    monkeypatch.setitem(RECIPES, "defective", Honest)
    contract.forget_queries()
    CHECKED.clear()
    its_sums_move_by_what_is_stated("defective", tmp_path)
