"""The market's addresses."""

from django.urls import path

from markets import api
from markets.views import acts, bids, job_form, jobs, market, market_type

urlpatterns = [
    path("api/v1/markets", api.MarketsView.as_view()),
    path("api/v1/markets/<slug:cluster>", api.MarketView.as_view()),
    path("api/v1/markets/<slug:cluster>/types/<slug:kind>/history", api.PriceHistoryView.as_view()),
    path("api/v1/markets/<slug:cluster>/types/<slug:kind>/price-changes", api.PriceChangesView.as_view()),
    path("api/v1/markets/<slug:cluster>/receipts/<int:number>", api.ReceiptView.as_view()),
    path("api/v1/bids/bulk", api.BulkBidsView.as_view()),
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
    path("market/<slug:cluster>/<slug:slug>", market_type.market_type, name="market-type"),
    path("market/<slug:cluster>/<slug:slug>/series.json", market_type.series, name="price-series"),
    path("market/<slug:cluster>/<slug:slug>/prices.csv", market_type.price_csv, name="price-csv"),
    path("jobs", jobs.jobs, name="jobs"),
    path("jobs/new", job_form.new, name="new_job"),
    path("jobs/new/check", job_form.check, name="check_job"),
    path("jobs/cancel", acts.cancel_several, name="cancel_several"),
    path("jobs/<str:job>", jobs.job, name="job"),
    path("jobs/<str:job>/series.json", jobs.series, name="job_series"),
    path("jobs/<str:job>/series.csv", jobs.series_csv, name="job_series_csv"),
    path("jobs/<str:job>/log", jobs.log, name="job_log"),
    path("jobs/<str:job>/bids", bids.edit, name="job_bids"),
    path("jobs/<str:job>/checkpoint", acts.act, {"act": "checkpoint"}),
    path("jobs/<str:job>/migrate", acts.act, {"act": "migrate"}),
    path("jobs/<str:job>/stop", acts.act, {"act": "stop"}),
    path("jobs/<str:job>/resume", acts.act, {"act": "resume"}),
    path("jobs/<str:job>/cancel", acts.act, {"act": "cancel"}, name="cancel"),
]
