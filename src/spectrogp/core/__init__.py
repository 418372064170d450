"""What everything else stands on: precision, checks of arguments, linear algebra, sums over rows, compiled programs."""

from .checks import Key, as_key, as_level, as_numbers, at_least, inputs, naming, plain_inputs, refuse_masked, require
from .chunking import chunked_sum, in_blocks, rows_divided, rows_shared, sharing_rows
from .compilation import SOON, cache_by_default, cache_compilations, share_compilations
from .entry_points import entry_point, precision, refuse_forked, traced
from .linalg import Factor, cholesky, gaussian_log_density, solve_lower, symmetric_root, triangular_inverse, whitened_kl
from .memory import available_memory, keep_freed_memory, require_memory
from .module import Module, show_numbers, with_fields
from .threads import compute_in_callers, cores, in_pieces, is_new, one_blas_thread, program_threads, side_by_side

__all__ = [
    "SOON",
    "Factor",
    "Key",
    "Module",
    "as_key",
    "as_level",
    "as_numbers",
    "at_least",
    "available_memory",
    "cache_by_default",
    "cache_compilations",
    "cholesky",
    "chunked_sum",
    "compute_in_callers",
    "cores",
    "entry_point",
    "gaussian_log_density",
    "in_blocks",
    "in_pieces",
    "inputs",
    "is_new",
    "keep_freed_memory",
    "naming",
    "one_blas_thread",
    "plain_inputs",
    "precision",
    "program_threads",
    "refuse_forked",
    "refuse_masked",
    "require",
    "require_memory",
    "rows_divided",
    "rows_shared",
    "share_compilations",
    "sharing_rows",
    "show_numbers",
    "side_by_side",
    "solve_lower",
    "symmetric_root",
    "traced",
    "triangular_inverse",
    "whitened_kl",
    "with_fields",
]
