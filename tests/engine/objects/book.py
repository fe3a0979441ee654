"""The book as values in tuples; see markets.engine.book for what they mean."""

from dataclasses import dataclass

from markets.engine.book import Offer, Participant, Row, participant_of, source_participant_of

__all__ = ["Book", "Offer", "Participant", "Row", "participant_of", "source_participant_of"]


@dataclass(frozen=True, slots=True)
class Book:
    """Offers, one per type, and participants with distinct ids. The order of either means nothing."""

    offers: tuple[Offer, ...]
    participants: tuple[Participant, ...]
