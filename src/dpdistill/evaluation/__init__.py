"""Trains models on synthetic records, and scores them on held-out records."""

from dpdistill.evaluation.architectures import ARCHITECTURES, check_network
from dpdistill.evaluation.classifiers import available
from dpdistill.evaluation.distances import Distances, score_distances
from dpdistill.evaluation.krr import score_krr, teacher_of
from dpdistill.evaluation.pixels import score_pixels
from dpdistill.evaluation.score import TRAININGS, Score, score_network, training_for
from dpdistill.evaluation.student import Lesson, lesson_of, score_student
from dpdistill.evaluation.teacher import Teacher, check_krr, score_classifier
from dpdistill.networks.training import LARGE, MIXUP, MUON, PAPER, PLATEAU, QUICK, SLOPES, STUDENT, Training

__all__ = [
    "ARCHITECTURES",
    "LARGE",
    "MIXUP",
    "MUON",
    "PAPER",
    "PLATEAU",
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
