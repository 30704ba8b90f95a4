"""What does a threshold keep of its promise on other answers?"""
