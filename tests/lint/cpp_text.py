"""Just enough of C++'s grammar for the lint rules: comments, literals, braces, functions."""

import re
from typing import NamedTuple


class Function(NamedTuple):
    name: str
    first_line: int  # counted from 1, where the signature begins
    line_count: int


_TOKEN = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"'
    # A quote after a digit or letter separates digits: 1'000'000.
    r"|(?<![0-9A-Za-z_])(?:u8|[uUL])?'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def blank_comments(text: str) -> str:
    """Replaces comments by spaces; lines keep their numbers, literals stay."""
    return _TOKEN.sub(lambda m: _blank(m[0]) if m[0].startswith(("//", "/*")) else m[0], text)


def blank_comments_and_literals(text: str) -> str:
    """Replaces comments, strings and characters by spaces; lines keep their numbers."""
    return _TOKEN.sub(lambda m: _blank(m[0]), text)


def _blank_preprocessor(text: str) -> str:
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: _blank(m[0]), text, flags=re.M)


_TYPE_SCOPE = re.compile(r"(inline\s+)?(namespace|class|struct|union|enum|extern)\b")


def _without_template_head(head: str) -> str:
    """Drops leading `template <...>` and `[[...]]`, so that the word that matters comes first."""
    while True:
        head = head.lstrip()
        if head.startswith("[["):
            head = head[head.find("]]") + 2 :]
            continue
        if not re.match(r"template\s*<", head):
            return head
        depth = 0
        for i, char in enumerate(head):
            depth += (char == "<") - (char == ">")
            if char == ">" and depth == 0:
                head = head[i + 1 :]
                break
        else:
            return head


def _is_function_head(head: str) -> bool:
    head = _without_template_head(head)
    return ")" in head and not _TYPE_SCOPE.match(head)


def _is_member_initialiser(head: str) -> bool:
    """True of `A::A() : x_(1), y_`: the brace that follows belongs to y_, not to a body."""
    after_parameters = head[head.find(")") :]
    return bool(re.search(r"(?<!:):(?!:)", after_parameters)) and head.rstrip()[-1:] not in ")}"


def _name_of(head: str) -> str:
    match = re.search(r"([\w:~]+|operator\S+)\s*\(", _without_template_head(head))
    return match[1] if match else "?"


def functions(text: str) -> list[Function]:
    """All function bodies outside other functions, macros such as TEST() among them."""
    text = _blank_preprocessor(blank_comments_and_literals(text))
    found = []
    head_begin = 0
    depth = 0
    body = None  # (depth before it, head, line) of the function that we are in
    initialiser = None  # depth before the member initialiser that we are in
    line = 1
    head_line = None
    for i, char in enumerate(text):
        if char == "\n":
            line += 1
        elif body is None and head_line is None and not char.isspace() and char not in ";{}":
            head_line = line
        if char == "{":
            head = text[head_begin:i]
            if body is None and initialiser is None and _is_function_head(head):
                if _is_member_initialiser(head):
                    initialiser = depth
                else:
                    body = (depth, head, head_line or line)
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == initialiser:
                initialiser = None
                continue  # the head goes on
            if body is not None and depth == body[0]:
                found.append(Function(_name_of(body[1]), body[2], line - body[2] + 1))
                body = None
        if char in ";{}" and body is None and initialiser is None:
            head_begin = i + 1
            head_line = None
    return found
