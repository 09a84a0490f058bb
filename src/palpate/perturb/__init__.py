"""Alterations of text: pure functions from texts to spans and replacements, with a reason where there is none."""
