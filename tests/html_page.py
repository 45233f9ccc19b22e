"""Read an HTML page that we wrote, and check its tags."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "input", "br", "rect", "line", "circle", "polyline"}


class Page(HTMLParser):
    """Checks that tags close in turn; collects names, links and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        named = dict(attrs)
        assert "src" not in named and not any(name.startswith("on") for name in named)
        self.ids += [str(named["id"])] if "id" in named else []
        self.links += [str(named["href"])] if "href" in named else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "script" not in self.open:
            self.text += data
