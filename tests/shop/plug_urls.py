"""The example's addresses as they are in a process that a demo has started."""

from django.urls import path

from example_project.demo.views import pull_the_plug
from example_project.urls import urlpatterns as others

urlpatterns = [*others, path("demo/plug/", pull_the_plug, name="pull-the-plug")]
