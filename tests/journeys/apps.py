"""An app of its own: its actors are known to the workers that journeys start."""

from django.apps import AppConfig


class JourneysConfig(AppConfig):
    name = "tests.journeys"
    label = "journeys"
