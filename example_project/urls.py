"""The shop's page, the admin, the actors' API and its OpenAPI schema."""

from django.conf import settings
from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView

urlpatterns = [
    path("", include("example_project.shop.urls")),
    path("admin/", admin.site.urls),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/", include("django_rivet.urls")),
]

# Only a process that a demo has started has a supervisor which starts the worker again.
if settings.DEBUG and settings.PLUG_FOLDER:
    from example_project.demo.views import pull_the_plug

    urlpatterns.append(path("demo/plug/", pull_the_plug, name="pull-the-plug"))
