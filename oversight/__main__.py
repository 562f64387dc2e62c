"""`python -m oversight`: the command line."""

from oversight.engine.__main__ import main

if __name__ == "__main__":
    main()
