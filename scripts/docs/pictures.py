"""Take the pictures of the guides, which are stored in docs/assets.

    python scripts/docs/pictures.py            all pictures
    python scripts/docs/pictures.py report     one of them

The report and the figure are outputs of the commands in their guides. The correction page is the
page of the package with a fixed answer in place of a server, so that the picture only changes with
the page. The script needs selenium, Chromium and its driver. --width and --scheme show the pages
on a phone and in dark mode.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.docs.page_blocks import Session, blocks, transcript  # noqa: E402

PAGE = ROOT / "fairseq_ssl/inference/correction_page.html"
FOLDER = ROOT / "docs/assets"
TEXT = (
    "She [like to plays|likes playing] football with her [friend|friends] in the weekend. "
    "In my opinion, [the |]public transport [are|is] very important, but it [depend|depends] on "
    "the weather."
)
"""Output of the small model of the guide: what is removed and what is added."""
EDITS = [
    ("R:VERB:FORM", 0.404),
    ("R:NOUN:NUM", 0.584),
    ("U:DET", 0.865),
    ("R:VERB:SVA", 0.540),
    ("R:VERB:SVA", 0.712),
]
"""Their types and probabilities."""
REJECTED, EXPLAINED = 1, 4
"""Indices of the edits that are rejected and selected."""
VIEW = "#type=VERB:SVA"
"""Filter of the report in its picture."""
FETCH = "window.fetch = async () => Response.json(arguments[0])"


def answer() -> dict[str, Any]:
    """Return the answer of a server that makes these edits."""
    source = text = ""
    edits = []
    for index, part in enumerate(re.split(r"\[(.*?)\]", TEXT)):
        removed, _, added = part.partition("|") if index % 2 else (part, "", part)
        if index % 2:
            kind, probability = EDITS[index // 2]
            place = {"start": len(source), "end": len(source + removed)}
            words = {"source": removed, "target": added.strip()}
            edits.append({**place, **words, "probability": probability, "type": kind})
        source += removed
        text += added
    return {"text": text, "lines": [{"source": source, "text": text, "edits": edits}]}


def correct_text(driver: Any) -> None:
    """Open the page in a browser, correct the text, reject an edit and select another one."""
    from selenium.webdriver import Keys

    driver.get(PAGE.as_uri())
    content = answer()
    driver.execute_script(FETCH, content)
    driver.find_element("id", "text").send_keys(content["lines"][0]["source"])
    driver.find_element("id", "correct").click()
    driver.implicitly_wait(10)
    edits = driver.find_elements("css selector", ".edit")
    driver.implicitly_wait(0)
    edits[REJECTED].send_keys(Keys.ENTER)
    driver.execute_script("arguments[0].focus()", edits[EXPLAINED])


def correction_page(driver: Any, args: argparse.Namespace) -> None:
    """Take the picture of the correction page."""
    screenshot(driver, args, "correction_page", correct_text)


def report(driver: Any, args: argparse.Namespace) -> None:
    """Take the picture of the report with error types in the guide to reports."""
    with TemporaryDirectory() as folder:
        run_page("reports", Path(folder), last="types.html")
        address = Path(folder, "types.html").as_uri() + VIEW
        screenshot(driver, args, "report", lambda driver: driver.get(address))


def similarity(driver: Any, args: argparse.Namespace) -> None:
    """Copy the figure of `analyze shift-similarity` in the guide to positions."""
    with TemporaryDirectory() as folder:
        run_page("positions", Path(folder), last="similarity.png")
        write_picture(Path(folder, "similarity.png"), args.folder / "similarity.png")


PICTURES = (correction_page, report, similarity)


def run_page(name: str, folder: Path, last: str) -> None:
    """Run the blocks of a guide in a folder, up to the one that writes the file `last`."""
    scripts = folder / "scripts"
    scripts.mkdir()
    session = Session(folder, scripts)
    for block in blocks((ROOT / f"docs/guides/{name}.md").read_text(encoding="utf-8")):
        if not block.needs and block.language in ("bash", "console"):
            console = block.language == "console"
            text = "".join(step for step, _ in transcript(block.text)) if console else block.text
            succeeded, output = session.run(text)
            if not succeeded:
                raise RuntimeError(output)
        if (folder / last).exists():
            break
    session.close()


def screenshot(
    driver: Any, args: argparse.Namespace, name: str, open_page: Callable[[Any], None]
) -> None:
    """Write the picture of a complete page."""
    driver.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    size = {"width": args.width, "height": 100, "deviceScaleFactor": 2, "mobile": False}
    for _ in range(2):  # the second time with the height of the page
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get("about:blank")  # an address with another fragment alone does not load the page
        open_page(driver)
        size["height"] = driver.execute_script("return document.documentElement.scrollHeight")
    driver.execute_script("scrollTo(0, 0)")
    picture = args.folder / f"{name}.png"
    driver.save_screenshot(str(picture))
    write_picture(picture, picture)


def write_picture(source: Path, target: Path) -> None:
    """Write a picture with 64 colors, which is smaller, and with a border."""
    from PIL import Image, ImageOps

    picture = ImageOps.expand(Image.open(source).convert("RGB"), border=2, fill="#c4c8d0")
    picture.quantize(64).save(target, optimize=True)


def main() -> None:
    """Write the pictures."""
    from selenium import webdriver

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    functions = {function.__name__: function for function in PICTURES}
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"names from: {', '.join(functions)}"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument(
        "--width", type=int, default=1000, help="width in CSS pixels (default: %(default)s)"
    )
    parser.add_argument("--scheme", choices=("light", "dark"), default="light")
    args = parser.parse_args()
    options = webdriver.ChromeOptions()
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{flag}")
    options.binary_location = shutil.which("chromium") or ""
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    with webdriver.Chrome(options=options, service=service) as driver:
        scheme = {"name": "prefers-color-scheme", "value": args.scheme}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        for name in args.names or functions:
            functions[name](driver, args)


if __name__ == "__main__":
    main()
