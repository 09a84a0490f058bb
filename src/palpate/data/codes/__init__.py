"""codes."""
