"""Files of labels that other programs read and write."""
