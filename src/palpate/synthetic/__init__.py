"""Data that palpate makes itself, with known truth."""
