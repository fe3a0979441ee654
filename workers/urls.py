"""Where hosts call, and what tenants upload and read."""

from django.urls import path

from workers import api

urlpatterns = [
    path("api/v1/artifacts", api.ArtifactsView.as_view()),
    path("api/v1/jobs/<str:job>/logs", api.JobLogsView.as_view()),
    path("api/v1/host/enrol", api.EnrolView.as_view()),
    path("api/v1/host/sync", api.SyncView.as_view()),
    path("api/v1/host/artifacts/<str:sha256>", api.HostArtifactView.as_view()),
]
