"""Words that fields and options may hold, whose code is elsewhere."""

STRATEGIES = ("color", "crop", "cutout", "flip", "scale", "rotate")
"""Augmentations of DSA."""
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
