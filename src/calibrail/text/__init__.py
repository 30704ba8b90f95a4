"""What does a string hold: sentences, claims, words, numbers, names. Pure functions, no state."""
