"""Scoring: what to ask a model (`wanted`), what it has answered before (`cache`), and who asks (`local`, `ray`)."""
