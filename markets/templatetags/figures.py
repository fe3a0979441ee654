"""How figures look on pages: money with its time unit, times with their zone, ages in words. Unknown is a dash."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from laissez import zones
from markets.engine.money import MICRO_PER_DOLLAR, parse_price
from markets.views import replay

register = template.Library()

UNKNOWN = "—"
MINUS = "\N{MINUS SIGN}"
SHOWN = Decimal("0.0001")
SPARK_WIDTH, SPARK_HEIGHT = 96, 24


@register.filter
def dollars(amount: int | None) -> str:
    """Micro-dollars as dollars with four decimals. What a template does not find is an empty text: unknown too."""
    if not isinstance(amount, int):
        return UNKNOWN
    value = (Decimal(amount) / MICRO_PER_DOLLAR).quantize(SHOWN, ROUND_HALF_EVEN)
    return f"{MINUS if value < 0 else ''}${abs(value):,}"


@register.filter
def per_hour(price: int | None) -> str:
    """Micro-dollars per accelerator-hour as a price: `$0.6870/h`."""
    return f"{dollars(price)}/h" if isinstance(price, int) else UNKNOWN


@register.filter
def signed_per_hour(price: int | None) -> str:
    """A difference of prices with its sign."""
    return f"+{per_hour(price)}" if isinstance(price, int) and price > 0 else per_hour(price)


@register.filter
def percent(fraction: float | None) -> str:
    """A fraction as a percentage with one decimal, none where it is whole."""
    return UNKNOWN if fraction is None else f"{round(fraction * 100, 1):g} %"


@register.filter
def duration(span: timedelta | float | None) -> str:
    """A span of time, or of seconds, in words short enough for a table."""
    if span is None:
        return UNKNOWN
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if abs(seconds) < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 2 * 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} days"


@register.simple_tag
def moment(at: datetime | None, now: datetime | None = None) -> SafeString | str:
    """A point in time in the reader's zone: the time alone on the day of `now` there, otherwise with the date."""
    if at is None:
        return UNKNOWN
    there = timezone.localtime(at)
    shape = "%H:%M:%S" if now is not None and timezone.localtime(now).date() == there.date() else "%d %b %Y %H:%M:%S"
    return _time(at, f"{there.strftime(shape)} {zones.offset(at)}", "%d %b %Y %H:%M:%S.%f")


@register.simple_tag
def since(moment: datetime | None, now: datetime) -> SafeString | str:
    """How long ago a moment was, with the moment itself on hover."""
    if moment is None:
        return UNKNOWN
    return _time(moment, duration(max(timedelta(0), now - moment)), "%d %b %Y %H:%M:%S")


@register.simple_tag
def clock_time(at: datetime) -> str:
    """A time of day as plain text, for attributes: `19:32:11 +05:30`."""
    return f"{timezone.localtime(at):%H:%M:%S} {zones.offset(at)}"


@register.simple_tag
def offset(at: datetime) -> str:
    """The reader's distance from UTC at that time: `+05:30`, or `UTC`."""
    return zones.offset(at)


def _time(at: datetime, text: str, shape: str) -> SafeString:
    title = f"{timezone.localtime(at).strftime(shape)} {zones.offset(at)}"
    return format_html('<time datetime="{}" title="{}">{}</time>', at.astimezone(UTC).isoformat(), title, text)


@register.filter
def words(name: str | None) -> str:
    """A name of the program's as words: `host_lost` as `host lost`."""
    return str(name or "").replace("_", " ")


@register.simple_tag
def sparkline(points: Sequence[int]) -> SafeString:
    """Prices in order, in micro-dollars per hour, as a small step line with the same in words."""
    lowest, highest = min(points), max(points)
    span = (highest - lowest) or 1
    width = SPARK_WIDTH / len(points)
    heights = [SPARK_HEIGHT - 2 - (SPARK_HEIGHT - 4) * (point - lowest) / span for point in points]
    line = " ".join(f"{width * n:.1f},{y:.1f} {width * (n + 1):.1f},{y:.1f}" for n, y in enumerate(heights))
    said = (
        f"steady at {per_hour(lowest)}" if lowest == highest else f"between {per_hour(lowest)} and {per_hour(highest)}"
    )
    return format_html(
        '<svg class="spark" viewBox="0 0 {} {}" role="img" aria-label="{}"><polyline points="{}"/></svg>',
        SPARK_WIDTH,
        SPARK_HEIGHT,
        said,
        line,
    )


@register.filter
def dollar_text(price: str | None) -> str:
    """A price that is text already, as receipts and bids have it, as every other price looks; other words stay."""
    if price is None:
        return UNKNOWN
    try:
        return per_hour(parse_price(price))
    except ValueError:
        return price  # `cap`, or what somebody's agent said instead of a price


@register.filter
def minutes(instant: int) -> str:
    """A simulation's instant as minutes and seconds: `6:54`."""
    return replay.minutes(instant)


@register.filter
def application(name: str) -> str:
    """How a simulated application is called: `App B`."""
    return replay.title(name)
