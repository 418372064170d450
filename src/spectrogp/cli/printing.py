"""What the commands print: what was found before a fit, what was learned, and what was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..files import printable
from . import terminal

if TYPE_CHECKING:
    import numpy as np

    from .work import Shown


def print_found(found: dict[str, Any], shown: Shown) -> None:
    """What was found in the data, and what the fit begins with, before the long part of it."""
    import numpy as np

    from ..initialise import show_range

    starts = found["components"]
    count = sum(start["gain"] > 0 for start in starts)
    what = f"{count} component{'s' * (count != 1)}" if count else "nothing significant"
    band = " × ".join(f"{low:.3g} to {high:.3g}" for low, high in zip(*found["band"], strict=True))
    unit = printable(", ".join(map(shown.frequency, range(len(shown.units)))))
    terminal.say(f"found before the fit: {what} in {found['rows']} rows, looked for at {band} {unit}")
    told = 0.1 * np.array(found["band"][0])  # of one cycle in the data
    rows = [
        [
            str(number),
            _ranges(np.array(start["frequency"]), shown, told)
            + (f", {start['harmonics']} harmonics" if start["harmonics"] > 1 else ""),
            show_range(np.array(start["amplitude"])[:, None]),
            f"{start['gain']:.3g}" if start["gain"] > 0 else "not significant",
            f"{start['seen']:.0%}" if start["gain"] > 0 else "–",
        ]
        for number, start in enumerate(starts, 1)
    ]
    terminal.say_table(["start", shown.head, f"amplitude σ ({found['outputs']})", "gain (nats)", "seen at"], rows)


def print_summary(summary: dict[str, Any], shown: Shown) -> None:
    """The components, and the quality of the fit."""
    import numpy as np

    from ..estimator import said_of_blocks, said_of_transform
    from ..initialise import show_range

    if said := said_of_transform(summary["diagnostics"]):
        terminal.say(said)
    level = f"{100.0 * summary['level']:.3g} %"
    # Of kernels without envelopes σ is all that is known of amplitudes.
    size = "amplitude" if all("sigma" in entry for entry in summary["components"]) else "amplitude σ"
    head = ["component", shown.head, f"median {level} band", f"{size} ({summary['found']['outputs']})"]
    rows = []
    for number, entry in enumerate(summary["components"], 1):
        periods = shown.period and "period" in entry
        band = entry["period_band"] if periods else entry["band"]
        width = "–" if band is None else " × ".join(f"± {width:.2g}" for width in band)
        of = f" ({entry['multiple']} × {entry['overtone_of']})" if "overtone_of" in entry else ""
        rows.append(
            [
                f"{number}{of}",
                _ranges(np.array([*entry["frequency"], entry["typical"]]), shown, entry["band"]),
                width,
                show_range(np.array(entry["amplitude"])[:, None]),
            ]
        )
    terminal.say_table(head, rows)
    quality = summary["fit"]
    terminal.say(
        f"noise {summary['noise']:.3g}; of the {summary['data']['rows']} rows fitted to: R² {quality['r2']:.4f}, "
        f"mean log density {quality['mean_log_density']:.3f}, {quality['coverage']:.1%} inside {level} intervals; "
        f"{summary['seconds']:.0f} s"
    )
    told = summary["diagnostics"]
    if "block_out" in told:
        terminal.say(said_of_blocks(told["block_out"]))
    for failure in told["starts_failed"]:
        terminal.say(f"a start failed: {printable(failure)}")
    if told["jitter"] > 0:
        terminal.say(f"covariances needed jitter of {told['jitter']:.1g} of their variance")
    for stage in told["cut_short"]:
        terminal.say(f"cut short: {stage}")
    print_warnings(summary["warnings"])


def print_warnings(sentences: list[str]) -> None:
    """What was warned of, a line each."""
    for sentence in sentences:
        terminal.say(f"warning: {printable(sentence)}")


def print_numbers(numbers: dict[str, Any]) -> None:
    """A table of the numbers: one row for each entry when there are several, else one for each scalar."""
    nested = {key: value for key, value in numbers.items() if isinstance(value, dict)}
    columns = list(dict.fromkeys(name for entry in nested.values() for name in entry)) or ["value"]
    lines = nested or {key: {"value": value} for key, value in numbers.items() if isinstance(value, int | float)}
    rows = [
        [key, *(f"{entry[column]:.3g}" if column in entry else "–" for column in columns)]
        for key, entry in lines.items()
    ]
    terminal.say_table(["", *(column.replace("_", " ") for column in columns)], rows)


def print_paths(paths: list[Path]) -> None:
    """The files that were written."""
    for path in paths:
        terminal.say(f"wrote {printable(str(path))}")


def _ranges(frequency: np.ndarray, shown: Shown, known: Any) -> str:
    """Frequencies ``[n, d]`` as text, or their periods, to the digits that are known."""
    import numpy as np

    from ..initialise import show_range

    known = None if known is None else np.asarray(known, float)
    if not shown.period:
        return show_range(frequency, known=known)
    if not (frequency > 0).all():
        return "–"
    return show_range(1.0 / frequency, known=None if known is None else known * np.mean(1.0 / frequency**2, axis=0))
