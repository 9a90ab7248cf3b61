"""A group of commands whose help tells each of them in its whole first sentence."""

import click

__all__ = ["CommandGroup"]

_LONGEST = 200  # characters of a first sentence: no limit that one reaches


class CommandGroup(click.Group):
    """What is too long for a line is broken into several, where click would cut it."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of the commands, by name."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(_LONGEST)) for name in self.list_commands(ctx)]
            )
