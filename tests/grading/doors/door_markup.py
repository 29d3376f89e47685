"""What stands in a page, read by a parser: which elements, which attributes, what would be loaded."""

from __future__ import annotations

from html.parser import HTMLParser

LOADING = {"src", "srcset", "poster", "background", "data", "action", "formaction", "ping", "style", "cite"}


class Seen(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    def running(self) -> list[str]:
        """Whatever could run or load."""
        found = [tag for tag in self.tags() if tag in NEVER]
        for tag, attributes in self.elements:
            for name, value in attributes.items():
                bad = name.startswith("on") or (name in LOADING and not value.startswith("data:image/"))
                bad = bad or (name == "href" and not value.startswith(("#", "http://", "https://", "mailto:")))
                bad = bad or (name == "http-equiv" and value != "Content-Security-Policy")
                if bad:
                    found.append(f"{tag} {name}={value}")
        return found


NEVER = {
    *("script", "iframe", "object", "embed", "svg", "math", "form", "input", "button", "textarea", "select", "base"),
    *("link", "audio", "video", "source", "template", "frame", "applet", "noscript", "xmp"),
}
