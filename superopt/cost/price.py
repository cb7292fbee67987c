"""Seconds of one operation on one card: a bounded roofline with a price for what is not hidden.

    t = launches * launch + max(launches * min, longer + beta * shorter)

of the time to move the bytes and the time to compute:

    memory      = bytes / dram / min(1, 2 * tiles / sms)
    arithmetic  = flops / rate(engine, dtype) * ceil(tiles / sms) * sms / tiles

The last factor of each is 1 when ``tiles`` is 0. Sources: roofline and wave quantisation, as in
NeuSight (arXiv 2407.13853) and tritonBLAS (2512.04226); the sum weighted by beta is this project's,
fitted to one kernel (``costmodels/h200.toml``). A library product has no tiles: its rate is an
average over the tiles that the vendor chooses. With few rows memory bounds it, without a special
case. What small tiles cost a generated product is part of its work (``works.dot_work``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from superopt.cost.card import Card
from superopt.ir.plan import Price, Work

# Half of the multiprocessors draw all of the memory's bandwidth. On an H200 86 programs on 132
# multiprocessors read weights at 92% of a copy's rate or more; a half is an assumption.
DRAWN_BY = 0.5


def seconds(work: Work, card: Card, *, precision: str = "highest", cached: float = 0.0) -> float:
    """Predicted seconds of ``work``; 0 for a view.

    ``precision`` is torch's setting for fp32 products. ``cached`` are those of the bytes read that
    lie in the L2; they count only where the card's ``l2_gbs`` is known. Raises CostModelError for
    an unknown engine.
    """
    if work.launches == 0:
        return 0.0
    body = body_seconds(work, card, precision=precision, cached=cached)
    return work.launches * card.launch_us * 1e-6 + max(work.launches * card.min_us * 1e-6, body)


def body_seconds(
    work: Work, card: Card, *, precision: str = "highest", cached: float = 0.0
) -> float:
    """As ``seconds``, without launches and least times: what joins a kernel that runs anyway."""
    memory = memory_seconds(work, card, cached)
    arithmetic = arithmetic_seconds(work, card, precision)
    return max(memory, arithmetic) + card.beta * min(memory, arithmetic)


def memory_seconds(work: Work, card: Card, cached: float = 0.0) -> float:
    """Seconds to move the bytes; too few programs do not draw the full bandwidth."""
    from_l2 = min(cached, work.read) if card.l2_gbs else 0.0
    moved = (work.read + work.write - from_l2) / (card.dram_gbs * 1e9)
    if from_l2:
        moved += from_l2 / (card.l2_gbs * 1e9)
    share = min(1.0, work.tiles / (DRAWN_BY * card.sms)) if work.tiles else 1.0
    return moved / share


def arithmetic_seconds(work: Work, card: Card, precision: str = "highest") -> float:
    """Seconds to compute, in whole waves: the last takes as long as a full one."""
    waves = math.ceil(work.tiles / card.sms) * card.sms / work.tiles if work.tiles else 1.0
    return work.flops * waves / card.rate(work.engine, work.dtype, precision)


@dataclass(frozen=True)
class Burden:
    """What a program costs besides its latency, in seconds that one is ready to give for it.

    C = launch * kernels started + copied * bytes of copies + spilled * bytes of register spills
        + peak * peak bytes.

    The weights are a choice, not a measurement: one microsecond for a launch, and for a megabyte
    of anything else. Spills are known once kernels are assembled: they count for whole plans, where
    lam is not 0, and never for the nodes of an e-graph.
    """

    launch: float = 1e-6
    copied: float = 1e-12
    spilled: float = 1e-12
    peak: float = 1e-12

    def seconds(
        self, launches: float = 0, copied: float = 0, spilled: float = 0, peak: float = 0
    ) -> float:
        """C, in seconds."""
        parts = (launches * self.launch, copied * self.copied, spilled * self.spilled)
        return sum(parts) + peak * self.peak


BURDEN = Burden()


@dataclass(frozen=True)
class PlanPrice(Price):
    """A plan's price with the bytes that its copies move and that its kernels spill, and its
    objective in seconds."""

    copied: float = 0.0
    spilled: float = 0.0
    objective: float = 0.0


def objective(price: Price, lam: float, burden: Burden = BURDEN) -> float:
    """latency + lam * C, in seconds: what extraction makes small. lam = 0 is pure latency."""
    copied, spilled = 0.0, 0.0
    if isinstance(price, PlanPrice):
        copied, spilled = price.copied, price.spilled
    burdens = burden.seconds(price.launches, copied, spilled, price.peak_bytes)
    return price.seconds + lam * burdens
