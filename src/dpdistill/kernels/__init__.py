"""Kernels, one a file: pure functions of two batches; and ridge regression with them."""

from dpdistill.kernels.conv_ntk import ConvNTK
from dpdistill.kernels.empirical_ntk import EmpiricalNTK
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel
from dpdistill.recipe import kernels as recipe
from dpdistill.recipe.parts import implement

KERNELS = {name: implement(kernel, Kernel) for name, kernel in recipe.KERNELS.items()}
"""Kernels by their short names, as functions."""

__all__ = ["FCNTK", "KERNELS", "ConvNTK", "EmpiricalNTK", "FeatureKernel", "Kernel"]
