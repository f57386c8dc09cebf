"""Reads the HTML pages of reports."""

import html.parser
from pathlib import Path


class Page(html.parser.HTMLParser):
    """Parses a page into its text, and its tags as (name, attributes)."""

    def __init__(self, path):
        super().__init__()
        self.text, self.tags = "", []
        self.feed(Path(path).read_text())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data

    def images(self):
        return [attributes for tag, attributes in self.tags if tag == "img"]
