"""The only place that loads or calls a model; torch is imported when a text is first embedded."""
