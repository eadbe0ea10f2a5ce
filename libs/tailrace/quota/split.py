"""How one rate is split between gateways: what each needs, and the rest evenly (water-filling)."""

from __future__ import annotations

from collections.abc import Sequence


def split(rate: float, needs: Sequence[float], floor: float) -> list[float]:
    """Splits `rate` by needs (all in bytes per second); every share is at least `floor`.

    Small needs are met in full, large ones are cut to one common level. What nobody needs is split evenly, so that a
    gateway whose demand grows is not stopped at once. The shares add up to `rate` unless the floors alone exceed it.
    """
    count = len(needs)
    if not count:
        return []
    shares = [floor] * count
    rest = max(0.0, rate - floor * count)
    wanting = sorted((max(0.0, need - floor), index) for index, need in enumerate(needs))
    for position, (want, index) in enumerate(wanting):
        share = min(want, rest / (count - position))
        shares[index] += share
        rest -= share
    return [share + rest / count for share in shares]
