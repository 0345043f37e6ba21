"""Where Celery's autodiscovery looks."""

from django_rivet.runtime.celery_tasks import drive

__all__ = ["drive"]
