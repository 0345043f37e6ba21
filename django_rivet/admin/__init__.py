"""The operators' face in Django's own admin: see how all actors stand, look at one, recover, pause or cancel it.

It writes no row itself: what an operator asks for goes through ``store``, as from a handle. It needs no actor class to
be registered, so that what a deploy has left behind can still be read and ended.
Start with ``actors``; what the page of one actor shows is put together in ``page`` and ``history``.
"""

from django.contrib import admin

from django_rivet.admin.actors import ActorAdmin
from django_rivet.models import Actor

__all__ = ["ActorAdmin"]

admin.site.register(Actor, ActorAdmin)
