"""What does a report say beyond its main measures, one section a file?"""
