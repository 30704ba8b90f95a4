"""Entry point of python -m calibrail."""

from calibrail.working_folder import forget_started_folder

if __name__ == "__main__":
    # Before anything else is imported: Python has put the working folder first on its path.
    forget_started_folder()

    from calibrail.cli import main

    main()
