"""Which measured quantities, intervals and tests does everything else rest on?"""
