"""Writes deployment.yaml for the Differential Privacy Deployments Registry: tier 2, and the implied part of tier 3.

Source: OpenDP and NIST, https://registry.opendp.org, deployments-schema.yaml of opendp/deployments-registry-data (the
version with dp_variant, privacy_loss, deployment_model, implementation and administrative).
"""

from __future__ import annotations

import re
from typing import Any

from dpdistill.folder.layout import CLASSIFIER, CSV, GENERATOR, IMAGES, SYNTHETIC, TRAINING
from dpdistill.publish.export import sentences
from dpdistill.publish.export.publisher import TO_FILL_IN, Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.guarantee import Guarantee, mapping, read_guarantee
from dpdistill.publish.report.recipe import references
from dpdistill.publish.report.words import bound, plain
from dpdistill.schema import DataError, TableSchema

FOLDER = "The shared folder has all details: certificate.json, recipe.json, and report.html for human readers."


def describe(folder: Folder, publisher: Publisher) -> dict[str, Any]:
    """Returns the set's record for the registry as YAML values.

    Raises:
        DataError: the set has no guarantee to register.
    """
    g = read_guarantee(folder.certificate)
    if not g.holds:
        raise DataError("Expected a set with a privacy guarantee; the registry takes no others.")
    name = publisher.name or sentences.name_of(folder)
    digest = plain(mapping(folder.certificate.get("files")).get(SYNTHETIC) or "")[:8]
    return {
        # Two sets may have one name; the digest of their records differs.
        "url_slug": re.sub(r"[^a-z0-9]+", "-", f"{name} {digest}".lower()).strip("-") or "synthetic-set",
        "deployment": {
            "basic": _basic(folder, g, publisher, name),
            "dp_variant": _variant(folder, g),
            "privacy_loss": _privacy_loss(folder, g),
            "deployment_model": _model(folder, g),
            "implementation": _implementation(folder, g, publisher),
            "administrative": _administrative(folder, g, publisher),
        },
    }


def _basic(folder: Folder, g: Guarantee, publisher: Publisher, name: str) -> dict[str, Any]:
    curator = {"data_curator_name": publisher.curator, "data_curator_type": publisher.curator_type}
    return {
        "name": name,
        "data_curators": [{key: value or TO_FILL_IN for key, value in curator.items()}],
        "description": f"{sentences.contents(folder)} {sentences.origin(folder, g)}",
        "intended_use": sentences.uses(g, publisher),
        "data_product_type": "Synthetic data",
        "data_product_region": publisher.region or TO_FILL_IN,
        "data_product_sector": publisher.sector or TO_FILL_IN,
        "publication_date": publisher.date or TO_FILL_IN,
    }


def _variant(folder: Folder, g: Guarantee) -> dict[str, Any]:
    schema = folder.schema
    what = f"rows of {schema}" if isinstance(schema, TableSchema) else f"labelled images of {schema}"
    return {
        "variant_name": "Approximate DP",
        "data_domain": f"All finite data sets of {what}; the schema, with bounds and class names, is taken as public.",
        "unprotected_quantities": " ".join(_unprotected(folder, g)),
    }


def _unprotected(folder: Folder, g: Guarantee) -> list[str]:
    number = f"The number of {'units' if g.name else 'rows'}, which replace-one takes as public."
    from_records = [
        *([number] if g.relation == "replace-one" else []),
        *([sentences.SCORED] if folder.scores is not None else []),
    ]
    return [
        *(from_records or ["None from the records."]),
        "Public as declared by the publisher: the schema, the recipe, and images that the recipe names as public.",
    ]


def _privacy_loss(folder: Folder, g: Guarantee) -> dict[str, Any]:
    whose, those = sentences.protected(g), "all rows of any other" if g.name else "any other"
    change = {"add-remove": f"adding or removing {whose}", "replace-one": f"replacing {whose} by {those}"}
    hidden, units = "protected by the guarantee and therefore not stated.", "The number of units"
    count = {
        "add-remove": f"{f'{units}, like the number of rows,' if g.name else 'The number of rows'} is {hidden}",
        "replace-one": f"{units if g.name else 'The number of rows'} is public, but is not part of the shared folder."
        + (f" The number of rows is {hidden}" if g.name else ""),
    }
    details = [
        f"Adjacent data sets differ by {change.get(g.relation, g.relation)} ({g.relation}).",
        sentences.several(g),
        *([count[g.relation]] if g.relation in count else []),
    ]
    table = "; ".join(f"epsilon = {bound(epsilon)} at delta = {plain(delta)}" for delta, epsilon in g.table)
    parameters = f"Upper bound for all releases together, for {sentences.protected(g)}." + (
        f" The same run also satisfies: {table}." if table else ""
    )
    return {
        "privacy_unit": g.unit or sentences.protected(g),
        "privacy_unit_details": " ".join(details),
        "privacy_parameters": {"epsilon": g.epsilon, "delta": g.delta},
        "privacy_parameters_details": parameters,
    }


def _model(folder: Folder, g: Guarantee) -> dict[str, Any]:
    but = f"the records of one {g.whose}" if g.name else "one"
    return {
        "model_name": "Central",
        "trust_assumptions": "The owner of the records ran the program. The owner is trusted with the records, with the"
        " machine, and with having run it as described. Receivers are not trusted: the guarantee holds against"
        f" anybody who knows the program, the recipe, the shared folder and all records but {but}.",
        "actors": "The owner of the records, who also runs the program; the receivers of the shared folder. There are"
        " no intermediaries.",
        "release_type": "One release",
        "release_type_details": sentences.another(folder, g),
        "data_source_type": "Static",
        "data_source_type_details": "The records are read once; no records are added later.",
        "access_type": "Non-interactive",
        "access_type_details": "Files are published; the records cannot be queried.",
    }


def _implementation(folder: Folder, g: Guarantee, publisher: Publisher) -> dict[str, Any]:
    each = f"all records of one {g.whose} together, or none," if g.name else "each record"
    share = f"at most {plain(g.rows_per_unit)} records of one {g.whose} clipped as one" if g.name else "one per record"
    rounds = "; ".join(
        f"{plain(count)} round{'' if count == 1 else 's'} with noise multiplier {plain(noise)}, "
        + ("all records in each" if prob == 1 else f"{each} in a round with probability {plain(prob)} (Poisson)")
        for count, noise, prob in g.groups
    )
    published = [
        *([f"Published at {publisher.url}."] if publisher.url else []),
        *([f"Licence: {publisher.license_url}."] if publisher.license else []),
    ]
    sampled = any(prob != 1 for _, _, prob in g.groups)
    slack = folder.certificate.get("slack")
    exact = "rounded to an integer grid, sums are exact integers"
    linear = "sums of linear queries are in double precision, with this slack in the noise"
    sums = f"{linear}: {plain(slack)}; all other contributions are {exact}" if slack else exact
    return {
        "preprocessing_and_hyperparameter_tuning": "Values are scaled by the declared bounds and clamped to them."
        f" Origin of the recipe: {plain(folder.recipe.get('origin'))}. Choosing a recipe by looking at results on"
        " these records would not be covered by the stated parameters.",
        "mechanisms": f"Gaussian mechanism on sums of clipped contributions, {share}: {rounds}. Contributions are"
        f" clipped and {sums}; the noise is rounded to a grid, against floating-point attacks, and comes from"
        f" {g.noise}. Program: dpdistill {sentences.version_of(folder)}, method {sentences.method_of(folder)}."
        " Nothing is interactive.",
        "composition": f"All rounds are fixed before the first. {SAMPLED if sampled else FULL_BATCH}",
        "post_processing": "Everything after the noised sums. Synthetic records are fitted to the sums without the"
        f" private records, for any number of steps. The folder holds: {_forms(folder)}.",
        "justification": "Anybody can check certificate and files again with `dpdistill verify`, whose arithmetic is"
        " independent of the program that made them. Why these parameters:"
        f" {publisher.justification or TO_FILL_IN}",
        "additional_information": " ".join([FOLDER, *published]),
    }


SAMPLED = "Privacy loss distributions are composed numerically, with sampling, as an upper bound."
FULL_BATCH = "The rounds are full batches, which compose in closed form as Gaussian differential privacy."
FORMS = {CSV: "a table", TRAINING: "records to train on", CLASSIFIER: "a classifier", GENERATOR: "a generator"}
"""Names of optional contents of a folder, by the file that shows their presence."""


def _forms(folder: Folder) -> str:
    files = mapping(folder.certificate.get("files"))
    pictures = ["pictures"] if any(name.startswith(f"{IMAGES}/") for name in files) else []
    return ", ".join(["synthetic records", *pictures, *(form for name, form in FORMS.items() if name in files)])


def _administrative(folder: Folder, g: Guarantee, publisher: Publisher) -> dict[str, Any]:
    certificate = {
        "title": f"certificate.json: {sentences.claim(g)}",
        **({"url": publisher.url} if publisher.url else {}),
    }
    sources: dict[str, Any] = {
        "certificate": {"evidence_source_type": "Authorized organizational attestation", "misc": certificate}
    }
    sources |= {
        f"method_{k}": {"evidence_source_type": "Other public source", "misc": {"title": plain(text)}}
        for k, text in enumerate(references(folder.recipe), 1)
    }
    return {
        "evidence_sources": sources,
        "status": "Draft",
        "registry_authors": [publisher.author or TO_FILL_IN],
        "tier": 2,
    }
