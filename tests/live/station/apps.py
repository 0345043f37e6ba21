from django.apps import AppConfig


class StationConfig(AppConfig):
    name = "tests.live.station"
    label = "station"
