"""Does any damaged file end a command otherwise than by calibrail's own word?

`seeds` makes small real files of every format, `mutations` damages them, `case` reads one, and
``python -m tests.fuzz`` (``make fuzz``) goes on for minutes in processes of its own.
"""
