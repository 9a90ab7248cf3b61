"""`python -m nearsay.app.cli`, which torchrun starts."""

from nearsay.app.cli.main import main

if __name__ == "__main__":
    main(prog_name="nearsay")
