"""Every error of django_rivet under the name users import."""

from django_rivet.actors.exceptions import *  # noqa: F403
from django_rivet.engine.exceptions import *  # noqa: F403
