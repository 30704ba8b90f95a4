"""Which answer is labelled next, by whom, and what do the labels say so far?"""
