"""HTML, scripts and links in the inputs of `fairseq-ssl report` are shown as text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from tests.conftest import until

RUN = "window.attacked=1"
PAYLOADS = {
    "script": f"</script><script>{RUN}</script>",
    "handler": f"\"><img src=x onerror='{RUN}'>",
    "attribute": f"' autofocus onfocus='{RUN}' x='",
    "address": f"javascript:{RUN}",
    "link": f"<a href='javascript:{RUN}'>x</a>",
    "svg": f"<svg onload={RUN}>",
    "frame": f"<iframe srcdoc='<script>parent.{RUN[7:]}</script>'>",
    "comment": "<!--<script>",
    "sections": "]]><![CDATA[</style></title></textarea>",
    "escaped": "&lt;script&gt;&#x3c;script&#x3e;\\u003cscript\\u003e",
    "template": "$title ${data} $$ {{7*7}} %s `${1}`",
    "separators": "a\u2028b\u2029c\x85d\x0be",
    "marks": "\u202e\u2066<b>\ufeff\x00\x1b[31m",
    "quotes": "\\\"'`\\",
}
SVG = (
    f"<svg xmlns='http://www.w3.org/2000/svg' onload='{RUN}'><script>{RUN}</script>"
    f"<foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='javascript:{RUN}'/>"
    f"</foreignObject><a href='javascript:{RUN}'><text>x</text></a></svg>"
)
VOID = ("meta", "link", "input", "br", "img")


class Structure(HTMLParser):
    """Tags of a page with their attribute names, and the values of attributes with addresses."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.others: list[str] = []
        self.data = ""
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = dict(attrs).get("id") or ""
        self.tags.append(f"<{tag} {' '.join(name for name, _ in attrs)}>")
        self.addresses += [str(value) for name, value in attrs if name in ("href", "src", "srcdoc")]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""
        self.tags.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self.inside == "data":
            self.data += data

    def handle_comment(self, data: str) -> None:
        self.others.append(data)

    def unknown_decl(self, data: str) -> None:
        self.others.append(data)


def as_file_name(text: str) -> str:
    """Return a text without the characters that file names cannot have."""
    return text.replace("/", "").replace("\0", "")[:60]


def page(folder: Path, text: str) -> Path:
    """Write a page that has `text` in every field that is read from files or flags."""
    named = as_file_name(text)
    runs = folder / "runs"
    systems = [f"A{named}", f"B{named}"]
    line = " ".join(text.split("\n"))
    for number, system in enumerate(systems):
        for seed in (1, 2):
            output = runs / f"{system}.{seed}/test.txt"
            output.parent.mkdir(parents=True)
            output.write_text(f"this {line} is {'a' * number} {line}\nthe end {line}\n")
    seeds = {"seeds": [1.0, 2.0]}
    scores = {
        "signature": f"method{text}|{text}",
        "systems": {f"{text}{n}": {f"{text} metric": seeds, "other": seeds} for n in "12"},
        "types": {f"R:{text}": {text: seeds}},
        "against the baseline": {
            text: {"difference": 1.0, "interval": [0.5, 1.5], "p": 0.01},
        },
    }
    (runs / f"{named}.scores.json").write_text(json.dumps(scores))
    (runs / f"{named}.other.json").write_text(json.dumps({text: [text, {text: text}]}))
    (runs / f"{named} figure.svg").write_text(SVG)
    gold = "".join(
        f"S {start} {line} is {line}\nA 0 1|||R:{line.replace(' ', '')}|||{line}|||REQUIRED|||"
        "-NONE-|||0\n\n"
        for start in ("this", "the")
    )
    (folder / "gold.m2").write_text(gold)
    output = folder / "r.html"
    words = ["report", runs, "--gold", folder / "gold.m2", "-o", output]
    languages = [f"--source-lang={text}", f"--target-lang={text}"]
    assert main([*map(str, words), *(word.replace("\0", "") for word in languages)]) == 0
    return output


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Structure:
    return structure(page(tmp_path_factory.mktemp("harmless"), "text"))


def structure(path: Path) -> Structure:
    parser = Structure()
    parser.feed(path.read_text(encoding="utf-8"))
    parser.close()
    return parser


@pytest.mark.parametrize("kind", PAYLOADS)
def test_text_does_not_change_the_structure_of_the_page(
    kind: str, harmless: Structure, tmp_path: Path
) -> None:
    attacked = structure(page(tmp_path, PAYLOADS[kind]))
    assert Counter(attacked.tags) == Counter(harmless.tags)
    assert attacked.others == harmless.others == []
    assert not [one for one in attacked.addresses if not one.startswith(("#", "data:"))]
    data = json.loads(attacked.data)
    line = " ".join(PAYLOADS[kind].split("\n"))
    outputs = [side["lines"][0] for side in data["sides"] if "system" in side]
    assert all(line in output for output in outputs)
    assert data["sides"][-1]["name"] == f"B{as_file_name(PAYLOADS[kind])}"


def test_svg_figure_is_embedded_as_an_image(tmp_path: Path) -> None:
    html = page(tmp_path, "text").read_text(encoding="utf-8")
    assert '<img src="data:image/svg+xml;base64,' in html
    assert "<svg" not in html
    assert "default-src 'none'" in html


def test_links_to_files_outside_the_folder_are_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret.txt").write_text("secret\n")
    (tmp_path / "secret.png").write_bytes(b"secret")
    (tmp_path / "secret.json").write_text('{"secret": 1}')
    (tmp_path / "runs/a.1").mkdir(parents=True)
    (tmp_path / "runs/a.1/test.txt").write_text("a\n")
    for name in ("b.1/test.txt", "figure.png", "scores.json"):
        link = tmp_path / "runs" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(tmp_path / f"secret{link.suffix}")
    (tmp_path / "runs/c.1").mkdir()
    (tmp_path / "runs/c.1/test.txt").symlink_to("../a.1/test.txt")
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == 0
    warnings = capsys.readouterr().err
    assert warnings.count("is skipped: it links to a file outside the folder") == 3
    data = json.loads(structure(tmp_path / "r.html").data)
    assert [side["name"] for side in data["sides"]] == ["a", "c"]
    assert "secret" not in (tmp_path / "r.html").read_text()


def test_huge_numbers_are_ignored(tmp_path: Path) -> None:
    values = {"m": {"seeds": [1e308, 1e308, -1e308]}, "n": {"seeds": [1.0]}}
    content = {"signature": "x", "systems": {"a": values}}
    (tmp_path / "scores.json").write_text(json.dumps(content))
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "r.html")]) == 0
    assert "1e+308" not in (tmp_path / "r.html").read_text()


@pytest.fixture
def safe_page(browser_page: Any) -> Iterator[Any]:
    """Yield a page in a browser. Fail if a payload ran."""
    yield browser_page
    assert browser_page.driver.execute_script("return window.attacked") is None


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.slow
def test_payload_does_not_run_in_a_browser(kind: str, safe_page: Any, tmp_path: Path) -> None:
    path = page(tmp_path, PAYLOADS[kind])
    safe_page.open(path.as_uri())
    assert safe_page.status() == "2 of 2 sentences"
    safe_page.choose("against", "source")
    safe_page.type("is")
    safe_page.until_status("2 of")
    for details in safe_page.all("details"):
        safe_page.driver.execute_script("arguments[0].open = true", details)
    for button in safe_page.all("th button")[:3]:
        button.send_keys("\n")
    until(lambda: all(one.get_property("complete") for one in safe_page.all("img")))
    assert safe_page.all("#list script, #list img, #list iframe, #list a, main svg") == []
