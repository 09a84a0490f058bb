"""Scoring: what a model must score (`wanted`), what is known already (`cache`), where it runs (`local`, `ray`)."""
