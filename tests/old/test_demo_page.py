"""The page in headless Chromium: a Space as it is written, its model from the stand-in Hub, all tabs and messages.

With HFXLING_SCREENSHOTS=FOLDER the three pictures of docs/demo.md are written there (docs/ has them).
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import urlopen

import pytest

import hfxling
from hfxling.data.sample import sample_texts
from hfxling.old import demo

pytest.importorskip("gradio", reason="needs gradio: pip install 'hfxling[demo]'")
playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[dev]'")
from hub_server import HubServer, Repo  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ZH, VI = (sample_texts(lang, "test", generated=0) for lang in ("zh", "vi"))
REPO = "org/zh-vi"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Of a running Space."""
    folder = tmp_path_factory.mktemp("space")
    model = hfxling.fit_lexical(*(sample_texts(lang)[:700] for lang in ("zh", "vi")), ("zh", "vi"), progress=False)
    hfxling.save_lexical(model, folder / "model")
    files = {
        path.relative_to(folder / "model").as_posix(): path.read_bytes()
        for path in (folder / "model").rglob("*")
        if path.is_file()
    }
    demo.main(["--model", REPO, "--space", str(folder / "space")])
    with HubServer() as hub, socket.socket() as free:
        hub.repos["models", REPO] = Repo("models", REPO)
        hub.repo(REPO).commit("main", files, "model")
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        env = hub.env(folder) | {"PYTHONPATH": str(ROOT), "GRADIO_SERVER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        log = (folder / "log").open("w")
        app = subprocess.Popen([sys.executable, "app.py"], cwd=folder / "space", env=env, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            assert is_up(url, app), (folder / "log").read_text()[-3000:]
            yield url
        finally:
            app.terminate()
            app.wait(10)


def is_up(url: str, app: subprocess.Popen) -> bool:
    """Wait for the page, at most two minutes."""
    for _ in range(240):
        if app.poll() is not None:
            return False
        try:
            return urlopen(url, timeout=5).status == 200
        except OSError:
            time.sleep(0.5)
    return False


@pytest.fixture
def page(address):
    """The page, opened; it must not ask any other machine for anything."""
    asked = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 1000}, accept_downloads=True)
        page.set_default_timeout(60_000)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.get_by_role("button", name="Find translations").wait_for()
        yield page
        browser.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def shoot(page, name: str, tmp_path: Path) -> None:
    """Write a small PNG, in docs where it is asked for."""
    from PIL import Image

    path = tmp_path / f"{name}.png"
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)  # until nothing fades any more
    page.screenshot(path=path, full_page=name != "demo_mining")
    with Image.open(path) as picture:
        assert picture.width == 1100
        small = picture.convert("RGB").quantize(160, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    assert path.stat().st_size < 150_000
    if folder := os.environ.get("HFXLING_SCREENSHOTS"):
        shutil.copy(path, folder)


def test_translations_are_found_and_drawn(page, tmp_path):
    page.get_by_role("button", name="Find translations").click()
    page.locator(".hx-map").wait_for()
    best = page.locator(".hx-hit .hx-row:first-of-type span").all_inner_texts()
    assert best == [VI[20], VI[5], VI[60]]
    assert page.locator(".hx-map circle").count() == 3 + 3 + len(VI)
    shoot(page, "demo_nearest", tmp_path)


def test_a_cell_tells_its_reasons(page, tmp_path):
    page.get_by_role("tab", name="Word links").click()
    page.get_by_role("button", name="Show links").click()
    page.locator(".hx-heat").wait_for()
    assert "Click a coloured cell" in page.locator(".hx-picked").inner_text()
    page.get_by_title("叫 – bảo").click()
    assert "叫 → bảo" in page.locator(".hx-picked").inner_text()
    page.get_by_title("听 – nghe").press("Enter")  # without a mouse, too
    assert "听 → nghe" in page.locator(".hx-picked").inner_text()
    shoot(page, "demo_links", tmp_path)


def test_pairs_are_mined_and_can_be_taken_home(page, tmp_path):
    page.get_by_role("tab", name="Mine two texts").click()
    page.get_by_role("button", name="Mine pairs").click()
    page.locator(".hx-pairs").wait_for()
    rows = [cells.split("\t") for cells in page.locator(".hx-pairs tr").all_inner_texts()]
    button = page.get_by_role("button", name="Download as TSV")
    button.wait_for()
    with page.expect_download() as download:
        button.click()
    header, *lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert download.value.suggested_filename == "pairs.zh-vi.tsv"
    assert header.split("\t")[:3] == ["score", "source", "target"]
    assert [line.split("\t")[1:3] for line in lines] == [row[1:3] for row in rows]
    right = [VI[ZH.index(row[1])] == row[2] for row in rows]
    assert sum(right[:10]) >= 9
    shoot(page, "demo_mining", tmp_path)


@pytest.mark.parametrize(
    ("tab", "button", "label", "text", "message"),
    [
        ("Nearest translations", "Find translations", "sentences, one a line", "", "There is no text in the sentences"),
        ("Word links", "Show links", "a sentence", VI[3], "The sentence should be in 'zh'"),
        ("Mine two texts", "Mine pairs", "a text, one sentence a line", "今天下雨。\n" * 10_000, "10,000 lines"),
    ],
)
def test_bad_text_is_answered_in_the_page(page, tab, button, label, text, message):
    page.get_by_role("tab", name=tab).click()
    write = "(field, text) => { field.value = text; field.dispatchEvent(new Event('input', {bubbles: true})); }"
    page.get_by_label(label, exact=True).evaluate(write, text)  # typing 10,000 lines takes the driver minutes
    page.get_by_role("button", name=button).click()
    alert = page.get_by_role("alert").filter(visible=True)
    alert.wait_for()
    assert message in alert.inner_text()


def test_another_direction_has_other_text(page):
    for name, lang in (("sentences", "vi"), ("translations", "zh")):
        page.get_by_label(f"language of the {name}").click()
        page.get_by_role("option", name=lang, exact=True).last.click()  # an earlier list may be closing still
    sentences = page.get_by_label("sentences, one a line", exact=True)
    playwright.expect(sentences).to_have_value("\n".join([VI[20], VI[5], VI[60]]))
    page.get_by_role("button", name="Find translations").click()
    page.locator(".hx-map").wait_for()
    assert page.locator(".hx-hit .hx-row:first-of-type span").first.inner_text() == ZH[20]
