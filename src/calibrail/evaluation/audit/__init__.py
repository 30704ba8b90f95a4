"""What does a detector's result rest on: length, new words, strata, copies, one angle?"""
