"""Writes croissant.json: the set in MLCommons Croissant 1.1, with provenance (PROV-O) and responsible-AI fields.

Source: MLCommons, Croissant Format Specification 1.1
(https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html) and Croissant RAI Specification 1.0.
"""

from __future__ import annotations

import re
from typing import Any

from dpdistill.folder.layout import CERTIFICATE, CSV, IMAGES
from dpdistill.publish.export import sentences
from dpdistill.publish.export.publisher import TO_FILL_IN, Publisher
from dpdistill.publish.report.folder import Folder
from dpdistill.publish.report.guarantee import Guarantee, mapping, read_guarantee
from dpdistill.publish.report.words import bound, number, plain
from dpdistill.schema import Column, TableSchema

CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
_CR = (
    "arrayShape citeAs column containedIn equivalentProperty extract field fileProperty fileObject fileSet format "
    "includes isArray isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{term: f"cr:{term}" for term in _CR.split()},
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
_ENCODINGS = {
    ".npz": "application/zip",
    ".csv": "text/csv",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".png": "image/png",
    ".json": "application/json",
}


def describe(folder: Folder, publisher: Publisher) -> dict[str, Any]:
    """Returns the set's Croissant description as JSON values."""
    g = read_guarantee(folder.certificate)
    organisation = {"@type": "Organization", "name": publisher.curator or TO_FILL_IN}
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(CONFORMS_TO),
        "name": publisher.name or sentences.name_of(folder),
        "description": " ".join([sentences.contents(folder), sentences.origin(folder, g), sentences.claim(g)]),
        "version": publisher.version or "1.0.0",
        "license": publisher.license_url or TO_FILL_IN,
        "url": publisher.url or TO_FILL_IN,
        "citeAs": publisher.cite or TO_FILL_IN,
        "creator": organisation,
        "publisher": organisation,
        "dateCreated": plain(folder.certificate.get("date")),
        **({"datePublished": publisher.date} if publisher.date else {}),
        "isLiveDataset": False,
        "keywords": ["synthetic data", "dataset distillation", *(["differential privacy"] if g.holds else [])],
        **_provenance(folder, g, publisher),
        **_responsible(folder, g, publisher),
        "distribution": _files(folder),
        "recordSet": [*_classes(folder), *_records(folder)],
    }


def _provenance(folder: Folder, g: Guarantee, publisher: Publisher) -> dict[str, Any]:
    privacy = "without a privacy guarantee" if not g.holds else f"under epsilon = {bound(g.epsilon)}"
    return {
        "prov:wasDerivedFrom": {
            "@type": "prov:Entity",
            "prov:label": publisher.source or "Labelled records, not published",
        },
        "prov:wasGeneratedBy": {
            "@type": "prov:Activity",
            "prov:label": f"Distilled by {sentences.method_of(folder)} {privacy}; its settings are in recipe.json",
            "prov:wasAssociatedWith": {
                "@type": "prov:SoftwareAgent",
                "prov:label": f"dpdistill {sentences.version_of(folder)}",
            },
        },
    }


def _responsible(folder: Folder, g: Guarantee, publisher: Publisher) -> dict[str, Any]:
    noise = f"{g.noise}, Gaussian, added once to clipped sums" if g.private else "none"
    source = [f"The records: {publisher.source}"] if publisher.source else []
    sensitive = [sentences.sensitive(folder, g), *([f"Columns: {publisher.sensitive}"] if publisher.sensitive else [])]
    return {
        "rai:dataCollection": " ".join(["No record was collected for this set.", sentences.origin(folder, g), *source]),
        **({"rai:dataCollectionTimeframe": publisher.period.split("/")} if publisher.period else {}),
        "rai:dataSocialImpact": publisher.social_impact or TO_FILL_IN,
        "rai:dataCollectionType": "Others: synthetic data",
        "rai:dataManipulationProtocol": f"Noise: {noise}. certificate.json lists what was released and what it cost.",
        "rai:dataLimitations": [*sentences.limits(folder, g), sentences.NOT_FOR],
        "rai:dataBiases": [sentences.biases(g), *filter(None, [publisher.biases])],
        "rai:dataUseCases": sentences.uses(g, publisher),
        "rai:personalSensitiveInformation": sensitive if publisher.sensitive else sensitive[0],
        "rai:dataReleaseMaintenancePlan": f"Published once. {sentences.another(folder, g)}",
    }


def _files(folder: Folder) -> list[dict[str, Any]]:
    """Returns the files that the certificate lists, with their hashes, and the certificate; images are one file set."""
    certificate = {CERTIFICATE: folder.digest} if folder.digest else {}
    listed = {**mapping(folder.certificate.get("files")), **certificate}
    single = {name: digest for name, digest in listed.items() if not name.startswith(f"{IMAGES}/")}
    files = [
        {
            "@type": "cr:FileObject",
            "@id": name,
            "name": name,
            "contentUrl": name,
            "encodingFormat": _ENCODINGS.get(name[name.rfind(".") :], "application/octet-stream"),
            "sha256": digest,
        }
        for name, digest in single.items()
    ]
    if len(single) < len(listed):
        pictures = {"@type": "cr:FileSet", "@id": "pictures", "name": "pictures", "encodingFormat": "image/png"}
        files.append({**pictures, "includes": f"{IMAGES}/*/*.png", "description": "One image per training record."})
    return files


def _classes(folder: Folder) -> list[dict[str, Any]]:
    """Returns the record set of the classes; none for a table without a label."""
    if isinstance(folder.schema, TableSchema) and folder.schema.label is None:
        return []
    names = [{"classes/name": name} for name in folder.schema.classes]
    field = {"@type": "cr:Field", "@id": "classes/name", "name": "name", "dataType": "sc:Text"}
    return [
        {
            "@type": "cr:RecordSet",
            "@id": "classes",
            "name": "classes",
            "dataType": "sc:Enumeration",
            "key": {"@id": "classes/name"},
            "field": [field],
            "data": names,
        }
    ]


def _records(folder: Folder) -> list[dict[str, Any]]:
    schema = folder.schema
    if isinstance(schema, TableSchema):
        ids = _ids([*schema.names])
        fields = [
            _column(at, column.name, _type(column), f"{sentences.holds(column)}.")
            for at, column in zip(ids, schema.columns, strict=False)
        ]
        if schema.label is None:
            return [_record_set("records", fields)]
        return [_record_set("records", [*fields, _column(ids[-1], schema.label, _LABEL, "The class.") | _CLASSES])]
    if not folder.pictures:
        return []
    # Some class names are no folder names: their folders have other names.
    as_called = {name.split("/")[1] for name in folder.pictures} <= set(schema.classes)
    picture = {"fileSet": {"@id": "pictures"}, "extract": {"fileProperty": "content"}}
    path = {"fileSet": {"@id": "pictures"}, "extract": {"fileProperty": "fullpath"}}
    label = {**path, "transform": {"regex": rf".*{IMAGES}[/\\]([^/\\]+)[/\\][^/\\]+\.png$"}}
    image = {"@type": "cr:Field", "@id": "records/image", "name": "image", "dataType": "sc:ImageObject"}
    bounds = " to ".join(map(number, schema.bounds))
    shown = {"description": f"An image with 8 bits per channel, whose values from 0 to 255 stand for {bounds}."}
    named = {"@type": "cr:Field", "@id": "records/label", "name": "label", "dataType": _LABEL}
    sentence = {"description": "The class, which is the name of the image's folder."}
    return [
        _record_set(
            "records",
            [
                image | shown | {"source": picture},
                named | sentence | (_CLASSES if as_called else {}) | {"source": label},
            ],
        )
    ]


def _record_set(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


_LABEL = ["sc:Text", "cr:Label"]
_CLASSES = {"references": {"field": {"@id": "classes/name"}}}


def to_id(text: str) -> str:
    """Returns a text as a valid @id: without spaces, line breaks and other characters that URLs exclude."""
    return re.sub(r"[\s<>\"{}|\\^`%]", "_", text)


def _ids(names: list[str]) -> list[str]:
    """Returns one distinct @id for each column."""
    ids: list[str] = []
    for name in names:
        at = f"records/{to_id(name)}"
        while at in ids:
            at += "_"
        ids.append(at)
    return ids


def _column(at: str, name: str, kind: object, said: str) -> dict[str, Any]:
    source = {"fileObject": {"@id": CSV}, "extract": {"column": name}}
    field = {"@type": "cr:Field", "@id": at, "name": name, "dataType": kind}
    return {**field, "description": said, "source": source}


def _type(column: Column) -> str:
    if column.is_time:
        standard = {} if column.format else {"date": "sc:Date", "datetime": "sc:DateTime"}
        return standard.get(column.kind, "sc:Text")
    whole = column.kind == "integer" and not column.missing
    return "sc:Integer" if whole else "sc:Float" if column.is_number else "sc:Text"
