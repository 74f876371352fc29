"""Words that fields and options may hold; the code behind the words is elsewhere."""

from typing import Literal, get_args

Strategy = Literal["color", "crop", "cutout", "flip", "scale", "rotate"]
"""Augmentation of DSA."""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
TRAININGS = ("plateau", "quick", "mixup", "muon", "paper", "large")
"""Ways to train networks on synthetic records."""
LOSSES = ("squares", "cross-entropy")
"""Losses of the networks that reconstruction attacks."""
LEAKS = ("noised-again", "same-noise", "real-start")
"""Defects that `audit run` plants."""
CLASSIFIERS = (
    "logistic regression",
    "Gaussian naive Bayes",
    "Bernoulli naive Bayes",
    "linear SVC",
    "decision tree",
    "LDA",
    "AdaBoost",
    "bagging",
    "random forest",
    "gradient boosting",
    "MLP",
    "XGBoost",
)
"""Classifiers of tables."""
TEACHERS = ("classifier", "krr")
"""Teachers of networks: the released classifier, or kernel ridge regression on the set."""
