"""Events for tests: told on any stream, in transactions of their own."""

from laissez.events import Outbox, transact

NOTED = "org.laissez.test.noted.v1"
PRICED = "org.laissez.test.priced.v1"


def tell(stream: str, *numbers: int, type_: str = NOTED, subject: str = "it") -> None:
    """One transaction with an event for each number."""

    def work(outbox: Outbox) -> None:
        for number in numbers:
            outbox.add(stream, type_, subject, {"n": number})

    transact(work)
