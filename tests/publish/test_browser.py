"""The report in a browser: offline, on a laptop and a phone, by keyboard, in the dark, on paper."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import axe_core_python
import numpy as np
import pytest

from dpdistill.accounting.schedule import Budget, calibrate
from dpdistill.certificate.build import SYSTEM_NOISE
from dpdistill.method import Distilled
from dpdistill.publish.export import export
from dpdistill.query import Stage
from dpdistill.run import Result
from dpdistill.schema import Column, Schema, TableSchema

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
AXE = Path(axe_core_python.__file__).with_name("axe.min.js")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars"
)
RECIPE = {"method": "dos", "fields": {"per_class": 2, "learning_rate": 0.05}, "changed": [], "seed": 0}
RECIPE |= {"origin": "package default", "references": ["A. Author (2020). On noise."]}
LAPTOP, PHONE = (1280, 900), (390, 844)

CONTRAST = """
const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length === 3 ? [...m, 1] : m; };
const light = c => { const f = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  return 0.2126 * f(c[0]) + 0.7152 * f(c[1]) + 0.0722 * f(c[2]); };
const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
  if (c[3] === 1) return c; } return [255, 255, 255, 1]; };
const found = [];
for (const e of document.querySelectorAll('body *')) {
  if (e.closest('svg, details:not([open])')) continue;
  const said = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.data).join('').trim();
  if (!said) continue;
  const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
  found.push([(a + 0.05) / (b + 0.05), said.slice(0, 40)]);
}
return found.sort((x, y) => x[0] - y[0]);
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if BROWSER is None or DRIVER is None:
        pytest.skip("there is no Chromium with its chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in FLAGS.split():
        options.add_argument(flag)
    opened = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    opened.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    opened.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield opened
    opened.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, str]:
    """Addresses of a page of images, one of a table with long names, and one without a guarantee."""
    there, schedule = tmp_path_factory.mktemp("browser"), calibrate((Stage(4),), Budget(1.0))
    X = np.random.default_rng(0).uniform(-1, 1, (20, 8, 8, 1)).astype(np.float32)
    images = Distilled(X, np.arange(20, dtype=np.int32) % 2, Schema((8, 8, 1), (0.0, 255.0), ("cat", "W" * 60)))
    columns = [Column(f"a rather long name of column {k}", "numeric", (0.0, 1e6)) for k in range(6)]
    ward = Column("ward", "categorical", categories=("intensive care", "long" * 12))
    schema = TableSchema((*columns, ward), "outcome", ("recovered", "died"), unit="patient")
    raw = np.column_stack([np.linspace(0, 1e6, 60).reshape(10, 6), np.arange(10) % 2])
    table = Distilled(schema.to_unit(raw), np.arange(10, dtype=np.int32) % 2, schema)
    saved = {
        "images": Result(images, RECIPE, schedule, SYSTEM_NOISE).save(there / "images"),
        "table": Result(table, RECIPE, schedule, SYSTEM_NOISE).save(there / "table"),
        "unprotected": Result(images, RECIPE, None, None).save(there / "unprotected"),
    }
    officers = {}
    for name in ("images", "table"):
        made = export(saved[name], "kit", there / f"{name}-kit")
        officers[f"officer of {name}"] = Path(made / "officer.html").as_uri()
    return {name: Path(folder / "report.html").as_uri() for name, folder in saved.items()} | officers


def show(browser: Any, page: str, size: tuple[int, int] = LAPTOP, dark: bool = False, media: str = "") -> None:
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size == PHONE}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    browser.get(page)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
@pytest.mark.parametrize("name", ["images", "table", "unprotected"])
def test_it_opens_offline_and_never_scrolls_sideways(browser, pages, name, size):
    show(browser, pages[name], size)
    width, client = browser.execute_script("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert (width, client) == (size[0], size[0])
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert [address for address in loaded if not address.startswith("data:")] == []
    assert browser.execute_script("return [...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert len(browser.execute_script("return [...document.images]")) == (0 if name == "table" else 20)


def test_the_claim_is_on_the_first_screen(browser, pages):
    for size in (LAPTOP, PHONE):
        show(browser, pages["images"], size)
        bottoms = "map(e => [e.innerText, e.getBoundingClientRect().bottom])"
        seen = f"return [...document.querySelectorAll('.lead, .tile, .banner')].{bottoms}"
        texts = [text for text, bottom in browser.execute_script(seen) if bottom <= size[1]]
        assert re.search(r"at most 73\.2\s%", texts[0])
        assert any("Epsilon, ε\n1\n" in text for text in texts)
        show(browser, pages["unprotected"], size)
        assert browser.execute_script(seen)[0][0].startswith("No privacy guarantee")
        assert not browser.find_elements("css selector", ".lead")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["images", "table", "unprotected"])
def test_every_word_can_be_read(browser, pages, name, dark):
    show(browser, pages[name], dark=dark)
    red = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", red)[0]) < 60) == dark
    found = browser.execute_script(CONTRAST)
    assert len(found) > 40
    assert found[0][0] >= 4.5, found[:3]


def test_the_search_for_pale_words_finds_them(browser, pages):
    show(browser, pages["images"])
    browser.execute_script("document.querySelector('h1').style.color = '#bbbbbb'")
    assert browser.execute_script(CONTRAST)[0][0] < 2


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["images", "table", "unprotected", "officer of table"])
def test_axe_core_finds_nothing(browser, pages, name, dark):
    show(browser, pages[name], dark=dark)
    browser.execute_script(AXE.read_text())
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert [(each["id"], each["nodes"][0]["html"]) for each in found["violations"]] == []
    assert len(found["passes"]) > 20
    browser.execute_script("document.querySelector('h1').innerHTML = '<button></button>'")
    found = browser.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    assert "button-name" in [each["id"] for each in found["violations"]]


def test_the_keyboard_opens_what_is_folded(browser, pages):
    show(browser, pages["images"])
    focused = "const e = document.activeElement; return [e.tagName, getComputedStyle(e).outlineStyle]"
    body = browser.find_element("css selector", "body")
    for _ in range(12):
        body.send_keys("\ue004")  # Tab
        if browser.execute_script(focused)[0] == "SUMMARY":
            break
        body = browser.switch_to.active_element
    assert browser.execute_script(focused) == ["SUMMARY", "solid"]
    assert browser.execute_script("return document.querySelector('details').open") is False
    browser.switch_to.active_element.send_keys("\ue007")  # Enter
    assert browser.execute_script("return document.querySelector('details').open") is True


def test_a_screen_reader_has_a_name_for_everything(browser, pages):
    for name in ("images", "table"):
        show(browser, pages[name])
        assert browser.execute_script("return document.documentElement.lang") == "en"
        unnamed = (
            "return [...document.querySelectorAll('[role=img]')].filter(e => !e.getAttribute('aria-label')).length"
        )
        assert browser.execute_script(unnamed) == 0
        drawn = browser.execute_script("return document.querySelectorAll('[role=img]').length")
        assert drawn == (3 if name == "images" else 8)
        heads = browser.execute_script(
            "return [...document.querySelectorAll('th')].filter(e => !e.textContent.trim()).length"
        )
        assert heads == 0
        levels = browser.execute_script(
            "return [...document.querySelectorAll('h1,h2,h3')].map(e => Number(e.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))


@pytest.mark.parametrize("name", ["images", "table", "officer of images", "officer of table"])
def test_it_prints(browser, pages, name):
    show(browser, pages[name], dark=True, media="print")
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    paper = {"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": True}
    printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", paper)["data"])
    assert printed.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == {"images": 2, "table": 3}.get(name, 1)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_the_officers_page_fits_the_screen(browser, pages, size):
    for name in ("officer of images", "officer of table"):
        show(browser, pages[name], size)
        width = browser.execute_script("return document.documentElement.scrollWidth")
        assert width == size[0]


def test_what_scrolls_is_reached_by_keyboard_and_has_a_name(browser, pages):
    show(browser, pages["table"], PHONE)
    wide = "e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === 'auto'"
    scrolling = f"[...document.querySelectorAll('body *')].filter(e => {wide})"
    found = browser.execute_script(f"return {scrolling}.map(e => [e.tabIndex, e.getAttribute('aria-label')])")
    assert found == [[0, "synthetic rows"]]
