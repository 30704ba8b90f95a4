"""Has the traffic changed, is the promise kept, and how many hallucinations are there?"""
