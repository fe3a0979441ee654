"""`laissez token`: the tenant's tokens from the command line. A new one's secret is printed once and kept nowhere."""

import click

from laissez.sdk import terminal
from laissez.sdk.client import JsonObject
from laissez.sdk.session import Session, session_command

COLUMNS = [
    terminal.field("token"),
    terminal.field("name"),
    terminal.field("prefix"),
    terminal.field("state"),
    terminal.field("scopes", None, lambda scopes: " ".join(map(terminal.plain, scopes))),
    terminal.field("expires_at", "ends", terminal.instant),
    terminal.field("last_used_at", "last used", terminal.instant),
]


@click.group()
def token() -> None:
    """Make, roll and revoke tokens; needs a token with the scope tokens:write."""


@token.command("list")
@session_command
def token_list(session: Session) -> None:
    """All tokens, newest first."""
    session.out.items(session.client.tokens(), COLUMNS, key="token", empty="No tokens.")


@token.command("create")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, help="What it may do; again for more. Else all but tokens:write.")
@click.option("--days", type=click.IntRange(1, 366), help="Its life; 90 days, or as long as your own token lives.")
@session_command
def token_create(session: Session, name: str, scopes: tuple[str, ...], days: int | None) -> None:
    """Make a token called NAME, which can do no more than your own."""
    show(session, session.client.make_token(name, scopes=list(scopes) or None, days=days))


@token.command("roll")
@click.argument("token_id", metavar="TOKEN")
@click.option("--hours", type=click.IntRange(1, 168), help="When the old one ends; 24 hours from now.")
@session_command
def token_roll(session: Session, token_id: str, hours: int | None) -> None:
    """Make a new token in the place of TOKEN, which ends some hours later."""
    show(session, session.client.roll_token(token_id, hours=hours))


@token.command("revoke")
@click.argument("token_id", metavar="TOKEN")
@click.option("--reason", help="Stands in the audit trail.")
@click.confirmation_option("--yes", prompt="Whoever uses it is refused at once. Revoke it for good?")
@session_command
def token_revoke(session: Session, token_id: str, reason: str | None) -> None:
    """End TOKEN for ever."""
    ended = session.client.revoke_token(token_id, reason=reason)
    session.out.item(ended, key="token", text=f"{ended['token']} is revoked")


def show(session: Session, made: JsonObject) -> None:
    """A new token: its secret on standard output, the rest beside it."""
    secret = made.get("secret")
    if secret is None:
        session.out.note(f"{made['token']} was made before and its secret is gone; roll it to get another.")
    else:
        session.out.note(f"{made['token']} ends {terminal.instant(made['expires_at'])}. It is shown this once:")
    session.out.item(made, key="token", text=str(secret or made["token"]))
