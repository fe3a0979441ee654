"""What every command of the command line shares: common options, the server it talks to, and how failures end it."""

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec

import click

from laissez.sdk import jobfile, profiles, terminal
from laissez.sdk.client import Client, LaissezError, NotAuthenticated

JOB_FAILED, USAGE, TIMED_OUT = 1, 2, 9

P = ParamSpec("P")


class TimedOut(LaissezError):
    """The wait was given up; the job goes on."""

    exit_code = TIMED_OUT


@dataclass(frozen=True, slots=True)
class Session:
    """What a command works with: the server it talks to and the form of its answer."""

    client: Client
    profile: profiles.Profile
    out: terminal.Output


def connect(profile: profiles.Profile) -> Client:
    """The client of a profile. (A seam: tests put a fake server behind it.)"""
    return Client(profile.url, profile.token)


def session_command(command: Callable[Concatenate[Session, P], None]) -> Callable[..., None]:
    """Gives a command the common options and a session, and turns failures into a sentence and an exit code."""

    @click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
    @click.option("--quiet", "-q", is_flag=True, help="Ids only.")
    @click.option("--profile", "name", help="Which stored server to talk to.")
    @click.option("--url", help="The server's address, for once.")
    @functools.wraps(command)
    def run(as_json: bool, quiet: bool, name: str | None, url: str | None, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            profile = profiles.choose(os.environ, name=name, url=url)
            with connect(profile) as client:
                command(Session(client, profile, terminal.Output(as_json, quiet)), *args, **kwargs)
        except profiles.ProfileError as error:
            fail(str(error), USAGE)
        except jobfile.JobFileError as error:
            fail(str(error), USAGE)
        except LaissezError as error:
            fail(explained(error), error.exit_code)

    return run


def fail(text: str, exit_code: int) -> None:
    """Says why on standard error, and ends."""
    click.echo(f"laissez: {text}", err=True)
    sys.exit(exit_code)


def explained(error: LaissezError) -> str:
    """The failure, and what to do about it where that is known."""
    if isinstance(error, NotAuthenticated) and error.status == 401:
        return f"{error}\n  run `laissez login --url ... --token ...`, or set LAISSEZ_TOKEN"
    return str(error)
