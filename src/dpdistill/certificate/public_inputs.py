"""Lists the public inputs of a recipe: inputs that are not private and not covered by epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpdistill.certificate.format import PublicInput
from dpdistill.recipe.earlier_names import current_name

PACKAGE = "dpdistill"
_PROGRAMS = ("Drawn", "Silhouettes")
ENCODER = "pre-trained encoder"
DECLARED, _FILTERS, _ENCODER = "PublicImages", "DrawnNet", "PublicEncoder"


def public_inputs(recipe: object) -> list[PublicInput]:
    """Returns the public inputs of a recipe's fields, each once, in the order of the fields.

    Args:
        recipe: recipe in the certificate; another form has no public inputs.
    """
    fields = recipe.get("fields") if isinstance(recipe, dict) else None
    result: list[PublicInput] = []
    for value in _kinds(fields):
        if (each := _public_input(value)) is not None and each not in result:
            result.append(each)
    return result


def _kinds(value: object) -> Iterator[dict[str, Any]]:
    """Yields every object below a value that names its kind; a certificate is at most 30 levels deep."""
    if isinstance(value, dict):
        if isinstance(value.get("kind"), str):
            yield value
        for item in value.values():
            yield from _kinds(item)
    elif isinstance(value, list):
        for item in value:
            yield from _kinds(item)


def _public_input(value: dict[str, Any]) -> PublicInput | None:
    kind, count = value["kind"], value.get("pictures")
    if kind in _PROGRAMS:
        source = f"program {kind} of {PACKAGE}, {count} images from seed {value.get('seed')}"
        return PublicInput(kind="generated images", sha256=None, source=source, declared_by=PACKAGE)
    sha256 = value.get("filters" if kind == _FILTERS else "sha256")
    if kind not in (DECLARED, _FILTERS, _ENCODER) or not _is_sha256(sha256):
        return None
    if kind == _ENCODER:
        stated = {key: str(value.get(key) or "not stated") for key in ("name", "source", "licence", "training_data")}
        source = "{name} from {source}, {licence}, trained on {training_data}".format(**stated)
        return PublicInput(
            kind=ENCODER,
            sha256=sha256,
            source=source,
            declared_by=str(value.get("declared_by") or "not stated"),
        )
    if kind == _FILTERS:
        source = f"drawn_filters.npz of {PACKAGE}, learned from generated images"
        return PublicInput(kind="shipped filters", sha256=sha256, source=source, declared_by=PACKAGE)
    source, by = f"{count} images named by their sha256", declared_by(value)
    return PublicInput(
        kind="declared images",
        sha256=sha256,
        source=source,
        declared_by=by if isinstance(by, str) and by else "nobody",
    )


def not_covered(recipe: Any) -> list[str]:
    """Returns a sentence for each input that a person declares public in a recipe's fields, each sentence once."""
    result: list[str] = []
    for value in _kinds(recipe.get("fields")):
        if value["kind"] == DECLARED:
            what = f"the {value.get('pictures')} images with sha256 {value.get('sha256')}"
        elif value["kind"] == _ENCODER:
            what = f"the data that trained the encoder {value.get('name')} with sha256 {value.get('sha256')}, "
            what += str(value.get("training_data"))
        else:
            continue
        sentence = f"Nor does it cover {what}: by the word of {declared_by(value)} they are public."
        if sentence not in result:
            result.append(sentence)
    return result


def declared_by(images: dict[str, Any]) -> Any:
    """Returns who declared images public, under the current name of that field or an earlier one."""
    earlier = (name for name in images if current_name(DECLARED, name) == "declared_by")
    return images.get("declared_by", images.get(next(earlier, "")))


def _is_sha256(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and not set(value) - set("0123456789abcdef")
