"""What models need of memory, as multiples of the largest array that they make.

The multiples are those of a gradient of the log joint density, as XLA plans it (``tests/test_memory.py``): about 5.5
matrices of all rows whatever the kernel, and up to 12 of rows times inducing inputs. That of neighbours is what their
search takes: 16 to 17 numbers for each of them.
"""

from __future__ import annotations

import jax.numpy as jnp

from ..core import entry_point, require_memory

_EXACT = 6
_COLLAPSED = 12
_NEIGHBOURS = 18
_JOINT = 4


@entry_point
def require_exact(rows: int, chains: int = 1) -> None:
    """Refuse exact inference with more rows than memory allows.

    Args:
        rows: Rows N of the data; matrices are N by N.
        chains: Chains that are run side by side.
    """
    require_memory(
        _EXACT * chains * float(rows) ** 2 * _itemsize(),
        f"an exact model of {rows} rows" + (f" and {chains} chains" if chains > 1 else ""),
        "use neighbours (approximation='neighbours', NeighbourGP) or inducing points ('sgpr', CollapsedGP)",
    )


@entry_point
def require_collapsed(rows: int, inducing: int, chains: int = 1) -> None:
    """Refuse the collapsed bound with more rows and inducing inputs than memory allows.

    Args:
        rows: Rows of the data.
        inducing: Inducing inputs.
        chains: Chains that are run side by side.
    """
    require_memory(
        _COLLAPSED * chains * float(rows) * inducing * _itemsize(),
        f"{inducing} inducing points for {rows} rows at once",
        "use minibatches (approximation='svgp', VariationalGP), neighbours ('neighbours', NeighbourGP) or fewer points",
    )


@entry_point
def require_neighbours(rows: int, neighbours: int) -> None:
    """Refuse the search for neighbours of more rows than memory allows.

    Args:
        rows: Rows of the data.
        neighbours: How many neighbours each has.
    """
    require_memory(
        _NEIGHBOURS * float(rows) * (neighbours + 1) * 8,
        f"the search for {neighbours} neighbours of {rows} rows",
        "use inducing points with minibatches (approximation='svgp', VariationalGP), fewer neighbours or fewer rows",
    )


@entry_point
def require_joint(rows: int, draws: int = 1) -> None:
    """Refuse a joint covariance of more inputs than memory allows.

    Args:
        rows: Inputs t of the prediction; covariances are t by t.
        draws: How many of them are kept, one for each draw of the posterior.
    """
    require_memory(
        (_JOINT + draws) * float(rows) ** 2 * _itemsize(),
        f"the joint covariance of {rows} inputs",
        "ask for fewer inputs at a time, or for deviations (return_std), which are found one by one",
    )


def _itemsize() -> int:
    return jnp.result_type(float).itemsize
