"""Text in, edits out: pure functions from texts to spans and replacements, with a reason if nothing can be altered."""
