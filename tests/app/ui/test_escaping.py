"""Text of documents is shown as it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from nearsay.app.ui.escaping import as_html, as_markdown

HOSTILE = [
    "![](https://evil.example/x.png)",
    "[click](javascript:alert(1))",
    "<img src=x onerror=alert(1)>",
    "# big\n- a\n- b",
    "**bold** _it_ `code` ~~gone~~ $x^2$ | a | b |",
    ":red[red] :material/home: :smile:",
    "1. one\n2. two",
    "&lt;b&gt; \\* \\",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_shows_every_character_of_a_hostile_text(text):
    tokens = MarkdownIt("commonmark").parse(as_markdown(text))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert {child.type for child in tokens[1].children} <= {"text", "text_special"}
    assert "".join(child.content for child in tokens[1].children) == " ".join(text.split("\n"))


@given(st.text(max_size=60))
def test_markdown_of_any_text_is_plain_text(text):
    tokens = MarkdownIt("commonmark").parse("x" + as_markdown(text))
    assert len(tokens) == 3
    assert {child.type for child in tokens[1].children} <= {"text", "text_special"}


def test_html_of_a_text_opens_no_element_and_ends_no_attribute():
    assert as_html("<b title='a' class=\"b\">&amp;</b>") == (
        "&lt;b title=&#x27;a&#x27; class=&quot;b&quot;&gt;&amp;amp;&lt;/b&gt;"
    )


@pytest.mark.parametrize("escaped", [as_markdown, as_html])
def test_no_text_turns_the_direction_of_what_stands_behind_it(escaped):
    assert escaped("a\u202eb\u202ac\u2067d\u2069") == "abcd"
    assert escaped("\u0627\u200f!").startswith("\u0627\u200f")  # a mark of direction turns nothing
