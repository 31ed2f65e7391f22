"""The page in headless Chromium: a Space as it is written, its model from the stand-in Hub, all tabs and messages.

With HFXLING_SCREENSHOTS=FOLDER the pictures of docs/demo.md are written there (docs/ has them).
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import hfxling
from hfxling.data.sample import sample_texts

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[dev]'")
from hub_server import HubServer, Repo  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ZH, VI = (sample_texts(lang, "test", generated=0) for lang in ("zh", "vi"))
REPO = "org/zh-vi"
CARD = """# zh-vi

Translations and word links of Chinese and Vietnamese, counted in 700 sentence pairs.

## Results
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("gradio") is None, reason="needs gradio: pip install 'hfxling[demo]'"),
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
    files["README.md"] = CARD.encode()
    hfxling.demo(REPO, space=folder / "space")
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


@pytest.fixture(params=[1100, 390], ids=["wide", "narrow"])
def page(address, request):
    """The page, opened in a window of that width; it must not ask any other machine for anything."""
    asked = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": request.param, "height": 900}, accept_downloads=True)
        page.set_default_timeout(20_000)
        page.on("request", lambda request: asked.append(request.url))
        page.goto(address)
        page.get_by_role("gridcell", name=VI[20]).first.wait_for()  # it answers before anybody clicks
        yield page
        browser.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


def shoot(page, name: str, tmp_path: Path) -> None:
    """Write a small PNG, in docs where it is asked for; nothing may be wider than the window."""
    from PIL import Image

    width = page.viewport_size["width"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    path = tmp_path / (f"demo_{name}.png" if width > 500 else f"demo_{name}_narrow.png")
    page.mouse.move(0, 0)
    page.wait_for_timeout(400)  # until nothing fades any more
    page.screenshot(path=path, full_page=True)
    with Image.open(path) as picture:
        assert picture.width == width
        small = picture.convert("RGB").quantize(96, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    assert path.stat().st_size < 100_000
    if folder := os.environ.get("HFXLING_SCREENSHOTS"):
        shutil.copy(path, folder)


def rows_of(page, name: str) -> list[list[str]]:
    """Cells of the table of that label."""
    table = page.get_by_label(name, exact=True).filter(visible=True)
    table.locator("[role=gridcell]").first.wait_for()
    rows = []
    for row in table.locator("[role=row]:has([role=gridcell])").all():
        rows.append([" ".join(cell.split()) for cell in row.locator("[role=gridcell]").all_inner_texts()])
    return rows


def test_translations_are_found(page, tmp_path):
    assert [row[1] for row in rows_of(page, "nearest")[::3]] == VI[20:23]
    shoot(page, "nearest", tmp_path)
    page.get_by_label("sentences, one a line", exact=True).first.fill(ZH[30])
    page.get_by_role("button", name="Find translations").click()
    page.get_by_role("gridcell", name=VI[30]).first.wait_for()
    assert [row[1] for row in rows_of(page, "nearest")[::3]] == [VI[30]]


def test_linked_words_are_coloured(page, tmp_path):
    page.get_by_role("tab", name="Words").click()
    rows = rows_of(page, "links")
    assert ["叫", "bảo"] in [row[:2] for row in rows]
    assert all(0 <= float(row[2]) <= 1 for row in rows)
    assert rows_of(page, "what makes the score")[0][0] == "(any sentence)"
    style = "node => getComputedStyle(node.closest('.token')).backgroundColor"
    colours = []
    for word in ("叫", "bảo", "听"):
        colours.append(page.locator(".token").get_by_text(word, exact=True).first.evaluate(style))
    assert colours[0] == colours[1] != colours[2]
    shoot(page, "links", tmp_path)


def test_pairs_are_mined_and_can_be_taken_home(page, tmp_path):
    page.get_by_role("tab", name="Mine").click()
    page.get_by_role("button", name="Mine pairs").click()
    page.get_by_text("pairs of 40 and 40 sentences").wait_for()
    rows = rows_of(page, "pairs")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as TSV").click()
    header, *lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert download.value.suggested_filename == "pairs.zh-vi.tsv"
    assert header.split("\t")[:3] == ["score", "source", "target"]
    assert [line.split("\t")[1:3] for line in lines][: len(rows)] == [row[1:3] for row in rows]
    right = [VI[ZH.index(row[1])] == row[2] for row in rows]
    assert sum(right[:10]) >= 9
    shoot(page, "mining", tmp_path)


def test_translations_are_scored(page):
    page.get_by_role("tab", name="Score").click()
    rows = rows_of(page, "scores")
    assert rows[0][:2] == [ZH[20], VI[20]]
    assert float(rows[4][2]) < float(rows[0][2])  # a translation of another sentence


@pytest.mark.parametrize(
    ("tab", "button", "label", "text", "message"),
    [
        ("Find", "Find translations", "sentences, one a line", "", "There is no text in the sentences"),
        ("Words", "Show links", "a sentence", "我" * 500, "500 letters, and a sentence here 400"),
        ("Mine", "Mine pairs", "a text, one sentence a line", "今天下雨。\n" * 10_000, "10,000 lines"),
    ],
)
def test_bad_text_is_answered_in_the_page(page, tab, button, label, text, message):
    page.get_by_role("tab", name=tab).click()
    write = "(field, text) => { field.value = text; field.dispatchEvent(new Event('input', {bubbles: true})); }"
    field = page.get_by_label(label, exact=True).filter(visible=True)
    field.evaluate(write, text)  # typing 10,000 lines takes the driver minutes
    page.get_by_role("button", name=button).click()
    page.get_by_text(message).filter(visible=True).first.wait_for()


def test_another_direction_has_other_text_and_its_answer(page):
    page.get_by_label("languages").click()
    page.get_by_role("option", name="vi to zh", exact=True).click()
    page.get_by_role("gridcell", name=ZH[20]).first.wait_for()
    sentences = page.get_by_label("sentences, one a line", exact=True).filter(visible=True)
    playwright.expect(sentences).to_have_value("\n".join(VI[20:23]))
    assert rows_of(page, "nearest")[0][:2] == [VI[20], ZH[20]]


def test_requests_are_bounded(address):
    body = b"[" + b"1," * 2_200_000
    for target in ("queue/join", "upload"):
        request = Request(f"{address}/gradio_api/{target}", body, {"Content-Type": "application/json"})
        with pytest.raises(OSError, match=r"413|reset|pipe"):  # the server need not read to the end
            urlopen(request, timeout=30)


def test_programs_ask_as_people_do(address):
    client = pytest.importorskip("gradio_client").Client(address, verbose=False)
    _, table = client.predict(ZH[20], "\n".join(VI[:40]), "zh to vi", api_name="/nearest")
    assert table["data"][0][:2] == [ZH[20], VI[20]]
    names = set(client.view_api(return_format="dict")["named_endpoints"])
    assert names == {"/nearest", "/links", "/mine", "/quality"}
