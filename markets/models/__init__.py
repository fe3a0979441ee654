"""Rows of the market half: what was bid, what the price setter said, who has won, and what it costs."""

from markets.models.book import Award, Bid, CoolDown, FloorChange, Notice
from markets.models.exchange import BillingSlice, Clearing, PriceChange, Quote, Role, Supply

__all__ = [
    "Award",
    "Bid",
    "BillingSlice",
    "Clearing",
    "CoolDown",
    "FloorChange",
    "Notice",
    "PriceChange",
    "Quote",
    "Role",
    "Supply",
]
