"""Which of several detectors costs the fewest false alarms at the same coverage?"""
