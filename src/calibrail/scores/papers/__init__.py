"""Which detectors does only a table of a paper need, and a user hardly choose?"""
