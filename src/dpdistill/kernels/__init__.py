"""Kernels, one a file: pure functions of two batches; and ridge regression with them."""

from dpdistill.kernels.conv_ntk import ConvNTK
from dpdistill.kernels.empirical_ntk import EmpiricalNTK
from dpdistill.kernels.fc_ntk import FCNTK
from dpdistill.kernels.feature import FeatureKernel
from dpdistill.kernels.kernel import Kernel

__all__ = ["FCNTK", "ConvNTK", "EmpiricalNTK", "FeatureKernel", "Kernel"]
