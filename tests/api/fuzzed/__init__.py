"""An app whose actors are known to the server that is asked all sorts of things."""
