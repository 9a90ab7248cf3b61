"""Parse a textual filter into an `Expression`, by the grammar in language.lark."""

from functools import lru_cache
from importlib.resources import files

from lark import Lark, Token, Transformer, Tree, UnexpectedInput, UnexpectedToken, v_args
from lark.exceptions import VisitError

from nearsay.indexer.filters.expression import And, Contains, Expression, Not, Or, Path, Present, Scalar
from nearsay.indexer.filters.parse import (
    DEEPEST_INPUT,
    HELP,
    among,
    compare,
    moment,
    parse_field,
    scalar,
    too_deep,
)
from nearsay.indexer.vectors.errors import BadFilterError

_LONGEST = 100_000  # characters of an expression


@lru_cache(maxsize=64)  # a few filters are used repeatedly
def parse_text(text: str) -> Expression:
    """Parse a filter; BadFilterError with the position of a syntax error."""
    if len(text) > _LONGEST:
        raise BadFilterError(
            f"the filter has {len(text):,} characters; at most {_LONGEST:,} are allowed. Split it, or give a "
            "mapping"
        )
    try:
        tree = _grammar().parse(text)
        _check_depth(tree)
        return _Builder().transform(tree)
    except UnexpectedInput as error:
        at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
        column = 1 + (len(text) if at_end else error.pos_in_stream or 0)
        rest = text[column - 1 : column + 19].strip()
        place = f"column {column}, near '{rest}'" if rest else "its end"
        raise BadFilterError(f"the filter cannot be read at {place}. {_remedy(error, text)}") from None
    except VisitError as error:
        if isinstance(error.orig_exc, BadFilterError):
            raise error.orig_exc from None
        raise


def _remedy(error: UnexpectedInput, text: str) -> str:
    if not isinstance(error, UnexpectedToken):
        return HELP
    if error.token.type == "NAME":
        if error.token.lower() in ("null", "none"):
            return "For a missing value, write: venue is missing"
        if "STRING" in error.expected:
            return f"Write text in quotes: '{error.token}'"
        if text[(error.pos_in_stream or 0) - 1] == "'":
            return """Write text with an apostrophe in double quotes: "O'Neil\""""
    elif "OPERATOR" in error.expected and error.interactive_parser is not None:  # only a field
        field = str(error.interactive_parser.parser_state.value_stack[-1])[:50]
        return f"Compare it with a value: {field} = true"
    return HELP


def _check_depth(tree: Tree[Token]) -> None:
    pending = [(tree, 0)]
    while pending:
        part, depth = pending.pop()
        if depth > DEEPEST_INPUT:
            raise BadFilterError(too_deep())
        pending += [(child, depth + 1) for child in part.children if isinstance(child, Tree)]


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    return Lark(files(__package__).joinpath("language.lark").read_text("utf-8"), parser="lalr")


@v_args(inline=True)
class _Builder(Transformer[Token, Expression]):
    """Converts Lark's tree into an Expression; each method is named after a rule of the grammar."""

    def either(self, *operands: Expression) -> Expression:
        return Or(operands)

    def both(self, *operands: Expression) -> Expression:
        return And(operands)

    negation, contains, present = Not, Contains, Present

    def compared(self, field: Path, operator: Token, value: Scalar) -> Expression:
        return compare(field, str(operator), value)

    def among(self, field: Path, *values: Scalar) -> Expression:
        return among(field, values)

    def not_among(self, field: Path, *values: Scalar) -> Expression:
        return Not(among(field, values))

    def missing(self, field: Path) -> Expression:
        return Not(Present(field))

    def field(self, name: Token) -> Path:
        return parse_field(str(name))

    def number(self, token: Token) -> Scalar:
        whole = token.lstrip("+-").isdigit() and len(token) <= 20  # more digits are out of range anyway
        return scalar(int(token) if whole else float(token))

    def string(self, token: Token) -> Scalar:
        quote = token[0]
        return scalar(str(token[1:-1]).replace(quote * 2, quote))

    def moment(self, token: Token) -> Scalar:
        return moment(str(token))

    def true(self, _token: Token) -> Scalar:
        return True

    def false(self, _token: Token) -> Scalar:
        return False
