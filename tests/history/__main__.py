"""Writes docs/track-record.md."""

from tests.history.page import PAGE, page

if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
