"""HTML pages that need neither network nor anything else: Jinja templates, one style sheet, and the policy that holds them to it.

Content of logs reaches a page only as text: everything that a template prints is escaped for HTML, and made visible where it is a
control or bidirectional character.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from epochaudit.report.neutral import neutral, short
from epochaudit.report.page import plural, size_of
from epochaudit.report.pictures import svg
from epochaudit.report.pictures.picture import Picture
from epochaudit.version import VERSION

SHORT: Final = 250  # of a name: a topic's has 249 at most, a client's may have thousands


def page(
    template: str, *, script: str | None = None, functions: tuple[Callable[..., Any], ...] = (), **values: Any
) -> str:
    """The page of a template, a path below `epochaudit/`, which extends `report/base.html.jinja`. script: likewise.

    The page's policy permits its own style sheet and script, by their digests, and nothing else.
    """
    style = f"{_file('report/style.css')}{svg.style()}"
    code = None if script is None else _file(script)
    policy = [
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        *([] if code is None else [f"script-src '{_digest(code)}'"]),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    own = environment()  # style and script are files of this package
    own.globals.update({function.__name__: function for function in functions})
    return own.get_template(template).render(
        style=Markup(style),  # noqa: S704
        script=None if code is None else Markup(code),  # noqa: S704
        policy="; ".join(policy),
        version=VERSION,
        **values,
    )


def environment() -> Environment:
    """Escapes and neutralises all that templates print."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FunctionLoader(_file),
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["short"] = short_name
    made.filters["capitalized"] = capitalized
    made.globals.update({function.__name__: function for function in (plural, size_of, quantity, drawing)})
    return made


def quantity(number: int) -> str:
    """`12,345`."""
    return f"{number:,}"


def drawing(picture: Picture, prefix: str) -> Markup:
    """The picture as an element of the page; see `svg.drawing`. ElementTree escapes what is in it."""
    return Markup(svg.drawing(picture, prefix))  # noqa: S704


def capitalized(text: str) -> str:
    """The text with a capital letter at its beginning; the others stay as they are."""
    return f"{text[:1].upper()}{text[1:]}"


def short_name(text: str | None, most: int = SHORT) -> str:
    """The name, or its beginning and its length."""
    return "" if text is None else short(text, most)


def _file(path: str) -> str:
    return files("epochaudit").joinpath(path).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode('utf-8')).digest()).decode('ascii')}"


def _shown(value: Any) -> Any:
    """What an expression of a template prints; text is neutralised before it is escaped."""
    if value is None:
        return ""
    is_markup = hasattr(value, "__html__")  # what a macro made, of parts that were shown before
    return neutral(short(value)) if isinstance(value, str) and not is_markup else value
