"""The page of the documentation, of which every command writes its own part."""

from __future__ import annotations

from pathlib import Path


def write_part(path: Path, name: str, text: str) -> None:
    """Put a part in its place in a page, between comments that name it; or at the end, where it has none yet."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    before, found, rest = page.partition(begin)
    after = rest.partition(end)[2] if found else ""
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
