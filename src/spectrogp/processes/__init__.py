"""Several processes that make one fit: how they begin, what one of them does for all, and how they end.

``python -m spectrogp.processes 2 script.py`` starts two of them on this machine (``launch``).
"""

from .group import Group, distributed
from .together import first_file, raise_interrupts, require_equal, speaks

__all__ = ["Group", "distributed", "first_file", "raise_interrupts", "require_equal", "speaks"]
