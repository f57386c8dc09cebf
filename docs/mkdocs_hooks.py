"""Hooks of mkdocs.yml: add the pages of the repository's root, adapt links to the site, and check the built pages.

The same Markdown is read in the repository and on the site. README.md is the site's first page, and the other documents
of the root join it under their own names. Links between pages are kept, with a title instead of a file's name. A link
to any other file of the repository, which the site does not have, becomes its path. After the build, a page that loads
anything from elsewhere is an error.

mkdocs is imported inside functions, so that tests/test_site.py needs none.
"""

import functools
import os
import re
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent

# Documents at the root, and the pages that they become.
ROOT_PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SCOPE.md": "scope.md",
    "SECURITY.md": "security.md",
}

# Pages of facts, which come after the guides in the search.
FACTS = ("clients.md", "compare_tf215.md", "compatibility.md", "measured.md", "reliability.md", "scaling.md")

_FENCED = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)\s]+)\)")
# README.md has pictures in HTML, which gives them a width; mkdocs leaves their paths as they are.
_PICTURE = re.compile(r"(<img [^>]*?src=\")docs/")
# What a browser fetches by itself when it shows a page; a link that a person follows is not among these.
_LOADED_BY_HTML = re.compile(
    r"<(?:audio|embed|iframe|img|input|link(?! rel=\"canonical)|object|script|source|track|video)\b[^>]*?"
    r"\b(?:data|href|poster|src|srcset)=[\"']?((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
_LOADED_BY_CSS = re.compile(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)", re.IGNORECASE)


def on_config(config):
    """Shows the version next to the name of the site."""
    version = re.search(r'__version__ = "(.+)"', (ROOT / "estimator_train" / "__init__.py").read_text()).group(1)
    config.site_name += f" {version}"
    return config


def on_files(files, config):
    """Adds the documents of the repository's root."""
    from mkdocs.structure.files import File

    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Makes the links of a page those of the site, and ranks answers to questions first, facts last."""
    sources = {page: name for name, page in ROOT_PAGES.items()}
    source = sources.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    if page.file.src_uri.startswith("questions/"):
        page.meta["search"] = {"boost": 2}
    elif page.file.src_uri in FACTS:
        page.meta["search"] = {"boost": 0.5}
    return with_links_of_the_site(markdown, source)


def on_page_content(html, page, config, files):
    """Marks what stylesheets/site.css shows in another way: flags and short code, and cells with sentences."""
    # Python-Markdown keeps the backslash before a bar within a table's code; code hosts do not show it.
    html = re.sub(r"<td.*?</td>", lambda cell: cell.group().replace(r"\|", "|"), html, flags=re.DOTALL)
    html = re.sub(r"<td>(?=[^<]{40})", '<td class="text">', html)
    html = re.sub(r"<table>.*?</table>", with_names_of_columns, html, flags=re.DOTALL)
    html = re.sub(r"(?<=[\s>])--[\w-]+", r'<span class="whole">\g<0></span>', html)
    return re.sub(r"<code>([^<]{1,24})</code>", r'<code class="whole">\1</code>', html)


def with_names_of_columns(table):
    """Returns the HTML of a matched table, each cell with the title of its column, for phones, which show no header."""
    headers = re.findall(r"<th(?: [^>]*)?>(.*?)</th>", table.group(), re.DOTALL)
    titles = [re.sub("<[^>]+>", "", header) for header in headers]

    def with_names(row):
        columns = iter(titles)
        return re.sub("<td", lambda _: f'<td data-column="{next(columns)}"', row.group())

    return re.sub(r"<tr>.*?</tr>", with_names, table.group(), flags=re.DOTALL)


def on_post_build(config):
    """Raises an error if a page of the site loads anything from elsewhere."""
    from mkdocs.exceptions import PluginError

    site = Path(config.site_dir)
    found = {
        str(path.relative_to(site)): sources
        for path in sorted(site.rglob("*"))
        if path.suffix in (".css", ".html", ".svg") and (sources := sources_elsewhere(path.read_text()))
    }
    if found:
        raise PluginError(f"these pages load something from elsewhere: {found}")


def with_links_of_the_site(markdown, source):
    """Returns the Markdown of the file `source`, a path from the repository's root, as it reads on the site."""

    def link(match):
        is_image, text, target = match.groups()
        if re.match(r"#|\w+:", target):  # a heading of the page, or an address
            return match.group()
        path, hash_sign, heading = target.partition("#")
        path = os.path.normpath(PurePosixPath(source).parent / path)
        page = ROOT_PAGES.get(path) or path.removeprefix("docs/")
        if path in ROOT_PAGES or path.startswith("docs/"):
            here = PurePosixPath(ROOT_PAGES.get(source) or source.removeprefix("docs/")).parent
            text = title_of(path, heading) if text.endswith(".md") else text
            return f"{is_image}[{text}]({os.path.relpath(page, here)}{hash_sign}{heading})"
        return f"`{path}`" if text == path else f"{text} (`{path}`)"

    # Every other part is a fenced block, which has no links. One without a language holds commands.
    parts = _FENCED.split(markdown)
    return "".join(
        re.sub(r"^( *)```\n", r"\1```sh\n", part, count=1) if index % 2 else _PICTURE.sub(r"\1", _LINK.sub(link, part))
        for index, part in enumerate(parts)
    )


@functools.cache
def title_of(path, heading):
    """Returns the title of a page, a path from the repository's root, and of one of its headings if there is one."""
    titles = re.findall(r"^#+ (.+)$", _FENCED.sub("", (ROOT / path).read_text()), re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-"): title for title in titles}
    return f"{titles[0]}: {anchors[heading]}" if heading else titles[0]


def sources_elsewhere(text):
    """Returns the addresses that a browser would load scripts, styles, fonts or images of this HTML or CSS from."""
    return _LOADED_BY_HTML.findall(text) + _LOADED_BY_CSS.findall(text)
