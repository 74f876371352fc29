"""Fields of kernels, feature maps and networks: pydantic checks them as it does those of methods."""

import dataclasses
import math
import re

import numpy as np
import pytest

from dpdistill.public_images.image_source import PublicImages, Silhouettes
from dpdistill.recipe.build import KINDS, from_fields
from dpdistill.recipe.features import (
    Deskewed,
    DrawnNet,
    GammaCorrected,
    Mirrored,
    Normalised,
    Perceptual,
    ScatterNet,
    WhiteScatterNet,
)
from dpdistill.recipe.kernels import FCNTK, KERNELS, ConvNTK, EmpiricalNTK, FeatureKernel, Kernel
from dpdistill.recipe.networks import ARCHITECTURES, MLP, VGG11, ConvNet, LeNet, ResNet18, ViT
from dpdistill.recipe.parts import Part, implement
from dpdistill.recipe.rules import NO_BOUNDS, rules_of
from dpdistill.schema import DataError

NET = ScatterNet()
PARTS = {
    type(part): part for part in (*KINDS.values(), *ARCHITECTURES.values(), VGG11(), ViT()) if isinstance(part, Part)
}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: FCNTK(depth=0), "Expected depth=0 >= 1."),
        (lambda: FCNTK(depth=1.0), "Expected depth as a whole number; got depth=1.0."),
        (lambda: FCNTK(depth=True), "Expected depth as a whole number; got depth=True."),
        (lambda: FCNTK(w_std="1"), "Expected w_std as a number; got w_std='1'."),
        (lambda: FCNTK(w_std=math.inf), "Expected w_std=inf > 0 and finite."),
        (lambda: ConvNTK(b_std=-0.1), "Expected b_std=-0.1 >= 0."),
        (lambda: ConvNTK(chunk=0), "Expected chunk=0 >= 1."),
        (lambda: ConvNTK(chunk="3"), "Expected chunk as a whole number or None; got chunk='3'."),
        (lambda: ConvNTK(depth=2**31), "Expected depth=2147483648 >= 1 and < 2147483648."),
        (lambda: EmpiricalNTK(NET), f"Expected network as a Network; got network={NET!r}."),
        (lambda: EmpiricalNTK(LeNet(), classes=0), "Expected classes=0 >= 1."),
        (lambda: FeatureKernel(3), "Expected encoder as a feature map; got encoder=3."),
        (lambda: Mirrored(None), "Expected encoder as a feature map; got encoder=None."),
        (lambda: ScatterNet(L=0), "Expected L=0 >= 1."),
        (lambda: ScatterNet(groups=2), "Expected groups=2 that divide 81 channels, or 0."),
        (lambda: ScatterNet(per_position=1), "Expected per_position as true or false; got per_position=1."),
        (lambda: WhiteScatterNet(3), "Expected scattering as a ScatterNet; got scattering=3."),
        (lambda: WhiteScatterNet(strength=0.0), "Expected strength=0.0 > 0."),
        (lambda: Deskewed(NET, 1.5), "Expected 0 <= strength=1.5 <= 1."),
        (lambda: Deskewed(NET, height=math.nan), "Expected height=nan > 0 and finite."),
        (lambda: Normalised(NET, channels=8.0), "Expected channels as a whole number; got channels=8.0."),
        (lambda: Normalised(NET, channels=81, power=0), "Expected 0 < power=0 <= 1."),
        (lambda: GammaCorrected(NET, np.float32(0.5)), "Expected exponent as a number; got exponent=np.float32(0.5)."),
        (lambda: DrawnNet(7), "Expected filters as a word; got filters=7."),
        (lambda: Perceptual(width=0), "Expected width=0 > 0."),
        (lambda: Perceptual(width=20), "Expected width=20 to be a multiple of groups=8."),
        (lambda: ConvNet(seed=-1), "Expected 0 <= seed=-1 <= 4294967295."),
        (lambda: ConvNet(seed=2**32), "Expected 0 <= seed=4294967296 <= 4294967295 and < 4294967296."),
        (lambda: MLP(widths=(5, 0)), "Expected widths=(5, 0) > 0."),
        (lambda: MLP(widths=[5]), "Expected widths as a tuple of whole numbers; got widths=[5]."),
        (lambda: MLP(widths=(5, 2.0)), "Expected widths as a tuple of whole numbers; got widths=(5, 2.0)."),
        (lambda: LeNet(widths=(1, 2, 3)), "Expected widths as a tuple of 4 whole numbers; got widths=(1, 2, 3)."),
        (lambda: LeNet(widths=(1,) * 5), "Expected widths as a tuple of 4 whole numbers; got widths=(1, 1, 1, 1, 1)."),
        (lambda: ResNet18(groups=0), "Expected groups=0 > 0."),
        (lambda: ViT(depth=None), "Expected depth as a whole number; got depth=None."),
    ],
)
def test_what_is_refused_is_said_with_the_value(make, said):
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        make()


def test_public_images_of_the_caller_are_no_part_of_a_kernel():
    images = PublicImages("0" * 64, 2)
    assert WhiteScatterNet(pictures=Silhouettes()).pictures == Silhouettes()
    for make in (lambda: WhiteScatterNet(pictures=images), lambda: Normalised(NET, 81, pictures=images)):
        with pytest.raises(ValueError, match=r"^Expected pictures as a Drawn or Silhouettes or None; got pictures=Pub"):
            make()


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_every_field_states_what_it_holds_and_every_number_its_bounds(kind):
    found = {f.name: f.metadata.get("bounds", NO_BOUNDS) for f in dataclasses.fields(kind) if f.name != "channels"}
    for name, rule in rules_of(kind).items():
        if name in found and (rule.kind in (int, float) or rule.length is not None):
            assert any(bound is not None for bound in found[name].values()), name


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_what_a_file_states_is_checked(kind):
    """A stranger's recipe: each field of another kind is refused in a sentence that names the field."""
    part = PARTS[kind]
    for field in dataclasses.fields(part):
        with pytest.raises(ValueError, match=rf"^Expected {field.name} |^{kind.__name__} has no"):
            dataclasses.replace(part, **{field.name: object()})


def test_a_recipe_with_such_a_kernel_is_refused():
    kernel = {"kind": "FCNTK", "depth": 1.5, "w_std": 1.0, "b_std": 0.0}
    with pytest.raises(DataError, match=r"^Expected depth as a whole number; got depth=1\.5\.$"):
        from_fields("dp-kip", {"kernel": kernel})


def test_what_computes_is_checked_by_the_same_rules():
    for kernel in KERNELS.values():
        kind = type(implement(kernel, Kernel))
        mine, other = (
            {n: dataclasses.replace(r, kind=int) for n, r in rules_of(k).items()} for k in (kind, type(kernel))
        )
        assert mine == other


def test_a_network_without_hidden_layers_is_linear():
    assert MLP(widths=()).widths == ()
