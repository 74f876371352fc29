"""Train on synthetic records, score on held-out ones."""

from dpdistill.evaluate.convnet import PAPER, QUICK, STUDENT, Training
from dpdistill.evaluate.krr import check_krr, score_krr
from dpdistill.evaluate.score import TRAININGS, Score, score_convnet
from dpdistill.evaluate.student import score_student
from dpdistill.evaluate.teacher import Teacher, score_classifier

__all__ = [
    "PAPER",
    "QUICK",
    "STUDENT",
    "TRAININGS",
    "Score",
    "Teacher",
    "Training",
    "check_krr",
    "score_classifier",
    "score_convnet",
    "score_krr",
    "score_student",
]
