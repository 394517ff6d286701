"""Head-to-head command: `python -m muzero.evaluate a=AGENT b=AGENT`; `--help` explains the keys."""

from muzero.matches.match import main

if __name__ == "__main__":
    main()
