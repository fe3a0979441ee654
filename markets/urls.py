"""The market's addresses."""

from django.urls import path

from markets import api
from markets.views import job_form, jobs, market

urlpatterns = [
    path("api/v1/markets", api.MarketsView.as_view()),
    path("api/v1/markets/<slug:cluster>", api.MarketView.as_view()),
    path("api/v1/jobs", api.JobsView.as_view()),
    path("api/v1/jobs/<str:job>", api.JobView.as_view()),
    path("api/v1/jobs/<str:job>/bids", api.BidsView.as_view()),
    path("api/v1/jobs/<str:job>/cancel", api.CancelView.as_view()),
    path("api/v1/jobs/<str:job>/stop", api.StopView.as_view()),
    path("api/v1/jobs/<str:job>/resume", api.ResumeView.as_view()),
    path("api/v1/jobs/<str:job>/checkpoint", api.CheckpointView.as_view()),
    path("api/v1/jobs/<str:job>/migrate", api.MigrateView.as_view()),
    path("api/v1/host/leases/<str:lease>/context", api.HostContextView.as_view()),
    path("api/v1/host/leases/<str:lease>/decision", api.HostDecisionView.as_view()),
    path("", market.landing, name="landing"),
    path("market/", market.markets, name="markets"),
    path("market/<slug:cluster>", market.market, name="market"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/new", job_form.new, name="new_job"),
    path("jobs/new/check", job_form.check, name="check_job"),
    path("jobs/<str:job>", jobs.job, name="job"),
    path("jobs/<str:job>/cancel", jobs.cancel, name="cancel"),
]
