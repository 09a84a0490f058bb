"""hospitals."""
