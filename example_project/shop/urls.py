"""The shop's pages: all of them for logged-in staff only, all of them read-only."""

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from example_project.shop import views

urlpatterns = [
    path("", views.shop, name="shop"),
    path("books/", views.books, name="shop-books"),
    path("programs/<slug:name>/", views.program, name="shop-program"),
    path("login/", views.content_security(LoginView.as_view(template_name="shop/login.html")), name="login"),
    path("logout/", LogoutView.as_view(), name="logout"),
]
