"""How do the rooms work together in one run, from a file to a verdict?"""
