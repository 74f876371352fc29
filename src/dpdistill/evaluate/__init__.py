"""Train on synthetic records, score on held-out ones."""

from dpdistill.evaluate.architectures import ARCHITECTURES, check_network
from dpdistill.evaluate.krr import check_krr, score_krr
from dpdistill.evaluate.score import TRAININGS, Score, score_network
from dpdistill.evaluate.student import score_student
from dpdistill.evaluate.teacher import Teacher, score_classifier
from dpdistill.evaluate.train import PAPER, QUICK, STUDENT, Training

__all__ = [
    "ARCHITECTURES",
    "PAPER",
    "QUICK",
    "STUDENT",
    "TRAININGS",
    "Score",
    "Teacher",
    "Training",
    "check_krr",
    "check_network",
    "score_classifier",
    "score_krr",
    "score_network",
    "score_student",
]
