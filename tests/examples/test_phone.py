"""A static model on a phone: model2vec's folder, the graph, ids in JavaScript, and the page in headless Chromium.

The page needs onnxruntime-web: HFXLING_ORT names its folder dist. With HFXLING_SCREENSHOTS=FOLDER a picture of the page
is written there.
"""

import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from builders import write_documents
from safetensors.numpy import load_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer

import hfxling
from examples.phone import make_page as phone
from hfxling.data.sample import sample_texts

pytest.importorskip("onnx", reason="needs onnx: pip install 'hfxling[onnx]'")
FOLDER = Path(phone.__file__).parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
ORT = os.environ.get("HFXLING_ORT")
PAIRS = ("zh-vi", "lo-zh", "lo-th")  # words looked up whole, cut into pieces on one side, on both
ODD = [
    "",
    "  \t ",
    "ΣΊΣΥΦΟΣ İstanbul ﬁn ½ ① ＡＢＣ１２３",
    "<s> <pad> <unk> ##a",
    "👩‍👩‍👧 🇱🇦 ￼ \u200b\ufeff\u00ad",
    "ກໍ່າ ເເກ ນໍ້າ ຫຼາຍ ໜ ໝ ກ\u200bຂ",
    "zu\u0323\u0302ng Nguye\u0302\u0303n Đặng ĐẮC",
    "这是𠮷野家。日本語のテキスト々",
    "ກꞏqwxzñጀກ qwxñz",
    "ลาว ไทย",
    "1,234.5% ๑๒๓ ໑໒໓ Ⅷ",
    "xuất\u00adkhẩu \u200eThanh\u202c ງາມ\u2060ງາມ",
    "ກ" * 999 + " " + "ກ" * 1000 + " " + "ກ" * 1001 + " " + "ກ" * 600 + "ñ" + "ກ" * 600,
]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Path]:
    """Folders of models by language pair."""
    folder = tmp_path_factory.mktemp("models")
    for pair in PAIRS:
        source, target = pair.split("-")
        texts = [sample_texts(lang, generated=0) for lang in (source, target)]
        model = hfxling.fit_lexical(*texts, (source, target), progress=False)
        hfxling.save_lexical(model, folder / pair)
    return {pair: folder / pair for pair in PAIRS}


@pytest.fixture(scope="module")
def pages(models, tmp_path_factory) -> dict[str, Path]:
    """Output folders by language pair."""
    folder = tmp_path_factory.mktemp("pages")
    for pair, model in models.items():
        phone.make_page(model, folder / pair, ort=Path(ORT) if ORT else None)
    return {pair: folder / pair for pair in PAIRS}


def cut(page: Path, texts: list[str]) -> list[list[int]]:
    """Ids by the tokenizer of model2vec's folder."""
    tokenizer = Tokenizer.from_file(str(page / "model2vec" / "tokenizer.json"))
    return [row.ids for row in tokenizer.encode_batch(texts)]


def texts_of(pair: str) -> list[str]:
    """Test text of both languages."""
    return [text for lang in pair.split("-") for text in sample_texts(lang, "test")]


def tables(page: Path) -> dict[str, np.ndarray]:
    return load_file(page / "model2vec" / "model.safetensors")


def expected(page: Path, ids: list[list[int]]) -> np.ndarray:
    """Unit vectors from the table of 8 bits, in a slow loop."""
    table = tables(page)
    rows = []
    for row in ids:
        total = np.zeros(table["embeddings"].shape[1])
        for number in row:
            total += table["embeddings"][number].astype(float) * table["weights"][number]
        rows.append(total / max(np.linalg.norm(total), 1e-12))
    return np.array(rows)


def test_words_that_are_looked_up_whole_have_the_ids_of_the_model(models, pages):
    own = Tokenizer.from_file(str(models["zh-vi"] / "0_StaticEmbedding" / "tokenizer.json"))
    texts = texts_of("zh-vi")
    ids = cut(pages["zh-vi"], texts)
    assert ids == [row.ids for row in own.encode_batch(texts)]
    assert any(1 in row for row in ids)  # an unknown word is no reason to cut it


def test_pieces_are_the_longest_that_fit(models, pages):
    own = json.loads((models["lo-zh"] / "0_StaticEmbedding" / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = [piece for piece, _ in own["model"]["vocab"]]
    (ids,) = cut(pages["lo-zh"], ["ຂ້ອຍກິນເຂົ້າ"])
    left = "ຂ້ອຍກິນເຂົ້າ"
    for number in ids:
        assert pieces[number] == max(filter(left.startswith, pieces), key=len)
        left = left.removeprefix(pieces[number])
    assert left == ""


def test_an_unknown_letter_leaves_the_rest_of_its_word(pages):
    with_it, without = cut(pages["lo-zh"], ["ກິນqñເຂົ້າກິນ\u0e01\u0351ນ", "ກິນ"])
    assert 1 in with_it
    assert with_it[: len(without)] == without


@pytest.mark.parametrize("pair", PAIRS)
def test_rounding_to_8_bits_is_all_that_is_lost(models, pages, pair):
    table, _ = phone.read_static(models[pair])
    written = tables(pages[pair])
    assert written["embeddings"].dtype == np.int8
    gap = np.abs(written["embeddings"] * written["weights"][:, None] - table)
    assert (gap <= written["weights"][:, None] * 0.5001).all()
    assert (gap[: phone.SPECIAL] == 0).all()


@pytest.mark.parametrize("pair", PAIRS)
def test_the_graph_has_the_vectors_of_the_table(pages, pair):
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(pages[pair] / "model.onnx", providers=["CPUExecutionProvider"])
    ids = cut(pages[pair], [*texts_of(pair)[:40], ""])
    padded = np.zeros((len(ids), max(map(len, ids))), np.int32)
    for row, numbers in zip(padded, ids):
        row[: len(numbers)] = numbers
    (vectors,) = session.run(["sentence_embedding"], {"input_ids": padded})
    np.testing.assert_allclose(vectors, expected(pages[pair], ids), atol=1e-5)
    assert (vectors[-1] == 0).all()


@pytest.mark.parametrize("pair", PAIRS)
def test_model2vec_reads_the_folder(pages, pair):
    model2vec = pytest.importorskip("model2vec", reason="needs model2vec: pip install model2vec")
    texts = texts_of(pair)[:40]
    vectors = model2vec.StaticModel.from_pretrained(pages[pair] / "model2vec").encode([*texts, "ກ" * 3000])
    np.testing.assert_allclose(vectors[:-1], expected(pages[pair], cut(pages[pair], texts)), atol=1e-5)


def test_translations_are_found_as_by_the_model(models, pages):
    zh, vi = (sample_texts(lang, "test")[:100] for lang in ("zh", "vi"))
    model = SentenceTransformer(str(models["zh-vi"]))
    rights = np.arange(100)
    own = (model.encode(zh) @ model.encode(vi).T).argmax(1) == rights
    ours = (
        expected(pages["zh-vi"], cut(pages["zh-vi"], zh)) @ expected(pages["zh-vi"], cut(pages["zh-vi"], vi)).T
    ).argmax(1)
    assert own.mean() > 0.5
    assert abs(own.mean() - (ours == rights).mean()) <= 0.02


@pytest.mark.skipif(not shutil.which("node"), reason="needs node: apt-get install nodejs")
@pytest.mark.parametrize("pair", PAIRS)
def test_javascript_has_the_same_ids(pages, pair):
    texts = [*texts_of(pair), *ODD]
    program = (
        f"import {{ Tokenizer }} from {json.dumps((FOLDER / 'tokenizer.js').as_uri())};"
        'import { readFileSync } from "node:fs";'
        f"const vocabulary = JSON.parse(readFileSync({json.dumps(str(pages[pair] / 'vocab.json'))}, 'utf8'));"
        "const tokenizer = new Tokenizer(vocabulary);"
        "const texts = JSON.parse(readFileSync(0, 'utf8'));"
        "console.log(JSON.stringify(texts.map((text) => tokenizer.encode(text))));"
    )
    command = ["node", "--input-type=module", "--eval", program]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    theirs = json.loads(done.stdout)
    assert len(texts) > 700
    for text, ours, own in zip(texts, cut(pages[pair], texts), theirs, strict=True):
        assert own == ours, text[:80]


def test_dimensions_are_as_many_as_fit_or_as_asked_for(models, pages, tmp_path, monkeypatch):
    table, _ = phone.read_static(models["zh-vi"])
    assert tables(pages["zh-vi"])["embeddings"].shape == table.shape
    monkeypatch.setattr(phone, "MEGABYTES", 0.1)
    phone.make_page(models["zh-vi"], tmp_path / "small")
    size = sum((tmp_path / "small" / name).stat().st_size for name in ("model.onnx", "vocab.json"))
    assert 90_000 < size < 102_000  # the graph itself has a kilobyte
    said = phone.make_page(models["zh-vi"], tmp_path / "small", dimensions=12)  # replaces the first
    assert said[0].endswith(" pieces of 12 dimensions")
    codes, scales = phone.in_8_bits(table[:, :12])
    assert (tables(tmp_path / "small")["embeddings"] == codes).all()
    assert (tables(tmp_path / "small")["weights"] == scales).all()


def run_script(monkeypatch, *words) -> None:
    monkeypatch.setattr(sys, "argv", ["make_page.py", *map(str, words)])
    phone.main()


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (lambda folder: shutil.rmtree(folder), [], "no such folder; give the one that"),
        (lambda folder: (folder / "router_config.json").touch(), [], "take languages that their scripts tell apart"),
        (lambda folder: shutil.rmtree(folder / "0_StaticEmbedding"), [], "has no static vectors"),
        (lambda folder: None, ["--dimensions", "5000"], "dimensions=5000"),
        (lambda folder: None, ["--dimensions", "0"], "dimensions=0"),
        (lambda folder: None, ["--ort", "."], "give the folder dist of onnxruntime-web"),
        (lambda folder: None, ["--sentences", "none.txt"], "none.txt"),
        (lambda folder: other_tokenizer(folder), [], "fit the model anew"),
        (lambda folder: (folder.parent / "page").write_text("mine"), [], "is a file; name a folder"),
        (lambda folder: mine(folder.parent / "page"), [], "files that hfxling did not write (mine.txt)"),
    ],
)
def test_what_makes_no_page_is_refused_in_a_line(models, tmp_path, monkeypatch, refusal, change, options, message):
    folder = tmp_path / "model"
    shutil.copytree(models["zh-vi"], folder)
    change(folder)
    before = sorted(tmp_path.rglob("*"))
    assert message in refusal(lambda: run_script(monkeypatch, folder, tmp_path / "page", *options))
    assert sorted(tmp_path.rglob("*")) == before


def test_an_earlier_page_stays_until_the_new_one_is_complete(models, tmp_path, monkeypatch):
    phone.make_page(models["zh-vi"], tmp_path / "page", dimensions=8)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}

    def full(*parts):
        raise OSError("no space left")

    monkeypatch.setattr(phone, "write_onnx", full)
    with pytest.raises(OSError, match="no space left"):
        phone.make_page(models["lo-zh"], tmp_path / "page")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def other_tokenizer(folder: Path) -> None:
    path = folder / "0_StaticEmbedding" / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(content | {"normalizer": None}), encoding="utf-8")


def mine(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine.txt").touch()


def test_languages_without_a_table_in_common_are_refused(tmp_path, monkeypatch, refusal):
    texts = [sample_texts(lang, generated=0)[:60] for lang in ("id", "vi")]
    hfxling.save_lexical(hfxling.fit_lexical(*texts, ("id", "vi"), progress=False), tmp_path / "model")
    assert "has a table a language" in refusal(lambda: run_script(monkeypatch, tmp_path / "model", tmp_path / "page"))


def test_the_script_says_what_it_wrote(models, tmp_path, monkeypatch, capsys):
    text = tmp_path / "my.vi"
    text.write_text("Hôm nay trời mưa.\n", encoding="utf-8")
    runtime = tmp_path / "dist"
    runtime.mkdir()
    for name in (*phone.RUNTIME, "ort.min.js"):
        (runtime / name).write_text("0")
    run_script(monkeypatch, models["zh-vi"], tmp_path / "page", "--sentences", text, "--ort", runtime)
    said = capsys.readouterr().out
    assert "pieces of" in said
    assert "model.onnx and vocab.json:" in said
    assert (tmp_path / "page" / "sentences.txt").read_text(encoding="utf-8") == "Hôm nay trời mưa.\n"
    assert sorted(path.name for path in (tmp_path / "page" / "ort").iterdir()) == sorted(phone.RUNTIME)
    for name in phone.PAGE:
        assert (tmp_path / "page" / name).read_bytes() == (FOLDER / name).read_bytes()


def test_page_and_tokenizer_stay_short():
    assert all(len((FOLDER / name).read_text(encoding="utf-8").splitlines()) <= 110 for name in phone.PAGE)


def test_the_costs_are_measured(tmp_path, monkeypatch, capsys):
    pytest.importorskip("onnxruntime")
    monkeypatch.syspath_prepend(FOLDER)
    measure = importlib.import_module("measure")
    monkeypatch.setattr(measure, "TRAIN", "1-150")
    monkeypatch.setattr(measure, "TEST", "151-190")
    write_documents(tmp_path / "data")
    options = ["--data", str(tmp_path / "data"), "--pairs", "zh-vi", "--dimensions", "64", "16"]
    monkeypatch.setattr(sys, "argv", ["measure.py", *options])
    measure.main()
    rows = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [row[1].strip() for row in rows] == ["64"] * 3 + ["16"] * 3
    assert rows[0][3] == rows[1][3]  # words that are looked up whole lose nothing
    sizes = [float(row[4]) for row in rows]
    assert sizes[2] < sizes[0]
    assert sizes[3] < sizes[0]


@pytest.fixture
def address(pages):
    """Of a server of the page of Chinese and Vietnamese."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *parts):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(pages["zh-vi"])))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def window(address):
    """A page at a phone's width; it must not ask any other machine for anything."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[dev]'")
    asked = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.set_default_timeout(20_000)
        page.on("request", lambda request: asked.append(request.url))
        yield page
        browser.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="needs Chromium: apt-get install chromium")


@pytest.mark.slow
@needs_chromium
@pytest.mark.skipif(not ORT, reason="needs onnxruntime-web: HFXLING_ORT=FOLDER, its folder dist")
def test_the_page_finds_translations(window, address, pages):
    zh, vi = (sample_texts(lang, "test", generated=0)[20:32] for lang in ("zh", "vi"))
    window.goto(address)
    window.get_by_text("zh, vi: everything is computed on this device.").wait_for()
    window.get_by_label("Sentences, one a line").fill("\n".join(vi))
    sides = [expected(pages["zh-vi"], cut(pages["zh-vi"], side)) for side in (zh, vi)]
    scores = sides[0] @ sides[1].T
    found = window.get_by_label("nearest").locator("li")
    for row in (0, 3, 7):
        window.get_by_label("What to look for").fill(zh[row])
        window.get_by_text("12 sentences compared.").wait_for()
        best = int(scores[row].argmax())
        found.filter(has_text=vi[best]).first.wait_for()
        assert found.first.inner_text().split("\n") == [f"{scores[row][best]:.2f}", vi[best]]
        assert found.count() == 5
    assert (scores.argmax(1) == np.arange(12)).mean() > 0.5
    assert window.evaluate("document.documentElement.scrollWidth") <= 390
    if folder := os.environ.get("HFXLING_SCREENSHOTS"):
        shoot(window, Path(folder, "phone.png"))
    window.get_by_label("What to look for").fill("ຂ້ອຍ")
    window.get_by_text("The model knows none of these words.").wait_for()
    assert found.count() == 0


def shoot(window, path: Path) -> None:
    """Write a small PNG."""
    from PIL import Image

    window.get_by_label("Sentences, one a line").evaluate("field => { field.scrollTop = 0; }")
    window.screenshot(path=path, clip={"x": 0, "y": 0, "width": 390, "height": 760})
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(96, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)
    assert path.stat().st_size < 60_000


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(
    ("name", "message"),
    [("ort/ort.wasm.bundle.min.mjs", "onnxruntime-web is missing"), ("vocab.json", "vocab.json is missing (404)")],
)
def test_the_page_says_what_is_missing(window, address, name, message):
    if name == "vocab.json" and not ORT:
        pytest.skip("needs onnxruntime-web: HFXLING_ORT=FOLDER, its folder dist")
    window.route(f"**/{name}", lambda route: route.fulfill(status=404))
    window.goto(address)
    window.get_by_text(message).wait_for()
    assert window.get_by_label("What to look for").is_disabled()
