"""tfidf."""
