"""``include("django_rivet.urls")``."""

urlpatterns: list[object] = []
