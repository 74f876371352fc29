"""Owners and a coordinator in one process: what they answer, and everything they refuse."""

from dataclasses import replace

import contract
import numpy as np
import pytest
from contract import NoNoise, make_records, memory_ledger, table_records, tiny
from parties import Parties, is_uniform, new_keys, plan_of, random_records, split

from dpdistill.errors import CuratorError, LedgerError, Unanswered
from dpdistill.ledger.dataset import DatasetLedger
from dpdistill.ledger.run import RunLedger
from dpdistill.method import no_progress
from dpdistill.methods import METHODS
from dpdistill.private.curator import Curator
from dpdistill.private.linear import step_and_sensitivity
from dpdistill.query import ByValue, LinearQuery, Release
from dpdistill.recipe.saved import check_kind
from dpdistill.run.checkpoint import Store
from dpdistill.run.driver import run_rounds
from dpdistill.run.fit import fitting
from dpdistill.run.start import queries_of
from dpdistill.schema import DataError, TableSchema
from dpdistill.together.masks import Attempt
from dpdistill.together.messages import pack_params
from dpdistill.together.plan import TogetherPlan
from dpdistill.together.questions import Questions
from dpdistill.together.statements import CONTRIBUTION, Contribution, signed

LDPDC = tiny("ldpdc", sampling_prob=1.0)


def parties_of(tmp_path, n=3, method=LDPDC, records=None, **stated):
    records = make_records(12 * n) if records is None else records
    return Parties(tmp_path, method, split(records, n), **stated)


@pytest.fixture
def three(tmp_path):
    made = parties_of(tmp_path)
    yield made
    made.close()


@pytest.fixture
def four(tmp_path):
    """Four owners, of whom one may drop out."""
    made = parties_of(tmp_path, 4, tiny("ndpdc", most=3))
    yield made
    made.close()


def first_question(parties):
    aggregator = parties.start()
    query, params = parties.method.ask(parties.method.init(__import__("jax").random.key(0), parties.plan.facts))
    return aggregator, query, params


def asked(parties, round=0, attempt=0, names=None, params=b"", kind="contribute"):
    """A message to an owner."""
    names = parties.plan.names if names is None else names
    return {
        "kind": kind, "run": parties.plan.run, "round": round, "attempt": attempt, "names": list(names),
        "params": params,
    }  # fmt: skip


def refusal(parties, name, message):
    answer = parties.links.owners[name].answer(message)
    assert set(answer) == {"kind", "sentence"}
    assert answer["kind"] == "refused"
    return answer["sentence"]


class TestSums:
    @pytest.mark.parametrize("n", [3, 10])
    def test_sums_without_noise_are_those_of_the_pooled_records(self, tmp_path, n):
        records = make_records(7 * n)
        parties = parties_of(tmp_path, n, records=records, entropy=lambda name: NoNoise())
        aggregator, query, params = first_question(parties)
        together = aggregator.release(0, query, params)
        plan = parties.plan.schedule
        pooled = Curator(records, plan, memory_ledger(plan), NoNoise(), compute_of(parties)).release(0, query, params)
        assert np.array_equal(together.value, pooled.value)
        assert np.abs(pooled.value).max() > 0.1
        assert together.event == pooled.event
        assert together.stddev == pytest.approx(pooled.stddev * {3: 1.5, 10: 1.25}[n] ** 0.5)  # as every owner answered
        parties.close()

    def test_owners_without_a_class_or_without_records_add_nothing(self, tmp_path):
        records = make_records(30)
        first = records.y == 0
        parts = [replace(records, X=records.X[k], y=records.y[k]) for k in (first, ~first, np.zeros(30, bool))]
        parties = Parties(tmp_path, LDPDC, parts, entropy=lambda name: NoNoise())
        aggregator, query, params = first_question(parties)
        plan = parties.plan.schedule
        pooled = Curator(records, plan, memory_ledger(plan), NoNoise(), compute_of(parties)).release(0, query, params)
        assert np.array_equal(aggregator.release(0, query, params).value, pooled.value)
        parties.close()

    @pytest.mark.parametrize("n", [3, 10])
    def test_linear_sums_differ_by_at_most_half_a_step_for_each_owner(self, tmp_path, n):
        records = make_records(7 * n)
        parties = parties_of(tmp_path, n, tiny("decoupled-kip"), records, entropy=lambda name: NoNoise())
        aggregator, query, params = first_question(parties)
        assert isinstance(query, LinearQuery)
        plan = parties.plan.schedule
        pooled = Curator(records, plan, memory_ledger(plan), NoNoise(), compute_of(parties)).release(0, query, params)
        steps = (aggregator.release(0, query, params).value - pooled.value) / step_and_sensitivity(
            query.clip_norm, pooled.value.size
        )[0]
        assert np.abs(steps).max() <= (n + 1) / 2
        assert np.abs(pooled.value).max() > 0.01
        parties.close()

    def test_a_run_is_that_of_a_curator(self, three):
        aggregator = three.start()
        rounds, facts = three.plan.schedule.rounds, three.plan.facts
        state = run_rounds(three.method, aggregator, Store(None), rounds, 0, facts, no_progress)
        made = three.method.finish(state, facts)
        assert made.X.shape == (len(made.y), *facts.shape)
        for name in three.plan.names:
            assert three.ledgers[name].summary().spent == pytest.approx(1.0, rel=1e-6)


def compute_of(parties):
    method, schema = parties.method, parties.plan.facts
    return fitting(method, schema, queries_of(method, schema, 0), parties.plan.schedule)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.private])
def test_queries_of_every_method_follow_from_the_recipe(name):
    """An owner builds the queries from the plan alone: they are those of a run, and so are the shapes of parameters."""
    import jax

    method = tiny(name)
    records = table_records(4) if METHODS[name].schemas[0] is TableSchema else make_records(4)
    schema = contract.fitting(name, records.schema)
    check_kind(method, schema)
    questions, seen = Questions(method, schema, 0), []
    draw = np.random.default_rng(0)

    class Random:
        def release(self, t, query, params):
            expected, like = questions[t]
            assert ByValue(expected) == ByValue(query)
            assert len(pack_params(like)) == len(pack_params(params))
            assert jax.tree.structure(like) == jax.tree.structure(params)
            shapes = [[(np.shape(x), np.asarray(x).dtype) for x in jax.tree.leaves(each)] for each in (like, params)]
            assert shapes[0] == shapes[1]
            seen.append(t)
            from dpdistill.together.aggregator import steps_of

            shape, _, stddev = steps_of(query, params, schema, 1.0, 1)
            return Release(t, draw.normal(0.0, stddev, shape), stddev, None)

    rounds = sum(stage.rounds for stage in method.plan())
    run_rounds(method, Random(), Store(None), rounds, 0, schema, no_progress)
    assert seen == [*range(rounds)]


class TestOwnersRefuse:
    def test_a_question_before_the_start(self, three):
        assert refusal(three, "owner 00", asked(three)) == "has not started yet"

    def test_another_plan(self, three):
        three.start()
        assert refusal(three, "owner 00", asked(three) | {"run": "1" * 64}) == "has another plan"

    @pytest.mark.parametrize(
        ("change", "found"),
        [
            ({"names": ["owner 00", "owner 01"]}, "list of at least 3 owners"),
            ({"names": ["owner 01", "owner 02", "owner 03"]}, "in order, with this owner"),
            ({"names": ["owner 01", "owner 00", "owner 02"]}, "in order, with this owner"),
            ({"names": ["owner 00", "owner 00", "owner 01"]}, "in order, with this owner"),
            ({"names": ["owner 00", "owner 01", "owner 02", "owner 03"]}, "in order, with this owner"),
            ({"round": 2}, "round of the plan's 2"),
            ({"round": -1}, "round of the plan's 2"),
            ({"round": "0"}, "no field 'round' of type int"),
            ({"params": b"12"}, "parameters of another length"),
            ({"kind": "run this"}, "a message of no known kind"),
            ({"kind": 1}, "no field 'kind' of type str"),
        ],
    )
    def test_questions_that_the_plan_does_not_promise(self, three, change, found):
        three.start()
        assert found in refusal(three, "owner 00", asked(three) | change)
        assert RunLedger.read(three.folder / "owner 00.run").events == ()

    def test_keys_that_are_not_the_owners(self, three):
        roster = three.roster()
        message = {"kind": "start", "run": three.plan.run}
        for wrong, found in (
            (roster[:2], "one key of every owner"),
            ([roster[0], roster[0], roster[2]], "one key of every owner"),
            ([roster[0], [*roster[1][:2], roster[2][2]], roster[2]], "no signature of 'owner 01'"),
            ([["owner 00", roster[1][1], roster[1][2]], *roster[1:]], "no signature of 'owner 00'"),
            ([roster[0][:2], *roster[1:]], "a roster of another form"),
        ):
            assert found in refusal(three, "owner 00", message | {"roster": wrong})
        assert three.ledgers["owner 00"].summary().spent == 0.0  # nothing was paid

    def test_other_keys_than_at_the_start(self, tmp_path, three):
        three.start()
        first = {"kind": "start", "run": three.plan.run, "roster": three.roster()}
        three.folder = tmp_path / "elsewhere"
        three.folder.mkdir()
        three.join("owner 01")
        assert "from another folder" in refusal(three, "owner 01", first)
        second = first | {"roster": three.roster()}
        assert refusal(three, "owner 00", second) == "knows other keys of the owners of this run"

    def test_a_round_that_was_missed_is_never_drawn(self, four):
        _, _, params = first_question(four)
        ledger = four.opened["owner 00"]
        ledger.commit(0, four.plan.schedule.event(0), np.zeros(0, np.int64), 1.0)  # killed before the next round
        message = asked(four, params=pack_params(params))
        assert refusal(four, "owner 00", message) == "missed round 0, which cannot be made up for"

    def test_a_ledger_that_refuses_says_nothing_to_the_coordinator(self, three):
        three.ledgers["owner 01"] = DatasetLedger.begin(three.folder / "small", 0.5)
        owner = three.join("owner 01")
        message = {"kind": "start", "run": three.plan.run, "roster": three.roster()}
        assert refusal(three, "owner 01", message) == "could not answer; its own terminal says why"
        assert isinstance(owner.failure, LedgerError)
        assert "0.5" in str(owner.failure)


class TestUnmasking:
    def contributions(self, parties, names=None, attempt=0, params=None):
        """Answers of all listed owners to round 0."""
        if params is None:
            _, _query, params = first_question(parties)
            self.params = pack_params(params)
        message = asked(parties, attempt=attempt, names=names, params=self.params)
        answers = {name: parties.links.owners[name].answer(message) for name in message["names"]}
        assert {answer["kind"] for answer in answers.values()} == {"contribution"}
        return answers

    def reveal(self, parties, answers, attempt=0, names=None):
        statements = [answer["statement"] for answer in answers.values()]
        return asked(parties, attempt=attempt, names=names, kind="reveal") | {"statements": statements}

    def test_a_second_list_is_refused_by_every_owner(self, four):
        names = four.plan.names
        answers = self.contributions(four)
        shorter = self.contributions(four, names[:3], 1, params=self.params)
        for name in names:
            assert four.links.owners[name].answer(self.reveal(four, answers))["kind"] == "revealed"
        again = f"has unmasked round {0} with another list already"
        for name in names[:3]:
            assert refusal(four, name, self.reveal(four, shorter, 1, names[:3])) == again
            assert refusal(four, name, asked(four, attempt=1, names=names[:3], params=self.params)) == again
            assert refusal(four, name, asked(four, attempt=2, params=self.params)) == again
            restarted = four.join(name)
            restarted.answer({"kind": "start", "run": four.plan.run, "roster": four.roster()})
            assert refusal(four, name, self.reveal(four, shorter, 1, names[:3])) == again

    def test_the_same_list_may_be_asked_again_and_reveals_the_same(self, three):
        answers = self.contributions(three)
        first = {name: three.links.owners[name].answer(self.reveal(three, answers)) for name in answers}
        again = {name: three.links.owners[name].answer(self.reveal(three, answers)) for name in answers}
        assert first == again
        assert self.contributions(three, params=self.params) == answers

    def test_no_mask_is_revealed_without_the_signatures_of_all(self, three):
        answers = self.contributions(three)
        statements = [answer["statement"] for answer in answers.values()]
        attempt = Attempt(three.plan.run, 0, 0, three.plan.names)
        forged = Contribution.from_json(statements[1])
        forged = [*forged.to_json()[:4], signed(three.keys["owner 02"], CONTRIBUTION, forged.stated(attempt))]
        stranger = Contribution("owner 01", *statements[1][1:])
        other = Attempt(three.plan.run, 0, 1, three.plan.names)
        of_other = [*stranger.to_json()[:4], signed(three.keys["owner 01"], CONTRIBUTION, stranger.stated(other))]
        changed = replace(stranger, params="0" * 64)
        changed = [*changed.to_json()[:4], signed(three.keys["owner 01"], CONTRIBUTION, changed.stated(attempt))]
        for wrong, found in (
            (statements[:2], "the statements of all listed owners"),
            ([statements[0], statements[2], statements[1]], "the statements of all listed owners"),
            ([statements[0], forged, statements[2]], "no signature of 'owner 01'"),
            ([statements[0], of_other, statements[2]], "no signature of 'owner 01'"),
            ([statements[0], changed, statements[2]], "no signature of 'owner 01'"),
            ([forged, *statements[1:]], "did not contribute to this attempt"),
            ([["x"], *statements[1:]], "statements of another form"),
        ):
            message = self.reveal(three, answers) | {"statements": wrong}
            assert found in refusal(three, "owner 00", message)
        assert refusal(three, "owner 00", self.reveal(three, answers, 7)) == "did not contribute to this attempt"
        assert three.links.owners["owner 00"].answer(self.reveal(three, answers))["kind"] == "revealed"

    def test_a_coordinator_that_records_everything_sees_uniform_words(self, tmp_path):
        # All of one owner's attempts, with its own mask revealed for none: 3 x 4,000 words.
        method = tiny("ldpdc", sampling_prob=1.0)
        parties = parties_of(tmp_path, 3, method, make_records(3))
        parties.start()
        _, _query, params = first_question(parties)
        self.params = pack_params(params)
        words = [
            np.frombuffer(self.contributions(parties, attempt=k, params=params)["owner 00"]["words"], "<u8")
            for k in range(100)
        ]
        assert len(np.concatenate(words)) >= 10_000
        assert is_uniform(np.concatenate(words))
        assert len({each.tobytes() for each in words}) == 100
        share = RunLedger.read(parties.folder / "owner 00.run")
        assert len(share.events) == 1  # a hundred attempts, one payment
        parties.close()

    def test_the_share_is_drawn_once(self, three):
        self.contributions(three)
        shares = [three.links.owners["owner 00"]._share(0) for _ in range(2)]
        restarted = three.join("owner 00")
        restarted.answer({"kind": "start", "run": three.plan.run, "roster": three.roster()})
        assert np.array_equal(shares[0], shares[1])
        assert np.array_equal(shares[0], restarted._share(0))
        message = asked(three, attempt=5, params=self.params)
        assert restarted.answer(message)["kind"] == "contribution"
        assert np.array_equal(shares[0], restarted._share(0))

    def test_other_parameters_of_an_answered_round_are_refused(self, tmp_path):
        parties = parties_of(tmp_path, 3, tiny("dp-sgd"))
        self.contributions(parties)
        other = bytes(255 - each for each in self.params)
        assert other != self.params
        found = refusal(parties, "owner 00", asked(parties, params=other))
        assert found == "has answered round 0 with other parameters already"
        parties.close()


class TestCoordinator:
    def run(self, parties, aggregator):
        rounds, facts = parties.plan.schedule.rounds, parties.plan.facts
        return run_rounds(parties.method, aggregator, Store(None), rounds, 0, facts, no_progress)

    def paid(self, parties):
        """Rounds that every owner's ledger holds, and its data set's epsilon."""
        events = [len(RunLedger.read(parties.folder / f"{name}.run").events) for name in parties.plan.names]
        return events, {round(each.summary().spent, 6) for each in parties.ledgers.values()}

    def test_an_owner_that_drops_out_before_its_answer_is_left_out(self, four):
        aggregator = four.start()
        lost = {"owner 02"}
        four.links.change = lambda name, message, answer: (
            None if name in lost and message["kind"] == "contribute" and message["round"] == 1 else answer
        )
        self.run(four, aggregator)
        lists = {message["round"]: message["names"] for _, message, _ in four.links.seen if message["kind"] == "reveal"}
        assert lists[1] == ["owner 00", "owner 01", "owner 03"]
        assert lists[0] == lists[2] == [*four.plan.names]
        assert self.paid(four) == ([3, 3, 3, 3], {1.0})

    def test_an_owner_that_was_away_comes_back_and_makes_up_for_nothing(self, four):
        aggregator = four.start()
        four.links.away = {"owner 00"}
        original = aggregator.release

        def release(t, query, params):
            four.links.away = {"owner 00"} if t < 2 else set()
            return original(t, query, params)

        aggregator.release = release
        self.run(four, aggregator)
        assert self.paid(four) == ([3, 3, 3, 3], {1.0})
        message = asked(four, round=1, params=aggregator._transcript.question(1))
        assert refusal(four, "owner 00", message) == "has answered later rounds than 1 already"

    def test_too_few_owners_stop_the_run_and_it_resumes(self, four):
        aggregator = four.start()
        four.links.away = {"owner 00", "owner 03"}
        with pytest.raises(Unanswered, match="Round 0 needs 3 owners, and owner 00, owner 03 did not connect"):
            self.run(four, aggregator)
        four.links.away = set()
        self.run(four, four.coordinator())
        assert self.paid(four) == ([3, 3, 3, 3], {1.0})

    def test_owners_that_never_answer_in_time_stop_the_run(self, three):
        aggregator = three.start()
        three.links.change = lambda name, message, answer: None if name == "owner 01" else answer
        with pytest.raises(Unanswered, match=r"owner 01 did not answer within 0\.05 seconds: nothing is lost"):
            self.run(three, aggregator)

    def test_a_signer_that_vanishes_is_waited_for(self, four):
        aggregator = four.start()
        four.links.change = lambda name, message, answer: (
            None if name == "owner 01" and message["kind"] == "reveal" else answer
        )
        with pytest.raises(Unanswered, match="Round 0 waits for owner 01, who signed its list"):
            self.run(four, aggregator)
        four.links.change = lambda name, message, answer: answer
        state = self.run(four, four.coordinator())
        lists = {
            (message["attempt"], tuple(message["names"]))
            for _, message, _ in four.links.seen
            if message["kind"] == "reveal" and message["round"] == 0
        }
        assert lists == {(0, four.plan.names)}  # the list of a sealed round never changes
        assert state is not None
        assert self.paid(four) == ([3, 3, 3, 3], {1.0})

    def test_a_coordinator_that_comes_back_gets_the_same_sums(self, four):
        sums = [self.sums(four, four.start()), self.sums(four, four.coordinator())]
        assert np.array_equal(*sums)
        assert self.paid(four) == ([3, 3, 3, 3], {1.0})

    def sums(self, parties, aggregator):
        found, original = [], aggregator.release

        def release(t, query, params):
            found.append(original(t, query, params))
            return found[-1]

        aggregator.release = release
        self.run(parties, aggregator)
        return np.stack([each.value for each in found])

    @pytest.mark.parametrize(
        ("change", "found"),
        [
            (lambda a: a | {"words": a["words"][:-8]}, "the words of 'owner 01' are not those that it signed"),
            (lambda a: a | {"words": bytes(len(a["words"]))}, "the words of 'owner 01' are not those that it signed"),
            (lambda a: {"kind": "contribution"}, "Owner owner 01 sent an answer of another form in round 0"),
            (lambda a: a | {"statement": [1, 2]}, "sent an answer of another form"),
            (lambda a: a | {"statement": ["owner 00", *a["statement"][1:]]}, "another name"),
            (lambda a: a | {"statement": [*a["statement"][:4], "00" * 64]}, "is not signed by its key"),
            (lambda a: {"kind": "refused", "sentence": "has no time\n" + "x" * 999}, "Owner owner 01 has no timex"),
        ],
    )
    def test_garbage_names_the_owner(self, three, change, found):
        aggregator = three.start()
        three.links.change = lambda name, message, answer: change(answer) if name == "owner 01" else answer
        with pytest.raises(CuratorError, match="owner 01") as caught:
            self.run(three, aggregator)
        assert found in str(caught.value)
        assert len(str(caught.value)) < 300

    def test_a_key_that_was_not_promised_is_found(self, three):
        aggregator = three.start()
        three.links.change = lambda name, message, answer: (
            answer | {"key": bytes(32)} if message["kind"] == "reveal" and name == "owner 02" else answer
        )
        with pytest.raises(CuratorError, match="Owner owner 02 revealed another key than promised in round 0"):
            self.run(three, aggregator)

    def test_a_query_that_follows_from_releases_is_refused(self, three):
        aggregator, query, params = first_question(three)
        with pytest.raises(CuratorError, match="query of round 0 follows from releases"):
            aggregator.release(0, replace(query, count_coordinate=0.5), params)


class TestPlans:
    def test_a_plan_is_read_as_it_was_written(self, tmp_path, three):
        three.plan.write(tmp_path / "plan.json")
        again = TogetherPlan.read(tmp_path / "plan.json")
        assert again.run == three.plan.run
        assert again == three.plan
        (tmp_path / "plan.json").write_bytes(three.plan.content.replace(b'"dropouts": 0', b'"dropouts":  0'))
        with pytest.raises(DataError, match="not a plan of this version"):
            TogetherPlan.read(tmp_path / "plan.json")
        with pytest.raises(DataError, match="Expected a plan at"):
            TogetherPlan.read(tmp_path / "missing.json")
        with pytest.raises(DataError, match="cannot be written: File exists"):
            three.plan.write(tmp_path / "plan.json")

    def test_two_plans_are_two_runs(self):
        keys = new_keys(("a", "b", "c"))
        assert plan_of(LDPDC, keys).run != plan_of(LDPDC, keys).run

    @pytest.mark.parametrize(
        ("change", "found"),
        [
            ({"dropouts": 1}, "owners=3 > 2 dropouts"),
            ({"colluders": 3}, "owners=3 > 2 dropouts"),
            ({"version": "0.1"}, "made with dpdistill 0.1; here is"),
            ({"persons_at": 4}, "1 <= persons_at=4 <= 3 owners"),
            ({"pace": -1.0}, "0 <= pace=-1.0 <= 3600"),
        ],
    )
    def test_unsafe_plans_are_refused(self, change, found):
        with pytest.raises(DataError, match=found):
            plan_of(LDPDC, new_keys(("a", "b", "c")), **change)

    def test_owners_have_names_and_keys_of_their_own(self):
        keys = new_keys(("a", "b", "c"))
        good = plan_of(LDPDC, keys).owners
        for owners, found in (
            (good[::-1], "in the order of their names"),
            ((good[0], replace(good[0], name="b"), good[2]), "a name and a key of its own"),
            ((replace(good[0], name="a\n"), *good[1:]), "an owner's name of letters"),
            ((replace(good[0], most_records=0), *good[1:]), "most_records >= 1"),
            ((replace(good[0], most_records=2**38), *good[1:]), "at most 2\\^37 records together"),
            ((replace(good[0], key="ssh-rsa AAAA"), *good[1:]), "an Ed25519 key of the owner 'a'"),
        ):
            with pytest.raises(DataError, match=found):
                plan_of(LDPDC, keys, owners=owners)

    def test_a_schedule_that_is_cheaper_than_it_says_is_refused(self):
        keys = new_keys(("a", "b", "c"))
        schedule = plan_of(LDPDC, keys).schedule
        less = replace(schedule, noise_multipliers=tuple(0.9 * each for each in schedule.noise_multipliers))
        with pytest.raises(DataError, match="cost more than its epsilon"):
            plan_of(LDPDC, keys, schedule=less)
        with pytest.raises(DataError, match="other rounds than its recipe"):
            plan_of(LDPDC, keys, schedule=plan_of(tiny("ndpdc", most=3), keys).schedule)

    def test_records_of_another_kind_or_too_many_are_refused(self, three):
        from dpdistill.together.account import check_records

        check_records(three.plan, "owner 00", make_records(1000))
        with pytest.raises(DataError, match="allows owner 00 at most 1,000 records"):
            check_records(three.plan, "owner 00", make_records(1001))
        with pytest.raises(DataError, match="differ from the plan in shape, bounds, classes"):
            check_records(three.plan, "owner 00", random_records(5))
