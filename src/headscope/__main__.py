"""The command `headscope`, also as `python -m headscope`; Ctrl-C is heard while it loads."""

from headscope.commands.interrupt import catch_interrupts, end_interrupted


def main() -> None:
    """Load the command line and call it."""
    with catch_interrupts():
        try:
            from headscope.cli import main as run  # takes time, in which Ctrl-C may be pressed
        except KeyboardInterrupt:
            end_interrupted()
        run()


if __name__ == "__main__":
    main()
