"""The app: finds every ``actors.py``, and connects the floors."""

from __future__ import annotations

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class RivetConfig(AppConfig):
    name = "django_rivet"
    label = "django_rivet"
    verbose_name = _("Durable actors")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_rivet.actors.directory import install_directory
        from django_rivet.checks import register_checks
        from django_rivet.runtime import sweeping
        from django_rivet.runtime.directory import Directory

        install_directory(Directory())
        register_checks()
        sweeping.install()
        autodiscover_modules("actors")
