"""Files: models as safetensors, tables of text, Parquet and sound, writing that never leaves half a file. No JAX."""

from .atomic import FilePath, replace_file, try_lock, write_json
from .columns import Columns, chosen_columns, columns_among
from .errors import TableError, listed, quoted
from .groups import Groups, kinds_in, name_of, read_groups, refuse_unknown
from .levels import called, levels_of, zeros_and_ones
from .models import ModelFileError, read_model, read_notes, save
from .parquet_tables import arrow_for, write_rows
from .tables import column_kinds, has_names, read_columns, read_table, read_words, write_table
from .text import printable

__all__ = [
    "Columns",
    "FilePath",
    "Groups",
    "ModelFileError",
    "TableError",
    "arrow_for",
    "called",
    "chosen_columns",
    "column_kinds",
    "columns_among",
    "has_names",
    "kinds_in",
    "levels_of",
    "listed",
    "name_of",
    "printable",
    "quoted",
    "read_columns",
    "read_groups",
    "read_model",
    "read_notes",
    "read_table",
    "read_words",
    "refuse_unknown",
    "replace_file",
    "save",
    "try_lock",
    "write_json",
    "write_rows",
    "write_table",
    "zeros_and_ones",
]
