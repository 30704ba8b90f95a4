"""What does each detector of several comparisons cost, data set by data set?"""
