"""What runs as ``python -m calibrail``: the command line."""

from calibrail.cli import main

if __name__ == "__main__":
    main()
