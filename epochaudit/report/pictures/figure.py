"""A picture in a notebook: the drawing, and beside it its steps as sentences."""

from __future__ import annotations

from hashlib import blake2b

from epochaudit.report.pictures.picture import Picture


def notebook(picture: Picture) -> str:
    """The figure as HTML with its own style; links lead to the steps. The style is a file of this package."""
    from markupsafe import Markup

    from epochaudit.report.pictures import svg
    from epochaudit.report.templates import environment

    prefix = f"p{blake2b(repr(picture).encode(), digest_size=4).hexdigest()}"  # ids are there once in a notebook
    template = environment().get_template("report/pictures/notebook.html.jinja")
    return template.render(style=Markup(svg.style()), picture=picture, prefix=prefix)  # noqa: S704
