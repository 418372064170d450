"""Files: models as safetensors, tables of text, Parquet and sound, writing that never leaves half a file. No JAX."""

from .atomic import FilePath, replace_file, try_lock, write_json
from .errors import TableError, listed, quoted
from .models import ModelFileError, read_model, read_notes, save
from .tables import column_kinds, read_columns, read_table, write_table
from .text import printable

__all__ = [
    "FilePath",
    "ModelFileError",
    "TableError",
    "column_kinds",
    "listed",
    "printable",
    "quoted",
    "read_columns",
    "read_model",
    "read_notes",
    "read_table",
    "replace_file",
    "save",
    "try_lock",
    "write_json",
    "write_table",
]
