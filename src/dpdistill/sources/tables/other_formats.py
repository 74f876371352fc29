"""Recognises files of unsupported table formats by their first bytes, with advice on conversion."""

from __future__ import annotations

from pathlib import Path

from dpdistill.schema import DataError
from dpdistill.sources.formats import table_titles
from dpdistill.storage.files import show

_PANDAS = "read it with pandas.{} and write it with to_parquet('table.parquet')"
_STATA = _PANDAS.format("read_stata")
_UNPACK = "unpack it first"
_UTF16 = "save it as CSV UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 FILE > table.csv"
_KINDS: tuple[tuple[tuple[bytes, ...], str, str], ...] = (
    ((b"\xff\xfe", b"\xfe\xff"), "UTF-16 text, such as Excel's Unicode Text", _UTF16),
    ((b"<stata_dta>", *(bytes((v, o, 1, 0)) for v in range(110, 117) for o in (1, 2))), "a Stata file", _STATA),
    ((b"HEADER RECORD*******LIB",), "a SAS transport file", _PANDAS.format("read_sas")),
    ((b"\0" * 12 + b"\xc2\xea\x81\x60",), "a SAS data set", _PANDAS.format("read_sas")),
    ((b"$FL2", b"$FL3"), "an SPSS file", _PANDAS.format("read_spss")),
    ((b"FEA1",), "a Feather file of version 1", _PANDAS.format("read_feather")),
    ((b"ORC",), "an ORC file", _PANDAS.format("read_orc")),
    ((b"\xd0\xcf\x11\xe0",), "an old Excel workbook", "save it as CSV UTF-8"),
    ((b"\x89HDF",), "an HDF5 file", _PANDAS.format("read_hdf")),
    ((b"RDX", b"X\n\0", b"B\n\0"), "a file of R objects", "write it in R with write.csv(data, row.names = FALSE)"),
    ((b'{"', b"[{", b"[[", b"{\n", b"[\n"), "JSON", _PANDAS.format("read_json")),
    ((b"<table", b"<html", b"<!DOCTYPE", b"<?xml"), "HTML or XML", "save it as CSV UTF-8"),
    (
        (b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!"),
        "a file compressed by a program other than gzip",
        _UNPACK,
    ),
    ((b"\x80",), "a pickle, which can run code", "write it with to_parquet('table.parquet') where it was made"),
)


def require_text(path: Path, start: bytes) -> None:
    """Refuses a file that cannot be CSV text.

    Args:
        path: path of the file.
        start: its first kilobytes, unpacked.

    Raises:
        DataError: an empty file, or a file of another format, with advice.
    """
    if not start:
        raise DataError(f"{show(path)} is empty.")
    for marks, kind, remedy in _KINDS:
        if start.startswith(marks):
            raise DataError(f"{show(path)} is {kind}: {remedy}.")
    if start.startswith(b"PK") and b"xl/" in start:
        raise DataError(f"{show(path)} is a damaged Excel workbook: save it again as .xlsx, or as CSV UTF-8.")
    if start.startswith(b"PK\3\4"):
        raise DataError(f"{show(path)} is a zip archive: {_UNPACK}.")
    if b"\0" in start or start.startswith((b"PK", b"%PDF")):
        raise DataError(f"{show(path)} is no table: expected {table_titles()}.")
