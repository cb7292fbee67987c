"""Cost models: a card's figures, and the seconds that nodes and plans take on it."""

from superopt.cost.card import Card, card_names, detect_card, load_card
from superopt.cost.nodes import NodePricer, constant_classes
from superopt.cost.plan import peak_bytes, price_plan, work_of
from superopt.cost.price import Burden, PlanPrice, objective, seconds

__all__ = [
    "Burden",
    "Card",
    "NodePricer",
    "PlanPrice",
    "card_names",
    "constant_classes",
    "detect_card",
    "load_card",
    "objective",
    "peak_bytes",
    "price_plan",
    "seconds",
    "work_of",
]
