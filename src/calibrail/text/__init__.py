"""Functions of a text alone: words, sentences, claims, structure."""
