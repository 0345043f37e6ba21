"""A small shop that uses django_rivet the way a project would.

Start at `shop/actors.py`; `settings.py` says what changes between a laptop and a cluster.
"""

# Django's processes publish through the app that was made first, so it is made wherever
# the settings are loaded, not only in workers.
from example_project.celery import app as celery_app

__all__ = ["celery_app"]
