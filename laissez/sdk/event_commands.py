"""`laissez events`: a stream of the feed, read again or followed."""

import time
from collections.abc import Iterator

import click

from laissez.sdk import terminal
from laissez.sdk.client import Client, JsonObject
from laissez.sdk.session import Session, session_command

FOLLOW_SECONDS = 1.0
PAGE = 500
LINE = "{sequence:>7}  {time}  {word:<30}  {subject}{said}"
SAID = ("state", "reason", "price_per_hour", "units_free", "accelerator_type", "max_price_per_hour", "detail")
"""Members of an event's data that its line shows, as far as it has them."""


@click.command("events")
@click.argument("stream")
@click.option("--after", type=click.IntRange(min=0), help="Begin behind this event; else with the oldest one kept.")
@click.option("--follow", "-f", is_flag=True, help="Go on until interrupted.")
@session_command
def events(session: Session, stream: str, after: int | None, follow: bool) -> None:
    """The events of STREAM, oldest first: market:CLUSTER, job:ID or tenant:ID."""
    for event in read(session.client, stream, after, follow=follow):
        if session.out.as_json:
            session.out.json(event)
        else:
            click.echo(event["sequence"] if session.out.quiet else line(event))


def read(client: Client, stream: str, after: int | None, *, follow: bool) -> Iterator[JsonObject]:
    """Envelopes behind a number, page by page; with `follow` for ever, one look a second."""
    while True:
        page = client.events(stream, after=after, limit=PAGE)
        yield from page["items"]
        if page["items"]:
            after = int(page["items"][-1]["sequence"])
        elif after is None:
            after = int(page["last"])
        if after >= int(page["last"]):
            if not follow:
                return
            time.sleep(FOLLOW_SECONDS)


def line(event: JsonObject) -> str:
    """An event in a line: its number, when, what, about what, and the most telling of its figures."""
    data = event.get("data") or {}
    said = [f"{name}={terminal.plain(data[name])}" for name in SAID if data.get(name) not in (None, "")]
    word = str(event["type"]).removeprefix("org.").removesuffix(".v1")
    return LINE.format(
        sequence=event["sequence"],
        time=terminal.instant(event["time"]),
        word=terminal.plain(word.removeprefix("laissez.")),
        subject=terminal.plain(event.get("subject", "")),
        said="".join(f"  {each}" for each in said),
    )
