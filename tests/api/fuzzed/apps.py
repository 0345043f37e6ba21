from django.apps import AppConfig


class FuzzedConfig(AppConfig):
    name = "tests.api.fuzzed"
    label = "fuzzed"
