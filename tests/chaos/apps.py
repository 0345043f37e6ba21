"""An app of its own: its actors are known to the workers under fire only."""

from django.apps import AppConfig


class ChaosConfig(AppConfig):
    name = "tests.chaos"
    label = "chaos"
