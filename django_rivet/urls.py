"""``include("django_rivet.urls")``: the actors over HTTP."""

from django.urls import path

from django_rivet.api import operating, views

app_name = "django_rivet"

urlpatterns = [
    path("actors/", views.TypesView.as_view(), name="types"),
    path("actors/<str:type>/", views.ActorsView.as_view(), name="actors"),
    path("actors/<str:type>/<str:key>/", views.ActorView.as_view(), name="actor"),
    path("actors/<str:type>/<str:key>/actions/<str:action>/", views.ActionView.as_view(), name="action"),
    path("actors/<str:type>/<str:key>/queues/", views.QueuesView.as_view(), name="queues"),
    path("actors/<str:type>/<str:key>/queues/<str:queue>/", views.QueueView.as_view(), name="queue"),
    path("actors/<str:type>/<str:key>/history/", views.ActorHistoryView.as_view(), name="history"),
    path("actors/<str:type>/<str:key>/recover/", operating.RecoverView.as_view(), name="recover"),
    path("actors/<str:type>/<str:key>/cancel/", operating.CancelView.as_view(), name="cancel"),
    path("actors/<str:type>/<str:key>/pause/", operating.PauseView.as_view(), name="pause"),
    path("actors/<str:type>/<str:key>/resume/", operating.ResumeView.as_view(), name="resume"),
    path("actors/<str:type>/<str:key>/replay/", operating.ReplayView.as_view(), name="replay"),
    path("actors/<str:type>/<str:key>/rollback/retry/", operating.RetryRollbackView.as_view(), name="retry-rollback"),
    path("actors/<str:type>/<str:key>/rollback/skip/", operating.SkipRollbackView.as_view(), name="skip-rollback"),
    path(
        "actors/<str:type>/<str:key>/rollback/confirm/",
        operating.ConfirmRollbackView.as_view(),
        name="confirm-rollback",
    ),
]
