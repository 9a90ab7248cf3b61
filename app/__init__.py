"""User interfaces: the command line, its background jobs, and the web page."""

from typing import Final

# Key in the meta of a click context, shared by the subpackages.
ONLY_CHECKED: Final = "nearsay.only_checked"  # arguments are only checked: no library is open
