"""Small networks and a small method: what takes seconds in tests of commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dpdistill import evaluation
from dpdistill.features.scattering import ScatterNet
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel
from dpdistill.method import finish_field, release_field
from dpdistill.methods import LDPDC
from dpdistill.networks.network import MLP, ConvNet
from dpdistill.networks.training import Training

TINY_NETS = {"convnet": ConvNet(width=4), "mlp": MLP(widths=(4,))}
TINY = Training(epochs=2, learning_rate=0.05, schedule="cosine", network=TINY_NETS["convnet"])
SMALL_DOS = ["--set", "networks=3", "--set", "width=4", "--set", "steps=20", "--set", "sampling_prob=1"]
ENCODER = ScatterNet(J=1, L=2, groups=3)
CLASSIFIER = np.random.default_rng(2).normal(size=(48, 10))
TARGETS = np.random.default_rng(3).normal(size=(20, 10))


@dataclass(frozen=True, kw_only=True)
class Kernelled(LDPDC):
    """Subset means again, with a kernel in the recipe, learned targets and a released classifier."""

    kernel: Kernel = release_field(FeatureKernel(ENCODER), "kernel of the regression")
    second: Kernel = finish_field(FCNTK(), "another kernel")
    ridge: float = finish_field(0.5, "of the regression", gt=0)
    name = "kernel-led"

    def finish(self, state, schema, progress=None):
        return replace(super().finish(state, schema), targets=TARGETS, classifier=CLASSIFIER)


def small_nets(monkeypatch):
    monkeypatch.setitem(evaluation.TRAININGS, "plateau", TINY)
    for name, network in TINY_NETS.items():
        monkeypatch.setitem(evaluation.ARCHITECTURES, name, network)


def torn(path: Path) -> Path:
    """Records that are there and cannot be opened."""
    np.savez(path, X=np.zeros((3, 4, 4), np.uint8), y=[0, 1, 2])
    content = path.read_bytes()
    path.write_bytes(content[:100] + bytes(200) + content[300:])
    return path
