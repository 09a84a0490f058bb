"""patients."""
