"""Words that fields and options may hold, whose code is elsewhere."""

from typing import Literal, get_args

Strategy = Literal["color", "crop", "cutout", "flip", "scale", "rotate"]
"""An augmentation of DSA."""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
TRAININGS = ("quick", "mixup", "muon", "paper", "large")
"""How networks are trained on synthetic records."""
LOSSES = ("squares", "cross-entropy")
"""Of the networks that reconstruction attacks."""
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
"""Of tables."""
TEACHERS = ("classifier", "krr")
"""From whom networks learn: the released classifier, or kernel ridge regression on the set."""
