"""Scores of tables: metrics by hand and by scikit-learn, both modes, and sets that classifiers do not like."""

import json
import math
import sys
import warnings

import numpy as np
import pytest
from sklearn import metrics
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from dpdistill.evaluation import classifiers, tables
from dpdistill.evaluation.classifiers import CLOSEST, SETTINGS, available, make_classifier
from dpdistill.evaluation.table_scores import ClassifierScore, TableScores
from dpdistill.evaluation.tables import score_tables
from dpdistill.method import Distilled
from dpdistill.schema import DataError, Schema
from dpdistill.schema.table import Column, TableSchema
from dpdistill.storage.records import Records

COLUMNS = (
    Column("age", "integer", bounds=(0, 100)),
    Column("pay", "integer", bounds=(0, 1000), scale="log"),
    Column("work", "categorical", categories=("a", "b", "c"), missing=True),
)
TWO = TableSchema(COLUMNS, "sick", ("well", "ill"))
THREE = TableSchema(COLUMNS, "kind", ("ant", "bee", "cat"))
FAST = ("logistic regression", "Bernoulli naive Bayes", "linear SVC", "decision tree", "LDA")


def rows(n, schema=TWO, seed=0, noise=12.0):
    """Rows whose class shows, not too clearly, in age and work; the first class is the most frequent."""
    rng = np.random.default_rng(seed)
    classes = len(schema.classes)
    y = rng.choice(classes, n, p=[0.6, 0.4] if classes == 2 else [0.5, 0.3, 0.2])
    X = np.stack([25 + 20 * y + noise * rng.normal(size=n), rng.uniform(0, 900, n), (y + (rng.random(n) < 0.3)) % 4], 1)
    X[:, 2] = np.where(X[:, 2] == 3, np.nan, X[:, 2])
    return Records(np.rint(np.clip(X, 0, (100, 1000, 3))), y, schema)


def encoded(records):
    return records.schema.to_unit(records.X), records.y


def scored(X, y, schema, test, **how):
    return score_tables(Distilled(X, y, schema), test, **how)


@pytest.fixture
def fast(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: FAST)


@pytest.fixture
def one(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: ("logistic regression",))


# The classifiers.


@pytest.mark.slow
def test_all_twelve_learn_and_each_says_what_it_is():
    told = []
    test = rows(150, seed=1)
    scores = scored(*encoded(rows(80)), TWO, test, progress=lambda *what: told.append(what))
    assert [score.name for score in scores.classifiers] == list(SETTINGS) == list(available())
    assert len(SETTINGS) == 12
    assert all(score.fitted for score in scores.classifiers)
    # No row is known too well: a classifier that fails, or is asked about the other class, is below a half.
    assert all(0.75 < score.values[0] < 0.995 for score in scores.classifiers), scores.rows()
    assert scores.mean.name == "mean of 12"
    assert scores.mean.values[0] == pytest.approx(np.mean([score.values[0] for score in scores.classifiers]))
    assert scores.best.values[0] == max(score.values[0] for score in scores.classifiers)
    assert told == [("classifiers", k, 12) for k in range(13)]
    rarer = TWO.classes[np.bincount(test.y).argmin()]
    assert scores.positive == rarer
    assert f"Positive class: {rarer}, the rarer one of the test set." in scores.text
    json.dumps(scores.to_json(), allow_nan=False)
    assert set(classifiers.COSTS) == set(SETTINGS)


def test_chosen_classifiers_are_told_as_they_come_and_score_as_they_would_alone():
    told, test = [], rows(60, seed=1)
    names = ("LDA", "decision tree", "Gaussian naive Bayes", "bagging")
    found = scored(*encoded(rows(80)), TWO, test, names=names, told=lambda *what: told.append(what))
    in_order = tuple(name for name in SETTINGS if name in names)
    assert tuple(score.name for score in found.classifiers) == in_order
    assert {score.name for score, _, _ in told} == set(names)
    assert [score for score, _, _ in told if score.name == "LDA"] == [found.classifiers[in_order.index("LDA")]]
    shares = [share for _, _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert {metrics for _, metrics, _ in told} == {("ROC", "PRC")}
    for score in found.classifiers:
        (alone,) = scored(*encoded(rows(80)), TWO, test, names=[score.name]).classifiers
        assert alone == score
    assert found.left_out == ()
    with pytest.raises(DataError, match="Unknown classifier 'LDB': choose among"):
        scored(*encoded(rows(80)), TWO, test, names=["LDA", "LDB"])


def test_one_core_goes_from_fast_to_slow(monkeypatch):
    told = []
    monkeypatch.setattr(tables, "cores", lambda: 1)
    names = ("bagging", "Gaussian naive Bayes", "decision tree")
    scored(*encoded(rows(80)), TWO, rows(60, seed=1), names=names, told=lambda score, *_: told.append(score.name))
    assert told == ["Gaussian naive Bayes", "decision tree", "bagging"]


def test_classifiers_are_chosen_by_name_or_for_being_fast():
    assert classifiers.chosen() == available()
    assert classifiers.chosen(["MLP", "LDA"]) == ("LDA", "MLP")
    assert set(SETTINGS) - {*classifiers.chosen(["fast"])} == {"AdaBoost"}
    with pytest.raises(DataError, match=r"Unknown classifier 'SVM': choose among logistic regression, .*, fast"):
        classifiers.chosen(["SVM", "LDA"])


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_those_of_the_papers(name):
    model = make_classifier(name, seed=7, rows=250)
    wanted = dict(SETTINGS[name]) | ({"max_samples": 25} if name == "bagging" else {})
    assert {key: model.get_params()[key] for key in wanted} == wanted
    others = make_classifier(name, seed=7, rows=250, plain=True).get_params()
    changed = {key for key, value in model.get_params().items() if value is not others[key] and value != others[key]}
    assert changed <= set(wanted) | {"missing"}  # NaN, that of XGBoost, equals nothing
    if "random_state" in others:
        assert model.get_params()["random_state"] == others["random_state"] == 7


def test_settings_that_are_gone_are_named():
    assert set(CLOSEST) == {"logistic regression", "LDA", "AdaBoost", "XGBoost"}
    for name, gone in (("AdaBoost", "algorithm"), ("logistic regression", "multi_class")):
        assert make_classifier(name, seed=0, rows=10).get_params().get(gone, "deprecated") == "deprecated"
    X, y = np.eye(6), np.arange(6) % 2
    for name, gone in (("LDA", {"n_components": 9}), ("XGBoost", {"objective": "multi:softprob"})):
        with pytest.raises(ValueError, match=r"n_components|num_class"):
            make_classifier(name, seed=0, rows=6).set_params(**gone).fit(X, y)
    y = np.arange(6) % 3
    assert make_classifier("XGBoost", seed=0, rows=6).fit(X, y).objective == "multi:softprob"


def test_xgboost_that_is_not_installed_is_left_out_and_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xgboost", None)
    assert available() == tuple(SETTINGS)[:-1]
    monkeypatch.setattr(classifiers, "SETTINGS", {name: SETTINGS[name] for name in ("LDA", "XGBoost")})
    scores = scored(*encoded(rows(30)), TWO, rows(30, seed=1))
    assert [score.name for score in scores.classifiers] == ["LDA"]
    assert "XGBoost" in scores.left_out
    assert "Left out, since not installed:" in scores.text
    assert "XGBoost" in scores.to_json()["left out"]
    assert scores.mean.name == "mean of 1"


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DataError, match=r"pip install 'dpdistill\[tables\]'"):
        available()


def test_seeds_fix_every_choice(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: ("bagging", "MLP", "gradient boosting"))
    train, test = encoded(rows(40, noise=40.0)), rows(60, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        first, again, other = (scored(*train, TWO, test, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert all(a.values != b.values for a, b in zip(first.classifiers, other.classifiers, strict=True))


# What the numbers are.


def test_honest_scores_are_scikit_learns(one):
    test = rows(90, seed=1)
    X, y = encoded(rows(60))
    scores = scored(X, y, TWO, test)
    model = LogisticRegression(max_iter=5000).fit(X, y)
    X_t, y_t = encoded(test)
    probability, predicted = model.predict_proba(X_t)[:, 1], model.predict(X_t)
    (score,) = scores.classifiers
    assert scores.metrics == ("ROC", "PRC")
    roc, prc = metrics.roc_auc_score(y_t, probability), metrics.average_precision_score(y_t, probability)
    assert score.values == pytest.approx((roc, prc))
    assert score.accuracy == pytest.approx([(predicted[y_t == k] == k).mean() for k in (0, 1)])
    assert score_tables(rows(60), test) == scores


def test_a_linear_svc_is_scored_by_its_decision_function(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: ("linear SVC",))
    X, y = encoded(rows(60))
    test = rows(90, seed=1)
    X_t, y_t = encoded(test)
    model = make_classifier("linear SVC", seed=0, rows=60).fit(X, y)
    (score,) = scored(X, y, TWO, test).classifiers
    assert score.values[0] == pytest.approx(metrics.roc_auc_score(y_t, model.decision_function(X_t)))


def test_more_than_two_classes(one):
    test = rows(90, THREE, seed=1)
    X, y = encoded(rows(60, THREE))
    scores = scored(X, y, THREE, test)
    model = LogisticRegression(max_iter=5000).fit(X, y)
    X_t, y_t = encoded(test)
    roc = metrics.roc_auc_score(y_t, model.predict_proba(X_t), multi_class="ovr", average="macro")
    f1 = metrics.f1_score(y_t, model.predict(X_t), average="weighted")
    assert scores.metrics == ("weighted F1", "macro ROC")
    assert scores.classifiers[0].values == pytest.approx((f1, roc))
    assert scores.classifiers[0].accuracy == pytest.approx(
        [np.mean(model.predict(X_t)[y_t == k] == k) for k in range(3)]
    )
    assert scores.positive is None
    assert "Positive" not in scores.text
    paper = scored(X, y, THREE, test, mode="paper")
    assert paper.metrics == ("weighted F1",)
    assert paper.classifiers[0].values == pytest.approx((f1,))


def test_accuracy_by_class_by_hand(monkeypatch):
    # A tree that splits at one age: 3 of 4 healthy and 1 of 2 ill rows are on their side of 50.
    monkeypatch.setattr(tables, "available", lambda: ("decision tree",))
    X = np.array([[20, 1, 0], [80, 1, 0]], float)
    train = Records(X, np.array([0, 1]), TWO)
    ages = np.array([10, 20, 30, 90, 95, 5], float)
    test = Records(np.stack([ages, ages * 0 + 1, ages * 0], 1), np.array([0, 0, 0, 0, 1, 1]), TWO)
    scores = score_tables(train, test)
    assert scores.classifiers[0].accuracy == (0.75, 0.5)
    assert scores.classifiers[0].values[0] == pytest.approx(0.625)
    assert scores.header == ("classifier (honest)", "ROC", "PRC", "accuracy of well", "accuracy of ill")
    assert scores.rows()[0] == ("decision tree", "0.625", "0.417", "0.750", "0.500")
    assert len(scores.rows()) == 1
    found = scores.to_json()
    assert found["mean"] == {"ROC": 0.625, "PRC": 0.4167, "accuracy": {"well": 0.75, "ill": 0.5}}
    assert found["classifiers"]["decision tree"]["fitted"] is True
    assert found["best"]["classifier"] == "decision tree"
    assert (found["mode"], found["positive class"], found["training rows"]) == ("honest", "ill", 2)


def test_the_positive_class_is_the_rarer_one_or_the_stated_one(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: ("decision tree",))
    ages = np.array([20.0, 80.0])
    train = Records(np.stack([ages, ages * 0 + 1, ages * 0], 1), np.array([0, 1]), TWO)
    ages = np.array([20.0, 25, 75, 85, 30, 90])
    test = Records(np.stack([ages, ages * 0 + 1, ages * 0], 1), np.array([0, 0, 1, 1, 1, 1]), TWO)
    rarer, well, ill = (score_tables(train, test, positive=each) for each in (None, "well", "ill"))
    # 3 rows are taken for well, 2 of them rightly; 3 for ill, all rightly.
    assert (rarer.positive, rarer.rarer) == ("well", True)
    assert rarer.classifiers == well.classifiers
    assert (well.positive, well.rarer, ill.positive) == ("well", False, "ill")
    assert well.classifiers[0].values == pytest.approx((0.875, 2 / 3))
    assert ill.classifiers[0].values == pytest.approx((0.875, 0.75 * 1 + 0.25 * 4 / 6))
    assert "Positive class: well, the rarer one of the test set." in rarer.text
    assert "Positive class: ill." in ill.text
    with pytest.raises(DataError, match="Expected as positive class 'well' or 'ill'; got 'dead'"):
        score_tables(train, test, positive="dead")


@pytest.mark.parametrize("mode", tables.MODES)
def test_labels_that_mean_nothing_score_a_half(mode, fast):
    test = rows(3000, seed=1)
    X, y = encoded(rows(200))
    clean = scored(X, y, TWO, test, mode=mode)
    shuffled = Records(test.X, np.random.default_rng(5).permutation(test.y), TWO)
    scores = scored(X, y, TWO, shuffled, mode=mode)
    assert all(abs(score.values[0] - 0.5) < 0.04 for score in scores.classifiers)
    assert clean.mean.values[0] > 0.75


def test_what_is_scored_is_what_is_shipped(one):
    test = rows(60, seed=1)
    X, y = encoded(rows(60))
    blurred = X.copy()
    blurred[:, 2:] = 0.4 * X[:, 2:] + 0.3 * np.random.default_rng(0).random((60, 4))
    assert np.array_equal(blurred[:, 2:].argmax(1), X[:, 2:].argmax(1))
    assert scored(blurred, y, TWO, test) == scored(X, y, TWO, test)
    moved = X.copy()
    moved[:, 0] *= 0.7
    assert scored(moved, y, TWO, test) != scored(X, y, TWO, test)


def test_rows_without_a_label_or_with_bad_values_are_left_out(one):
    test = rows(60, seed=1)
    wrong = np.array([[0, 0, 2], [np.nan, 10, 0], [np.inf, 10, 0]], float)
    more = Records(np.concatenate([wrong, test.X]), np.concatenate([[-1, 1, 1], test.y]), TWO)
    train = rows(40)
    assert (
        scored(*encoded(train), TWO, more).classifiers[0].accuracy[0]
        == (scored(*encoded(train), TWO, test).classifiers[0].accuracy[0])
    )
    dirty = Records(np.concatenate([wrong[:2], train.X]), np.concatenate([[-1, 1], train.y]), TWO)
    assert score_tables(dirty, test) == score_tables(train, test)


# The papers' mode.


def test_paper_scores_are_of_hard_predictions(one):
    test = rows(90, seed=1)
    X, y = encoded(rows(60))
    honest, paper = scored(X, y, TWO, test), scored(X, y, TWO, test, mode="paper")
    X_t, y_t = encoded(test)
    predicted = LogisticRegression(max_iter=5000).fit(X, y).predict(X_t)
    (score,) = paper.classifiers
    assert score.values[0] == pytest.approx(metrics.balanced_accuracy_score(y_t, predicted))
    assert score.values[0] == pytest.approx(np.mean(score.accuracy))
    assert score.values[1] == pytest.approx(metrics.average_precision_score(y_t, predicted))
    assert score.values[0] < honest.classifiers[0].values[0]
    assert score.accuracy == honest.classifiers[0].accuracy


def test_the_majority_class_of_the_test_set_is_undersampled(one, monkeypatch):
    seen = []
    inner = tables._score_one
    monkeypatch.setattr(tables, "_score_one", lambda *what: seen.append(what[2]) or inner(*what))
    train, test = rows(200), rows(200, seed=1)
    counts = np.bincount(test.y)
    assert counts[0] > counts[1]
    plain = scored(*encoded(train), TWO, test, mode="paper")
    fewer = scored(*encoded(train), TWO, test, mode="paper", keep=0.3)
    real = score_tables(train, test, mode="paper", keep=0.3)
    assert [np.bincount(task.y_t).tolist() for task in seen[::2]] == [
        [counts[0], counts[1]],
        [int(0.3 * counts[0]), counts[1]],
        [int(0.3 * counts[0]), counts[1]],
    ]
    assert fewer.classifiers[0].values[1] > plain.classifiers[0].values[1] + 0.05  # prevalence alone
    assert fewer.training_rows == plain.training_rows == 200
    own = np.bincount(train.y)
    assert real.training_rows == int(0.3 * own[0]) + own[1]
    assert np.bincount(seen[-1].y).tolist() == [int(0.3 * own[0]), own[1]]


def test_the_better_setting_on_the_test_set_is_reported(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: ("bagging", "Gaussian naive Bayes", "decision tree"))
    tried = {}
    inner = tables._score_one

    def watched(name, model, *rest):
        score = inner(name, model, *rest)
        tried.setdefault(name, []).append(score)
        return score

    monkeypatch.setattr(tables, "_score_one", watched)
    scores = scored(*encoded(rows(80)), TWO, rows(300, seed=1, noise=40.0), mode="paper")
    assert [len(tried[score.name]) for score in scores.classifiers] == [2, 1, 2]  # Gaussian: table 16 is the default
    for score in scores.classifiers:
        assert score.values == tuple(np.max([one.values for one in tried[score.name]], 0))
    assert len({one.values for one in tried["bagging"]}) == 2
    tried.clear()
    scored(*encoded(rows(80)), TWO, rows(30, seed=1))
    assert [len(found) for found in tried.values()] == [1, 1, 1]


def test_modes_are_named(fast):
    X, y = encoded(rows(60))
    test = rows(60, seed=1)
    honest, paper = scored(X, y, TWO, test), scored(X, y, TWO, test, mode="paper", keep=0.5)
    assert honest.text.startswith("Mode honest: ")
    assert paper.text.startswith("Mode paper: too optimistic")
    assert "0.5 of the test set's majority class" in paper.text
    assert paper.to_json()["kept share of the majority class"] == 0.5
    assert [scores.header[0] for scores in (honest, paper)] == ["classifier (honest)", "classifier (paper)"]


# At most 20,000 rows.


def test_no_fit_sees_more_than_its_share_of_rows(one, monkeypatch):
    seen = []
    inner = tables._score_one
    monkeypatch.setattr(tables, "_score_one", lambda *what: seen.append((what[2].X, what[2].y)) or inner(*what))
    assert tables.MOST_ROWS == 20_000
    test = rows(30, seed=1)
    scores = scored(*encoded(rows(20_500)), TWO, test)
    assert scores.training_rows == 20_000
    assert "trained on 20,000 rows" in scores.text
    monkeypatch.setattr(tables, "MOST_ROWS", 50)
    X, y = encoded(rows(200))
    for seed in (0, 0, 1):
        assert scored(X, y, TWO, test, seed=seed).training_rows == 50
    assert score_tables(rows(200), test).training_rows == 50
    assert [len(part[0]) for part in seen] == [20_000, 50, 50, 50, 50]
    assert np.array_equal(seen[1][0], seen[2][0])
    assert not np.array_equal(seen[1][0], seen[3][0])
    assert 20 <= np.bincount(seen[1][1])[0] <= 40  # random, not the first of one class
    given = {tuple(row) for row in np.column_stack([TWO.to_unit(TWO.from_unit(X)), y]).tolist()}
    assert {tuple(row) for row in np.column_stack(seen[1]).tolist()} <= given


# Sets that classifiers do not like.


@pytest.mark.parametrize("mode", tables.MODES)
def test_a_set_with_one_class_scores_a_half(mode):
    X, y = encoded(rows(20))
    test = rows(50, seed=1)
    scores = scored(X, np.ones_like(y), TWO, test, mode=mode)
    prevalence = test.y.mean()
    for score in scores.classifiers:
        assert score.values == pytest.approx((0.5, prevalence))
        assert score.accuracy == (0.0, 1.0)
        assert not score.fitted
    assert "Could not be fitted, answer with one class: logistic regression," in scores.text


def test_a_set_without_one_of_three_classes(monkeypatch):
    monkeypatch.setattr(tables, "available", lambda: (*FAST, "bagging", "gradient boosting", "XGBoost"))
    train = rows(60, THREE)
    keep = train.y != 1
    test = rows(90, THREE, seed=1)
    scores = score_tables(Records(train.X[keep], train.y[keep], THREE), test)
    model = LogisticRegression(max_iter=5000).fit(THREE.to_unit(train.X[keep]), train.y[keep])
    X_t, y_t = encoded(test)
    first, last = (metrics.roc_auc_score(y_t == 2 * k, model.predict_proba(X_t)[:, k]) for k in (0, 1))
    assert scores.classifiers[0].values[1] == pytest.approx((first + 0.5 + last) / 3)
    for score in scores.classifiers:
        assert score.fitted
        assert score.accuracy[1] == 0.0
        assert min(score.accuracy[0], score.accuracy[2]) > 0.4
        assert 0.5 < score.values[1] < 1.0


def test_constant_columns(fast):
    X, y = encoded(rows(40))
    X = X.copy()
    X[:, 1] = 0.25
    X[:, 2:] = (1, 0, 0, 0)
    scores = scored(X, y, TWO, rows(40, seed=1))
    assert all(score.fitted for score in scores.classifiers)
    rocs = {score.name: score.values[0] for score in scores.classifiers}
    assert rocs["LDA"] > 0.8
    nothing = scored(np.tile(X[:1], (40, 1)), y, TWO, rows(40, seed=1))
    by_name = {score.name: score for score in nothing.classifiers}
    assert not by_name["LDA"].fitted
    assert [by_name[name].values[0] for name in ("decision tree", "LDA")] == [0.5] * 2
    assert all(0.0 <= value <= 1.0 for score in nothing.classifiers for value in score.values)


def test_two_rows_are_a_set():
    X, y = encoded(Records(np.array([[20, 100, 0], [70, 100, 1]], float), np.array([0, 1]), TWO))
    scores = scored(X, y, TWO, rows(50, seed=1))
    failed = [score.name for score in scores.classifiers if not score.fitted]
    assert failed == ["LDA"]
    assert all(0.0 <= value <= 1.0 for score in scores.classifiers for value in (*score.values, *score.accuracy))
    assert scores.best.values[0] > 0.8
    (alone,) = {score.fitted for score in scored(X[:1], y[:1], TWO, rows(50, seed=1)).classifiers}
    assert alone is False


def test_a_test_set_without_one_class(fast):
    train, test = encoded(rows(40)), rows(40, seed=1)
    only = Records(test.X[test.y == 0], test.y[test.y == 0], TWO)
    scores = scored(*train, TWO, only)
    for score in scores.classifiers:
        assert all(map(math.isnan, score.values))
        assert math.isnan(score.accuracy[1])
        assert score.accuracy[0] > 0.5
    assert scores.rows()[0][1:3] == ("not defined", "not defined")
    found = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert (found["mean"]["ROC"], found["mean"]["PRC"], found["mean"]["accuracy"]["ill"]) == (None, None, None)
    assert scores.best.name == FAST[0]
    train, test = encoded(rows(60, THREE)), rows(60, THREE, seed=1)
    keep = test.y != 2
    for score in scored(*train, THREE, Records(test.X[keep], test.y[keep], THREE)).classifiers:
        assert 0.5 < score.values[1] <= 1.0
        assert math.isnan(score.accuracy[2])


# What is refused.


def test_what_does_not_fit_is_refused(one):
    (X, y), test = encoded(rows(20)), rows(20, seed=1)
    picture = Records(np.zeros((2, 8, 8, 1)), np.array([0, 1]), Schema((8, 8, 1), (-1.0, 1.0), ("well", "ill")))
    other = TableSchema(COLUMNS[:2], "sick", TWO.classes)
    renamed = TableSchema(COLUMNS, "sick", ("ill", "well"))
    unlabelled = Records(test.X, np.full(20, -1), TWO)
    bad = [
        ((X[:, 1:], y, TWO, test), DataError, r"encoded rows X of shape \(m, 6\), m >= 1; got \(20, 5\)"),
        ((X[:0], y[:0], TWO, test), DataError, "m >= 1"),
        ((np.full_like(X, np.nan), y, TWO, test), DataError, "finite"),
        ((X, y[1:], TWO, test), DataError, "Expected 20 class indices"),
        ((X, y + 1, TWO, test), DataError, "from 0 to 1"),
        ((X, y - 1, TWO, test), DataError, "from 0 to 1"),
        ((X, y * 1.0, TWO, test), DataError, "class indices"),
        ((X, y, TWO, picture), DataError, "same columns as the training set"),
        ((X, y, TWO, Records(test.X[:, :2], test.y, other)), DataError, "same columns as the training set"),
        ((X, y, TWO, Records(test.X, test.y, renamed)), DataError, "same classes, in the same order"),
        ((X, y, TWO, unlabelled), DataError, "at least one test row"),
    ]
    for given, error, words in bad:
        with pytest.raises(error, match=words):
            scored(*given)
    with pytest.raises(DataError, match="training records of a table"):
        score_tables(picture, test)
    with pytest.raises(DataError, match="at least one training row"):
        score_tables(unlabelled, test)
    modes: tuple[tuple[dict, str], ...] = (
        ({"mode": "best"}, "mode among honest, paper; got 'best'"),
        ({"keep": 0.4}, "keep=1 in mode honest"),
        ({"mode": "paper", "keep": 0.0}, "0 < keep=0.0 <= 1"),
        ({"mode": "paper", "keep": 1.5}, "0 < keep=1.5 <= 1"),
    )
    for how, words in modes:
        with pytest.raises(ValueError, match=words):
            scored(X, y, TWO, test, **how)
        with pytest.raises(ValueError, match=words):
            score_tables(rows(20), test, **how)


def test_scores_are_frozen():
    score = ClassifierScore("LDA", (0.5, 0.5), (0.5, 0.5))
    scores = TableScores("honest", ("ROC", "PRC"), TWO.classes, (score,), 5)
    with pytest.raises(AttributeError):
        scores.mode = "paper"  # type: ignore[misc]
