from django.apps import AppConfig


class DeadlyConfig(AppConfig):
    name = "tests.journeys.deadly"
    label = "deadly"
