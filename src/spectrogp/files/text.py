"""Text from data is data: names of columns and files as they can be shown."""

from __future__ import annotations

import unicodedata


def printable(text: str) -> str:
    r"""The same text with everything that would command a terminal, or cannot be seen, written as an escape.

    Control characters, directions of writing, separators of lines, halves of surrogate pairs and code points without
    a character become ``\x1b`` or ``\u202e``; all others stay as they are.

    Args:
        text: As it came from a table, a file name or an error.
    """
    return "".join(letter if _is_visible(letter) else ascii(letter)[1:-1] for letter in text)


def _is_visible(letter: str) -> bool:
    category = unicodedata.category(letter)
    return not category.startswith("C") and category not in ("Zl", "Zp")
