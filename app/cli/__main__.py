"""`python -m nearsay.app.cli`, as torchrun starts it."""

from nearsay.app.cli.main import main

if __name__ == "__main__":
    main(prog_name="nearsay")
