"""How does a person see an answer and say what it is: on a page, or in a terminal?"""
