"""Every address of the product, by app."""

from django.contrib import admin
from django.urls import include, path

from laissez import health, zones

urlpatterns = [
    path("healthz", health.alive),
    path("readyz", health.ready),
    path("zone", zones.choose, name="zone"),
    path("", include("markets.urls")),  # first: most requests are for prices, jobs and bids
    path("", include("tenants.urls")),  # before the admin: it signs in on the page that is rationed
    path("admin/", admin.site.urls),
    path("", include("workers.urls")),
]

handler400 = "laissez.api.handle_bad_request"
handler403 = "laissez.api.handle_forbidden"
handler404 = "laissez.api.handle_not_found"
handler500 = "laissez.api.handle_server_error"
