"""The app: finds every ``actors.py``, and connects the floors."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.backends.signals import connection_created
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
        from django_rivet.store.database import let_signals_in

        install_directory(Directory())
        register_checks()
        sweeping.install()
        connection_created.connect(let_signals_in, dispatch_uid="django_rivet.signals")
        autodiscover_modules("actors")
