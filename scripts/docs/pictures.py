"""Take the picture of the correction page for its guide.

    python scripts/docs/correction_picture.py

The page is that of the package. In place of a server, a fixed answer corrects the text, so that the
picture only changes with the page. It needs selenium, Chromium and its driver. The options --width
and --scheme show the page on a phone and in dark mode.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "fairseq_ssl/inference/correction_page.html"
PICTURE = ROOT / "docs/assets/correction_page.png"
TEXT = (
    "Yesterday we [goes|went] to[| the] museum with two [child|children]. "
    "They [was|were] very [exited|excited] [about|by] the old trains."
)
"""A text with edits: what is removed and what is added."""
EDITS = [
    ("R:VERB:TENSE", 0.993),
    ("M:DET", 0.942),
    ("R:NOUN:NUM", 0.99),
    ("R:VERB:SVA", 0.987),
    ("R:SPELL", 0.958),
    ("R:PREP", 0.574),
]
"""Their types and probabilities."""
REJECTED, EXPLAINED = 5, 4
"""Indices of the edits that are rejected and selected."""
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


def main() -> None:
    """Write the picture."""
    from selenium import webdriver

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=PICTURE)
    parser.add_argument(
        "--width", type=int, default=1200, help="width in CSS pixels (default: %(default)s)"
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
        size = {"width": args.width, "height": 100, "deviceScaleFactor": 2, "mobile": False}
        for _ in range(2):  # the second time with the height of the page
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            correct_text(driver)
            size["height"] = driver.execute_script("return document.documentElement.scrollHeight")
        driver.save_screenshot(str(args.output))


if __name__ == "__main__":
    main()
