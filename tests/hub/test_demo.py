"""What the page shows, without a browser: the same as the verbs, and messages for text that is none."""

import ast
import asyncio
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from tiny_models import save_routed, save_tiny

import hfxling
from hfxling.cli import main
from hfxling.data.sample import sample_texts
from hfxling.encoders.dense import SentenceEncoder
from hfxling.encoders.fusion import fit_fusion
from hfxling.encoders.sparse import LexicalEncoder
from hfxling.files import weights_hash
from hfxling.hub.demo import load_page, page_folder
from hfxling.hub.record import folder_files

pytest.importorskip("gradio", reason="needs gradio: pip install 'hfxling[demo]'")
ROOT = Path(__file__).resolve().parents[2]
PAIR = ("zh", "vi")
ZH, VI = (sample_texts(lang, "test", generated=0) for lang in PAIR)
app = load_page()


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """lexical, aligner, routed and plain: one model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    zh, vi = (sample_texts(lang)[:300] for lang in PAIR)
    hfxling.save_lexical(hfxling.fit_lexical(zh, vi, PAIR, rank=8, progress=False), folder / "lexical")
    options = {"prior": True, "size": 8, "num_train_epochs": 1, "progress": False}
    hfxling.save_aligner(hfxling.fit_aligner(zh[:60], vi[:60], PAIR, **options), folder / "aligner")
    save_tiny("bert", folder / "plain")
    save_routed(folder / "plain", folder / "routed")
    return folder


@pytest.fixture(scope="module")
def lexical(folders):
    return app.Shown(str(folders / "lexical"))


def test_the_page_stands_on_verbs():
    """What it imports of the package beside public names: sample text, the check of languages, the kind of a model."""
    tree = ast.parse((page_folder() / "app.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in modules if module.partition(".")[0] == "hfxling"}
    assert ours == {"hfxling.data.faults", "hfxling.data.sample", "hfxling.models.loading"}


def test_nearest_translations_and_their_picture(lexical):
    rows, places = lexical.nearest(f"{ZH[20]}\n\n  {ZH[5]}\n", "\n".join(VI), *PAIR)
    found = hfxling.nearest([ZH[20], ZH[5]], candidates=VI, lexical=lexical.encoder.name)
    assert [row[1] for row in rows] == [text for texts in found.texts for text in texts]
    assert np.allclose([row[2] for row in rows], found.scores.ravel(), atol=1e-3)
    assert [row[0] for row in rows] == [ZH[20], "", "", ZH[5], "", ""]
    assert list(places["text"]) == [ZH[20], ZH[5], *VI]
    assert np.isfinite(places[["x", "y"]].to_numpy()).all()


def test_a_candidate_without_known_segments_does_not_break_the_answer(lexical):
    rows, places = lexical.nearest(f"{ZH[20]}\n{ZH[5]}", "\n".join([*VI[:8], "ꙮꙮꙮ"]), *PAIR)
    assert len(rows) == 6
    assert np.isfinite(places[["x", "y"]].to_numpy()).all()
    assert {ZH[20], VI[0]} <= set(places["text"])
    rows, places = lexical.nearest(ZH[20], "ꙮꙮꙮ\nꙮꙮ", *PAIR)
    assert [row[0] for row in rows] == [ZH[20], ""]


def test_links_of_words_and_the_rest_are_the_score(lexical):
    table, told, terms = lexical.word_links(ZH[20], VI[20], *PAIR)
    explained = hfxling.explain(ZH[20], VI[20], model=lexical.encoder.name)
    assert f"Score {explained.score:+.3f}" in told
    assert [row[:2] for row in terms] == [[term.source, term.target] for term in explained.terms[: len(terms)]]
    assert "".join(row[0] for row in table["data"]) == ZH[20]
    words = hfxling.align_words([ZH[20]], [VI[20]], model=lexical.encoder.name, units="segments").pairs[0]
    linked = {(i, j) for i, row in enumerate(table["data"]) for j, cell in enumerate(row[1:]) if cell}
    assert linked == set(words.links)
    assert len(table["headers"]) == len(table["data"][0]) == len(words.target) + 1
    i, j = words.links[int(np.argmax(words.scores))]
    left, right = words.source[i].text, words.target[j].text
    assert table["metadata"]["styling"][i][j + 1]
    reasons = lexical.reasons(ZH[20], VI[20], *PAIR, [i, j + 1])
    assert [left, right] in [row[:2] for row in reasons]
    assert all(left in row[0] for row in reasons)


def test_an_aligner_shows_its_own_links(folders):
    model = app.Shown(str(folders / "aligner"))
    table, told, terms = model.word_links(ZH[20], VI[20], *PAIR)
    assert terms == []
    assert "Score" not in told
    assert any(cell for row in table["data"] for cell in row[1:])
    assert len(model.nearest(ZH[20], "\n".join(VI), *PAIR)[0]) == 3


@pytest.mark.parametrize("name", ["lexical", "routed"])
def test_mined_pairs_are_those_of_the_command(folders, tmp_path, name):
    texts = ["\n".join(ZH[:30]), "\n".join(sorted(VI[10:40]))]
    (tmp_path / "page").mkdir()
    rows, told, path = app.Shown(str(folders / name)).mine(*texts, *PAIR, folder=tmp_path / "page")
    for text, lang in zip(texts, PAIR):
        (tmp_path / lang).write_text(text, encoding="utf-8")
    key = "--lexical" if name == "lexical" else "--model"
    given = f"{tmp_path}/zh {tmp_path}/vi --languages zh vi {key} {folders / name} --margin distance"
    main(
        ["mine", *shlex.split(given), "--output", str(tmp_path / "command.tsv"), "--cache_dir", str(tmp_path / "cache")]
    )
    assert Path(path).read_text(encoding="utf-8") == (tmp_path / "command.tsv").read_text(encoding="utf-8")
    assert len(rows) > 0
    assert f"{len(rows)} pairs of 30 and 30" in told
    assert list((tmp_path / "page").iterdir()) == [Path(path).parent]  # the vectors are gone


def test_scores_are_those_of_quality(folders, lexical):
    for model, options in (
        (lexical, {"lexical": "lexical"}),
        (app.Shown(str(folders / "routed")), {"model": "routed"}),
    ):
        table = model.quality("\n".join(ZH[:5]), "\n".join(VI[:5]), *PAIR)
        judged = hfxling.quality(
            ZH[:5], VI[:5], languages=PAIR, **{key: str(folders / name) for key, name in options.items()}
        )
        (name,) = judged.scores
        assert table["headers"] == ["sentence", "translation", name, "flags"]
        assert np.allclose([row[2] for row in table["data"]], judged.scores[name], atol=1e-3)
    with pytest.raises(ValueError, match="2"):
        lexical.quality("\n".join(ZH[:2]), VI[0], *PAIR)


@pytest.mark.parametrize(
    ("sentences", "candidates", "pair", "message"),
    [
        ("", VI[0], PAIR, "There is no text in the sentences. Write something"),
        (ZH[0], " \n ", PAIR, "There is no text in the candidates"),
        (ZH[0], f"{VI[0]}\n" * 1_500, PAIR, f"The candidates: 1,500 lines, and this page takes {app.MAX_LINES:,}"),
        (ZH[0], "x" * 300_000, PAIR, f"The candidates: 300,000 letters, and this page takes {app.MAX_TEXT:,}"),
        (f"{ZH[0]}\n{'我' * 3000}", VI[0], PAIR, f"line 2 has 3,000 letters, and a sentence here {app.MAX_LETTERS:,}"),
        (VI[0], VI[0], PAIR, "The sentences should be in 'zh', but it looks like another language"),
        (ZH[0], "\n".join([*ZH[:6], *VI[:4]]), PAIR, "in 'vi', but 6 of its 10 lines look like another language"),
        (ZH[0], ZH[0], ("zh", "zh"), "Both languages are 'zh'. Choose two."),
    ],
)
def test_text_that_is_none_gets_a_message(lexical, tmp_path, sentences, candidates, pair, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lexical.nearest(sentences, candidates, *pair)
    others = message.replace("sentences", "first text").replace("candidates", "second text")
    with pytest.raises(ValueError, match=re.escape(others)):
        lexical.mine(sentences, candidates, *pair, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_links_of_very_long_sentences_are_not_drawn(lexical):
    with pytest.raises(ValueError, match=f"2,000 letters, and a sentence here {app.MAX_LINKED}"):
        lexical.word_links("我" * 2_000, "a" * 2_000, *PAIR)
    table, _, _ = lexical.word_links("我" * app.MAX_LINKED, "đ " * (app.MAX_LINKED // 2 - 1) + "đ", *PAIR)
    assert len(json.dumps(table)) < 2**21


def test_what_a_user_writes_is_never_markup(lexical):
    import gradio

    def refuse(*_: str) -> None:
        raise ValueError('<script>alert("x")</script>')

    with pytest.raises(gradio.Error) as error:
        app._answered(refuse)()
    assert "<script" not in error.value.message
    blocks = app.page(lexical, Path("."))
    for component in blocks.config["components"]:  # tables are text: none of their columns is html or markdown
        if component["type"] == "dataframe":
            assert set(np.ravel(component["props"]["datatype"])) == {"str"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "plain", "languages": ("zh", "vi")}, None),
        ({"model": "routed", "languages": ("th", "vi")}, "language 'th' is none of the model's: zh, vi"),
        ({"model": "lexical", "lexical": "none"}, "lexical='.*none' is neither the folder"),
        ({"model": "none"}, "is neither the folder of a model"),
    ],
)
def test_models_and_languages(folders, settings, message):
    given = {key: str(folders / value) if key in ("model", "lexical") else value for key, value in settings.items()}
    if message:
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            app.Shown(**given)
        return
    model = app.Shown(**given)
    assert (model.pair, model.aligner) == (("zh", "vi"), None)
    assert isinstance(model.encoder, SentenceEncoder)


def labels(blocks) -> list[str]:
    """Names of the tabs."""
    return [block["props"]["label"] for block in blocks.config["components"] if block["type"] == "tabitem"]


def test_a_tab_that_a_model_cannot_serve_is_not_there(folders, lexical, tmp_path):
    plain = app.Shown(str(folders / "plain"))
    assert labels(app.page(plain, tmp_path)) == ["Nearest translations", "Mine two texts", "Score translations"]
    with_links = ["Nearest translations", "Word links", "Mine two texts", "Score translations"]
    assert labels(app.page(lexical, tmp_path)) == with_links


@pytest.fixture(scope="module")
def fused(folders) -> tuple[Path, Path]:
    """A dense encoder and the links that its fusion is for."""
    dense, sparse = SentenceEncoder(str(folders / "routed")), LexicalEncoder(str(folders / "lexical"))
    texts = dict(zip(PAIR, (ZH[:60], VI[:60])))
    pools = {
        (lang, role): tuple(x.encode(texts[lang], lang, role) for x in (dense, sparse))
        for lang in PAIR
        for role in ("query", "document")
    }
    fold = pools["zh", "query"], pools["vi", "document"]
    shutil.copytree(folders / "routed", folders / "dense")
    fusion = fit_fusion([(*fold, fold)], pools, lexical=weights_hash(sparse.name), languages=PAIR)
    replace(fusion, weight=0.5).save(folders / "dense")
    return folders / "dense", folders / "lexical"


# Runs a Space's app.py but for the server.
SPACE = """
import importlib.util, json, sys
from pathlib import Path

app = Path(sys.argv[1])
spec = importlib.util.spec_from_file_location("app", app)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
shown = module.Shown(**json.loads(app.with_name("demo.json").read_text()))
rows, _ = shown.nearest(*sys.argv[2:], "zh", "vi")
print(json.dumps([shown.aligner is not None, rows]))
"""


@pytest.mark.slow
def test_a_space_of_both_parts_needs_their_ids_alone(fused, hub, tmp_path):
    for name, folder in zip(("org/dense", "org/links"), fused):
        hub.put(name, {key: path.read_bytes() for key, path in folder_files(folder).items()})
    hub.put("org/other", hub.files("org/links") | {"x.safetensors": b"x"})
    hfxling.demo("org/dense", lexical="org/links", space=tmp_path / "space")
    hfxling.demo("org/dense", lexical="org/other", space=tmp_path / "other")
    texts = [f"{ZH[20]}\n{ZH[5]}", "\n".join(VI[:30])]

    def opened(space: str, **environment: str) -> subprocess.CompletedProcess:
        env = hub.env(tmp_path) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
        command = [sys.executable, "-c", SPACE, str(tmp_path / space / "app.py"), *texts]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)

    found, offline = opened("space"), opened("space", HF_HUB_OFFLINE="1")
    assert found.returncode == 0, found.stderr[-2000:]
    here = app.Shown(str(fused[0]), str(fused[1]))
    expected, _ = here.nearest(*texts, *PAIR)
    for done in (found, offline):
        has_links, rows = json.loads(done.stdout.splitlines()[-1])
        assert has_links
        assert rows == expected
    assert "org/dense: its fusion.json was made for the sparse encoder" in opened("other").stderr


def test_a_space_has_what_the_hub_wants_of_one(tmp_path, capsys):
    main(["demo", "org/zh-vi", "--source_lang", "zh", "--target_lang", "vi", "--space", f"{tmp_path}/space"])
    assert "hf upload ORG/NAME" in capsys.readouterr().out
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "space").iterdir()}
    assert files.keys() == {"README.md", "app.py", "demo.json", "requirements.txt"}
    front = yaml.safe_load(files["README.md"].split("---")[1])
    assert front["sdk"] == "gradio"
    assert front["app_file"] == "app.py"
    assert front["models"] == ["org/zh-vi"]
    assert front["sdk_version"].split(".")[0].isdigit()
    assert files["requirements.txt"] == f"hfxling[demo]=={hfxling.__version__}\n"
    settings = json.loads(files["demo.json"])
    assert (settings["model"], settings["languages"]) == ("org/zh-vi", ["zh", "vi"])
    assert files["app.py"] == (page_folder() / "app.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "{}"], "is no id on the Hub"),
        (["--model", "org/x\nsdk: docker"], "is no id on the Hub"),
        (["--model", "org/x\n"], "is no id on the Hub"),
        (["--model", "https://me:hf_abcdefghijklmnopqrstuvwxyz012345@huggingface.co/org/x"], "is no id on the Hub"),
        (["--model", "org/x", "--candidates", "c.txt"], "candidates='c.txt' is a file of this machine"),
        (["--model", "org/x", "--space", "{}"], "holds files that hfxling did not write (a)"),
        (["--model", "org/x", "--port", "0"], "port=0: give 1 to 65535"),
        ([], "give a model, --lexical, or both"),
    ],
)
def test_no_space_of_what_is_not_on_the_hub(tmp_path, capsys, words, message):
    (tmp_path / "a").touch()
    argv = ["demo", *(word.format(tmp_path) for word in words)]
    if "--space" not in words:
        argv += ["--space", f"{tmp_path}/space"]
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert "hf_abc" not in error
    assert not (tmp_path / "space").exists()


def test_gradio_is_named_where_it_is_missing(monkeypatch, refusal):
    monkeypatch.setattr("hfxling.hub.demo.find_spec", lambda name: None)
    assert "pip install 'hfxling[demo]'" in refusal(lambda: hfxling.demo("org/x"))


@pytest.mark.parametrize("has_length", [True, False])
def test_requests_are_bounded(has_length):
    size = app.MAX_REQUEST + 1
    served, sent = [], []

    async def inner(scope, receive, send):
        message = await receive()
        while message["type"] == "http.request" and message.get("more_body"):
            message = await receive()
        served.append(message["type"])

    async def receive():
        return {"type": "http.request", "body": b"x" * (size // 4), "more_body": True}

    async def send(message):
        sent.append(message)

    headers = [(b"content-length", str(size).encode())] if has_length else []
    asyncio.run(app.BoundedRequests(inner)({"type": "http", "headers": headers}, receive, send))
    if has_length:
        assert (served, sent[0]["status"]) == ([], 413)
    else:
        assert served == ["http.disconnect"]


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_page_leaves_no_folder(folders, tmp_path, stop):
    code = f"import hfxling; hfxling.demo({str(folders / 'lexical')!r})"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "HF_HUB_OFFLINE": "1"}
    with (tmp_path / "log").open("w") as log:
        page = subprocess.Popen([sys.executable, "-c", code], env=env, cwd=tmp_path, stdout=log, stderr=log)
    try:
        for _ in range(240):
            if "Running on" in (tmp_path / "log").read_text():
                break
            assert page.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.25)
        assert list(temporary.glob("hfxling-demo-*"))
        page.send_signal(stop)
        page.wait(20)
    finally:
        page.kill()
    assert [path for path in temporary.iterdir() if "torch" not in path.name] == []
