"""Reads a Parquet file of synthetic rows to its last byte: it must have these rows and nothing else."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dpdistill.folder.tables import to_arrow, to_frame
from dpdistill.schema import TableSchema

_MADE_BY = re.compile(r"parquet-cpp-arrow version (\d{1,3}\.\d{1,3}\.\d{1,3})")
_MAGIC = b"PAR1"
_LIBRARY = ("creator", "pandas_version")
"""Keys of pandas's notes about versions."""


def parquet_fault(path: Path, X: np.ndarray, y: np.ndarray, schema: TableSchema) -> str | None:
    """Returns the fault of a Parquet file, as the end of a sentence; None if it has these rows and nothing else.

    The same version of Arrow writes the same bytes. For another version, rows, notes and the offsets of all parts are
    compared.

    Args:
        path: path of the file.
        X: raw rows, (n, columns), n >= 1.
        y: class indices, (n,).
        schema: schema of the table.
    """
    expected = to_arrow(to_frame(X, y, schema), schema)
    again = pa.BufferOutputStream()
    parquet.write_table(expected, again)
    size = path.stat().st_size
    if size > 4 * again.tell() + (1 << 16):
        return "is larger than its rows"
    if (content := path.read_bytes()) == again.getvalue().to_pybytes():
        return None
    try:
        file = parquet.ParquetFile(pa.BufferReader(content))
        result, facts = file.read(), file.metadata
        notes = {**(facts.metadata or {})}
        kept = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(notes.pop(b"ARROW:schema", b""))))
        pandas_notes = [_pandas(metadata.pop(b"pandas")) for metadata in (notes, {**(kept.metadata or {})})]
    except Exception:  # Arrow raises many exception types for damaged input
        return "is damaged"
    version = _MADE_BY.fullmatch(facts.created_by)
    if not result.equals(expected) or not kept.equals(expected.schema):
        return "does not have the rows of synthetic.npz"
    if version is None or version[1] == pa.__version__:
        return "is not as dpdistill writes it"
    if notes or any(each != _pandas(expected.schema.metadata[b"pandas"]) for each in pandas_notes):
        return "has notes that dpdistill does not write"
    return None if _is_gapless(content, facts) else "has bytes that belong to no column"


def _pandas(note: bytes) -> Any:
    """Returns pandas's notes about the columns, without versions."""
    return {key: value for key, value in json.loads(note).items() if key not in _LIBRARY}


def _is_gapless(content: bytes, facts: Any) -> bool:
    """Returns whether the columns fill the file without gaps from the first byte to the footer, which ends the file."""
    at = len(_MAGIC)
    for i in range(facts.num_row_groups):
        for j in range(facts.num_columns):
            column = facts.row_group(i).column(j)
            first = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            if first != at:
                return False
            at += column.total_compressed_size
    footer = int.from_bytes(content[-8:-4], "little")
    return content.startswith(_MAGIC) and at + footer + 8 == len(content)
