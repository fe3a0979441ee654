"""The `laissez` command: a noun and a verb for every act that the API offers a tenant.

Exit codes: 0 ok, 1 the job failed, 2 usage, 3 not authenticated, 4 not found, 5 conflict, 6 rate-limited, 7 funds or
budget, 8 unavailable, 9 timed out.
"""

import os
import platform
import stat
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from laissez.sdk import archive, bid_commands, event_commands, jobfile, pages, profiles, token_commands
from laissez.sdk.client import Client, JsonObject, LaissezError, NotAuthenticated
from laissez.sdk.session import JOB_FAILED, USAGE, Session, TimedOut, connect, explained, fail, session_command

ENDED_WELL = {"succeeded"}
ENDED_BADLY = {"failed", "cancelled", "expired", "stopped"}
POLL_SECONDS = 0.5


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Submit jobs to a market of accelerators, and follow them."""


@cli.group()
def job() -> None:
    """Submit, watch and steer jobs."""


@cli.group()
def market() -> None:
    """Look at prices and free units."""


# Market


@market.command("show")
@click.argument("cluster", required=False)
@session_command
def market_show(session: Session, cluster: str | None) -> None:
    """The exchange of CLUSTER, or of every cluster: prices per accelerator-hour and units."""
    names = [cluster] if cluster else session.client.clusters()
    if not names and not session.out.as_json:
        click.echo("There is no cluster yet; an operator has to make one.")
    for name in names:
        exchange = session.client.market(name)
        if session.out.as_json:
            session.out.json(exchange)
            continue
        if not session.out.quiet:
            click.echo(pages.market_title(exchange))
        session.out.items(
            exchange["types"], pages.MARKET_COLUMNS, key="accelerator_type", empty="No accelerator type yet."
        )


@market.command("history")
@click.argument("cluster")
@click.argument("accelerator_type", metavar="TYPE")
@click.option("--from", "since", metavar="TIME", help="RFC 3339, such as 2026-11-29T16:00:00Z; a day before the end.")
@click.option("--to", "until", metavar="TIME", help="RFC 3339; now unless given.")
@click.option("--limit", type=click.IntRange(2, 2000), help="At most so many points; lows and highs are kept.")
@session_command
def market_history(
    session: Session, cluster: str, accelerator_type: str, since: str | None, until: str | None, limit: int | None
) -> None:
    """The prices of TYPE in CLUSTER over time, each in force until the next; a dash where nothing is known."""
    given = {"from": since, "to": until, "limit": limit}
    query = {name: str(value) for name, value in given.items() if value is not None}
    points = session.client.history(cluster, accelerator_type, **query)["points"]
    session.out.items(points, pages.HISTORY_COLUMNS, key="at", empty="Nothing is known of that time.")


@market.command("receipt")
@click.argument("cluster")
@click.argument("number", type=click.IntRange(0))
@session_command
def market_receipt(session: Session, cluster: str, number: int) -> None:
    """The receipt NUMBER of CLUSTER: what set each price at one recorded clearing."""
    receipt = session.client.receipt(cluster, number)
    session.out.item(receipt, key="number", text=pages.receipt_text(receipt))


# Jobs


@job.command("submit")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), default="job.yaml")
@click.option("--wait", is_flag=True, help="Stay until the job ends; exit code 1 when it fails.")
@click.option("--timeout", type=click.FloatRange(min=0), help="Give up waiting after so many seconds (exit code 9).")
@click.option("--dry-run", is_flag=True, help="Have everything checked and estimated; write nothing.")
@click.option("--idempotency-key", help="Your own key: the same key never submits twice.")
@session_command
def job_submit(
    session: Session, file: Path, wait: bool, timeout: float | None, dry_run: bool, idempotency_key: str | None
) -> None:
    """Pack the directory that FILE (job.yaml) names, upload it, and submit the job."""
    described = jobfile.load(file)
    archives = {place: archive.pack(directory) for place, directory in described.directories.items()}
    uploaded = {} if dry_run else upload(session.client, archives)
    body = described.with_artifacts(uploaded)
    submitted = session.client.submit(body, dry_run=dry_run, idempotency_key=idempotency_key)
    session.out.item(submitted, key="job", text=pages.submission_text(submitted, dry_run=dry_run))
    if wait and not dry_run:
        wait_for_end(session, str(submitted["job"]), timeout)


def upload(client: Client, archives: dict[int | None, bytes]) -> dict[int | None, str]:
    """Sends what was packed; the artefact ids for each part of the job."""
    return {place: str(client.upload(packed)["artifact"]) for place, packed in archives.items()}


@job.command("wait")
@click.argument("job_id", metavar="JOB")
@click.option("--timeout", type=click.FloatRange(min=0), help="Give up after so many seconds (exit code 9).")
@session_command
def job_wait(session: Session, job_id: str, timeout: float | None) -> None:
    """Stay until JOB ends; exit code 1 unless it succeeds."""
    wait_for_end(session, job_id, timeout)


def wait_for_end(session: Session, job_id: str, timeout_seconds: float | None) -> None:
    """Follows the job's explanation on standard error; returns when it succeeded, else ends the command."""
    give_up_at = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    said = ""
    while True:
        shown = session.client.job(job_id)
        sentence = pages.state_line(shown)
        if sentence != said:
            session.out.note(sentence)
            said = sentence
        if shown["state"] in ENDED_WELL:
            return
        if shown["state"] in ENDED_BADLY:
            fail(f"{job_id}: {sentence}", JOB_FAILED)
        if give_up_at is not None and time.monotonic() >= give_up_at:
            raise TimedOut(f"{job_id} is still {shown['state']}; it goes on, only the wait ended")
        time.sleep(POLL_SECONDS)


@job.command("list")
@click.option("--state", help="Only jobs in this state.")
@session_command
def job_list(session: Session, state: str | None) -> None:
    """All your jobs, newest first."""
    jobs = (found for found in session.client.jobs() if state is None or found["state"] == state)
    session.out.items(jobs, pages.LIST_COLUMNS, key="job", empty="No jobs. Submit one: laissez job submit job.yaml")


@job.command("show")
@click.argument("job_id", metavar="JOB")
@session_command
def job_show(session: Session, job_id: str) -> None:
    """One job: why it is where it is, its launch table, leases, moves and checkpoints."""
    shown = session.client.job(job_id)
    session.out.item(shown, key="job", text=pages.job_text(shown))


@job.command("logs")
@click.argument("job_id", metavar="JOB")
@click.option("--follow", "-f", is_flag=True, help="Go on until the job ends.")
@click.option("--after", type=int, default=0, help="Begin behind this position.")
@session_command
def job_logs(session: Session, job_id: str, follow: bool, after: int) -> None:
    """What JOB's processes wrote, in the order in which it arrived."""
    while True:
        ended = not follow or session.client.job(job_id)["state"] in ENDED_WELL | ENDED_BADLY
        page = session.client.logs(job_id, after=after)
        for piece in page["items"]:
            write_log(session, piece)
        if page["items"] and page["next"] != after:
            after = page["next"]
        elif ended:
            return
        else:
            time.sleep(POLL_SECONDS)


def write_log(session: Session, piece: JsonObject) -> None:
    """A piece of log: the workload's errors go to standard error, all else to standard output."""
    if session.out.as_json:
        session.out.json(piece)
    else:
        click.echo(piece["text"], nl=False, err=piece["stream"] == "stderr")


def act(name: str, help_text: str, call: Callable[[Client, str], JsonObject]) -> None:
    """Registers a verb that takes job ids and does one thing to each."""

    @job.command(name, help=help_text)
    @click.argument("job_ids", metavar="JOB...", nargs=-1, required=True)
    @session_command
    def run(session: Session, job_ids: tuple[str, ...]) -> None:
        for job_id in job_ids:
            answer = {"job": job_id, **call(session.client, job_id)}
            session.out.item(
                answer,
                key="job",
                text=f"{job_id} {pages.state_line(answer)}" if "state" in answer else f"{job_id}: {name} asked for",
            )


act("cancel", "End JOB for good, whatever its state.", Client.cancel)
act("stop", "Save JOB's state and stop it; `resume` continues it.", Client.stop)
act("resume", "Put a stopped JOB back into the queue with its saved state.", Client.resume)
act("checkpoint", "Ask the running JOB for a checkpoint now.", Client.checkpoint)


@job.command("migrate")
@click.argument("job_id", metavar="JOB")
@click.option("--moment", type=click.Choice(["now", "checkpoint"]), default="checkpoint", show_default=True)
@session_command
def job_migrate(session: Session, job_id: str, moment: str) -> None:
    """Move JOB to what it has been awarded, now or at its next checkpoint."""
    answer = {"job": job_id, **session.client.migrate(job_id, moment=moment)}
    session.out.item(answer, key="job", text=f"{job_id} moves: {moment}")


@job.command("bids")
@click.argument("job_id", metavar="JOB")
@click.option("--set", "changes", multiple=True, metavar="TYPE=PRICE", help="A new max price per hour, or cap.")
@click.option("--keep", "keeps", multiple=True, metavar="TYPE=PRICE", help="A new keep price per hour.")
@click.option("--add", "added", multiple=True, metavar="TYPE=PRICE", help="A further row, below the others.")
@click.option("--drop", "dropped", multiple=True, metavar="TYPE", help="A row to leave out.")
@session_command
def job_bids(
    session: Session,
    job_id: str,
    changes: tuple[str, ...],
    keeps: tuple[str, ...],
    added: tuple[str, ...],
    dropped: tuple[str, ...],
) -> None:
    """Show JOB's launch table, or change it."""
    rows = session.client.job(job_id)["rows"]
    if changes or keeps or added or dropped:
        changed = changed_rows(rows, pairs(changes), pairs(keeps), dropped)
        changed += [{"accelerator_type": kind, "max_price_per_hour": price} for kind, price in pairs(added).items()]
        rows = session.client.rebid(job_id, changed).get("rows", changed)
    session.out.items(rows, pages.ROW_COLUMNS, key="accelerator_type", empty="No open bids.")


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """TYPE=PRICE pairs, with the prices checked."""
    found = {}
    for text in texts:
        kind, sign, value = text.partition("=")
        try:
            found[kind] = value if value == "cap" else str(jobfile.parse_price(value))
        except ValueError as error:
            raise click.BadParameter(f"{kind}: {error}") from None
        if not sign:
            raise click.BadParameter(f"{text} is not TYPE=PRICE")
    return found


def changed_rows(
    rows: list[JsonObject], maxima: dict[str, str], keeps: dict[str, str], dropped: tuple[str, ...]
) -> list[JsonObject]:
    """The table as the API takes it, with changed prices and without dropped rows. Raises for a type without a row."""
    missing = (maxima.keys() | keeps.keys() | set(dropped)) - {row["accelerator_type"] for row in rows}
    if missing:
        raise click.BadParameter(f"the job's table has no row for {', '.join(sorted(missing))}")
    return [
        {
            "accelerator_type": row["accelerator_type"],
            "max_price_per_hour": maxima.get(row["accelerator_type"], row["max_price_per_hour"]),
            "keep_price_per_hour": keeps.get(row["accelerator_type"], row.get("keep_price_per_hour")),
        }
        for row in rows
        if row["accelerator_type"] not in dropped
    ]


# Bids of many jobs


cli.add_command(bid_commands.bids)


# Tokens


cli.add_command(token_commands.token)


# Events


cli.add_command(event_commands.events)


# Around it


@cli.command()
@click.option("--url", required=True, help="The server's address, such as http://127.0.0.1:8000.")
@click.option("--token", prompt=True, hide_input=True, help="lz_live_...; asked for when left out.")
@click.option("--profile", "name", default=profiles.DEFAULT_PROFILE, show_default=True)
@click.option("--no-verify", is_flag=True, help="Store without asking the server.")
def login(url: str, token: str, name: str, no_verify: bool) -> None:
    """Store a server's address and your token, readable by you alone."""
    profile = profiles.Profile(url=url.rstrip("/"), token=token.strip())
    path = profiles.config_path(os.environ)
    try:
        if not no_verify:
            with connect(profile) as client:
                check_accepted(client)
        profiles.write(path, name, profile)
    except profiles.ProfileError as error:
        fail(str(error), USAGE)
    except LaissezError as error:
        fail(f"{error}\n  nothing was stored (--no-verify stores without asking the server)", error.exit_code)
    click.echo(f"Stored profile {name} for {profile.url} in {path}.")


@cli.command()
@session_command
def doctor(session: Session) -> None:
    """Check what the command needs, and say what to do where it is missing."""
    worst = 0
    for name, check in (
        ("settings", check_settings),
        ("server", check_server),
        ("token", check_token),
        ("market", check_market),
    ):
        try:
            result = {"check": name, "ok": True, "detail": check(session)}
        except LaissezError as error:
            result = {"check": name, "ok": False, "detail": explained(error)}
            worst = worst or error.exit_code
        session.out.item(
            result, key="check", text=f"{'ok     ' if result['ok'] else 'PROBLEM'}  {name}: {result['detail']}"
        )
    if worst:
        sys.exit(worst)


def check_settings(session: Session) -> str:
    """The profile file is private."""
    path = profiles.config_path(os.environ)
    if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise LaissezError(f"{path} can be read by others; run: chmod 600 {path}")
    return f"laissez {own_version()}, Python {platform.python_version()}, talking to {session.profile.url}"


def check_server(session: Session) -> str:
    """The server answers."""
    session.client.alive()
    return "answers"


def check_token(session: Session) -> str:
    """The token is accepted."""
    check_accepted(session.client)
    return "accepted"


def check_accepted(client: Client) -> None:
    """Raises where the token is not known; one that may not see jobs is still a good one."""
    try:
        next(client.jobs(), None)
    except NotAuthenticated as error:
        if "scope_missing" not in error.codes:
            raise


def check_market(session: Session) -> str:
    """Every cluster has ticked lately."""
    stale = [name for name in session.client.clusters() if session.client.market(name).get("stale")]
    if stale:
        raise LaissezError(f"no tick for a while in {', '.join(stale)}: prices are frozen, the operator has to look")
    return "ticking"


def own_version() -> str:
    """The installed version of this distribution."""
    try:
        return installed_version("laissez")
    except PackageNotFoundError:
        return "(not installed)"


@cli.command()
def version() -> None:
    """The installed version."""
    click.echo(f"laissez {own_version()}")


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print SHELL's completion script, e.g. for bash: eval "$(laissez completion bash)"."""
    kind = get_completion_class(shell)
    if kind is None:
        fail(f"no completion for {shell}", USAGE)
    else:
        click.echo(kind(cli, {}, "laissez", "_LAISSEZ_COMPLETE").source())


def main() -> None:
    """The entry point of the `laissez` command."""
    cli(prog_name="laissez")
