"""lexicons."""
