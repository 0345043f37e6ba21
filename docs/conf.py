"""Sphinx: `make docs`."""

project = "django_rivet"
copyright = "django_rivet contributors"
extensions = ["myst_parser"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "django_rivet"
exclude_patterns = ["_build"]
