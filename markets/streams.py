"""The streams of the market: a cluster's, for everybody as far as it is public, and a job's, for its holder."""

from django.conf import settings

from laissez.errors import NotFound
from laissez.feed.folding import Entities
from laissez.feed.streams import Reader, StreamKind, register
from markets.models import Award, Bid, Notice
from markets.selectors import exchange
from markets.selectors import rows as book
from workers.models import Checkpoint, Cluster, Job, Lease, Migration
from workers.selectors import rows as floor


def admit_market(reader: Reader, name: str) -> None:
    """A cluster's, with `prices:read`; for operators, and while it is public for whoever acts for no tenant."""
    is_public = settings.PUBLIC_MARKET and reader.tenant is None
    if not reader.is_operator and not is_public:
        reader.needs("prices:read")
    if not Cluster.objects.filter(slug=_rest(name)).exists():
        raise NotFound("stream")


def market_snapshot(name: str) -> Entities:
    """The exchange, the changes of prices that are announced, and the cluster."""
    cluster = Cluster.objects.filter(slug=_rest(name)).first()
    return {} if cluster is None else exchange.entities(cluster)


def admit_job(reader: Reader, name: str) -> None:
    """One of the reader's own jobs; somebody else's is no such stream."""
    reader.needs("jobs:read")
    if not Job.objects.filter(public_id=_rest(name), tenant__public_id=reader.tenant).exists():
        raise NotFound("stream")


def job_snapshot(name: str) -> Entities:
    """The job, its history of leases, moves and checkpoints, and what is open of bids, awards and notices."""
    job = Job.objects.filter(public_id=_rest(name)).select_related("cluster").first()
    if job is None:
        return {}
    bids = Bid.objects.filter(job=job, closed_at=None).select_related("type")
    awards = Award.objects.filter(job=job, state=Award.State.WAITING).select_related("type", "lease")
    notices = Notice.objects.filter(job=job, state=Notice.State.OPEN).select_related("lease__type")
    leases = Lease.objects.filter(job=job).select_related("type")
    moves = Migration.objects.filter(job=job).select_related("source__type", "destination__type", "checkpoint")
    checkpoints = Checkpoint.objects.filter(job=job).select_related("lease__type")
    return {
        "job": {job.public_id: floor.job(job)},
        "bid": {row.public_id: book.bid(row) for row in bids.order_by("position")},
        "award": {row.public_id: book.award(row) for row in awards},
        "notice": {row.public_id: book.notice(row) for row in notices},
        "lease": {row.public_id: floor.lease(row) for row in leases.order_by("id")},
        "migration": {row.public_id: floor.migration(row) for row in moves.order_by("id")},
        "checkpoint": {row.public_id: floor.checkpoint(row) for row in checkpoints.order_by("id")},
    }


def _rest(name: str) -> str:
    return name.partition(":")[2]


register(
    [
        StreamKind("market:", admit=admit_market, snapshot=market_snapshot),
        StreamKind("job:", admit=admit_job, snapshot=job_snapshot),
    ]
)
