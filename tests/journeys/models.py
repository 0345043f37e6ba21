"""What atomic steps of the journeys write: it must come out exactly once, whatever dies when."""

from django.db import models


class Effect(models.Model):
    name = models.CharField(max_length=200)

    def __str__(self) -> str:
        return self.name
