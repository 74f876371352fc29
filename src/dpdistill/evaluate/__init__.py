"""Train on synthetic records, score on held-out ones."""

from dpdistill.encode.train import LARGE, MIXUP, MUON, PAPER, QUICK, SLOPES, STUDENT, Training
from dpdistill.evaluate.architectures import ARCHITECTURES, check_network
from dpdistill.evaluate.classifiers import available
from dpdistill.evaluate.distances import Distances, score_distances
from dpdistill.evaluate.krr import check_krr, score_krr
from dpdistill.evaluate.pixels import score_pixels
from dpdistill.evaluate.score import TRAININGS, Score, score_network, training_for
from dpdistill.evaluate.student import Lesson, lesson_of, score_student
from dpdistill.evaluate.teacher import Teacher, score_classifier, teacher_of

__all__ = [
    "ARCHITECTURES",
    "LARGE",
    "MIXUP",
    "MUON",
    "PAPER",
    "QUICK",
    "SLOPES",
    "STUDENT",
    "TRAININGS",
    "Distances",
    "Lesson",
    "Score",
    "Teacher",
    "Training",
    "available",
    "check_krr",
    "check_network",
    "lesson_of",
    "score_classifier",
    "score_distances",
    "score_krr",
    "score_network",
    "score_pixels",
    "score_student",
    "teacher_of",
    "training_for",
]
