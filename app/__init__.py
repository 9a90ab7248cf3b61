"""What people touch: the command line, its work in the background, and the page."""

from typing import Final

# What one room of this package keeps in the meta of a click context for another.
ONLY_CHECKED: Final = "nearsay.only_checked"  # set where arguments are only looked at: no library is open
