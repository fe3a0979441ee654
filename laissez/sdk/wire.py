"""Strict reading of JSON objects: a wrong, missing or unknown member is an error that names it."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import TypeVar

Value = TypeVar("Value")
_REQUIRED = object()
MAX_PRICE_PER_HOUR = 1_000_000
PRICE_DECIMALS = 6


class Members:
    """The members of one JSON object, each to be taken once; `done` refuses what nobody took.

    Every error is a ValueError that starts with the member's path, such as `context.notice.reason`.
    """

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise ValueError(f"{path}: expected an object, got {_short(value)}")
        self._rest: dict[str, object] = dict(value)
        self._path = path

    def text(self, name: str, *, default: object = _REQUIRED) -> str:
        """Take a string."""
        return self._take(name, default, _text)

    def optional_text(self, name: str) -> str | None:
        """Take a string or null; null where it is missing."""
        return self._take(name, None, lambda value: None if value is None else _text(value))

    def choice(self, name: str, allowed: Iterable[str], *, default: object = _REQUIRED) -> str:
        """Take one of the allowed words."""
        words = sorted(allowed)

        def read(value: object) -> str:
            if not isinstance(value, str) or value not in words:
                raise ValueError(f"expected one of {', '.join(words)}, got {_short(value)}")
            return value

        return self._take(name, default, read)

    def flag(self, name: str, *, default: object = _REQUIRED) -> bool:
        """Take true or false."""
        return self._take(name, default, _flag)

    def count(self, name: str) -> int:
        """Take a whole number of at least zero."""
        return self._take(name, _REQUIRED, _count)

    def number(self, name: str) -> Decimal:
        """Take a finite number of at least zero, or the decimal text of one."""
        return self._take(name, _REQUIRED, read_number)

    def optional_number(self, name: str) -> Decimal | None:
        """Take a number or null; null where it is missing."""
        return self._take(name, None, lambda value: None if value is None else read_number(value))

    def price(self, name: str) -> Decimal:
        """Take a price: decimal text above zero with at most six decimals."""
        return self._take(name, _REQUIRED, read_price)

    def optional_price(self, name: str) -> Decimal | None:
        """Take a price or null; null where it is missing."""
        return self._take(name, None, lambda value: None if value is None else read_price(value))

    def read(self, name: str, reader: Callable[[object, str], Value], *, default: object = _REQUIRED) -> Value:
        """Take a member through a reader that is given the value and its path."""
        path = f"{self._path}.{name}"
        value = self._rest.pop(name, default)
        if value is _REQUIRED:
            raise ValueError(f"{path}: is missing")
        return reader(value, path)

    def done(self) -> None:
        """ValueError if a member was left over."""
        for name in sorted(self._rest):
            raise ValueError(f"{self._path}.{name}: is not known here")

    def _take(self, name: str, default: object, reader: Callable[[object], Value]) -> Value:
        def named(value: object, path: str) -> Value:
            try:
                return reader(value)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None

        return self.read(name, named, default=default)


def read_list(value: object, path: str, reader: Callable[[object, str], Value]) -> tuple[Value, ...]:
    """Read a JSON array, each item with its own path."""
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{path}: expected an array, got {_short(value)}")
    return tuple(reader(item, f"{path}[{place}]") for place, item in enumerate(value))


def read_mapping(value: object, path: str, reader: Callable[[object, str], Value]) -> dict[str, Value]:
    """Read a JSON object whose members are all of one kind."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"{path}: expected an object, got {_short(value)}")
    return {name: reader(item, f"{path}.{name}") for name, item in value.items()}


def read_number(value: object) -> Decimal:
    """Read a finite number of at least zero from a JSON number or decimal text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise ValueError(f"expected a number, got {_short(value)}")
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    except InvalidOperation:
        raise ValueError(f"expected a number, got {_short(value)}") from None
    if not number.is_finite() or number < 0:
        raise ValueError(f"expected a finite number of at least 0, got {_short(value)}")
    return number


def read_price(value: object) -> Decimal:
    """Read a price per hour from decimal text; JSON numbers are refused, since they are floats elsewhere."""
    if not isinstance(value, (str, Decimal)):
        raise ValueError(f"expected a price as decimal text, got {_short(value)}")
    price = read_number(value)
    if not 0 < price <= MAX_PRICE_PER_HOUR or int(price.as_tuple().exponent) < -PRICE_DECIMALS:
        raise ValueError(
            f"expected a price above 0, up to {MAX_PRICE_PER_HOUR}, with at most {PRICE_DECIMALS} decimals"
        )
    return price


def price_text(price: Decimal) -> str:
    """Write a price per hour with six decimals."""
    return f"{price:.6f}"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {_short(value)}")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, got {_short(value)}")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"expected a whole number of at least 0, got {_short(value)}")
    return value


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
