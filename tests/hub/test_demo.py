"""What the page shows, without a browser: the same as the verbs, and messages for text that is none."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.request import urlopen

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

pytestmark = pytest.mark.skipif(find_spec("gradio") is None, reason="needs gradio: pip install 'hfxling[demo]'")
ROOT = Path(__file__).resolve().parents[2]
PAIR = ("zh", "vi")
ZH, VI = (sample_texts(lang, "test", generated=0) for lang in PAIR)
DIRECTION = "zh to vi"


@pytest.fixture(scope="module")
def app():
    """The page's module: it loads gradio, which takes seconds."""
    return load_page()


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
def lexical(app, folders):
    return app.Demo(str(folders / "lexical"))


def test_the_page_stands_on_verbs():
    """Beside public names it imports the sample corpus alone."""
    tree = ast.parse((page_folder() / "app.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {module for module in modules if module.partition(".")[0] == "hfxling"} == {"hfxling.data.sample"}


def test_nearest_translations(lexical):
    told, rows = lexical.nearest(f"{ZH[20]}\n\n  {ZH[5]}\n", "\n".join(VI), DIRECTION)
    found = hfxling.nearest([ZH[20], ZH[5]], candidates=VI, lexical=lexical.encoder.name)
    assert [row[1] for row in rows] == [text for texts in found.texts for text in texts]
    assert [row[2] for row in rows] == [f"{score:.2f}" for score in found.scores.ravel()]
    assert [row[0] for row in rows] == [ZH[20], "", "", ZH[5], "", ""]
    assert f"{len(VI)} candidates" in told


def test_text_without_known_segments_does_not_break_the_answer(lexical):
    _, rows = lexical.nearest(f"{ZH[20]}\n{ZH[5]}", "\n".join([*VI[:8], "ꙮꙮꙮ"]), DIRECTION)
    assert len(rows) == 6
    _, rows = lexical.nearest("ꙮꙮꙮ", "ꙮꙮꙮ\nꙮꙮ", DIRECTION)
    assert [row[0] for row in rows] == ["ꙮꙮꙮ", ""]
    told, *_, links, _ = lexical.links("ꙮꙮꙮ", VI[0], DIRECTION)
    assert (links, "0 links" in told) == ([], True)


def colours_of(highlighted) -> dict[int, str]:
    """The colour of every letter that has one."""
    colours, place = {}, 0
    for part in highlighted.value:
        for _ in part["token"]:
            if part["class_or_confidence"]:
                colours[place] = highlighted.color_map[part["class_or_confidence"]]
            place += 1
    return colours


def test_linked_words_have_one_colour_in_both_sentences(lexical):
    told, *texts, links, reasons = lexical.links(ZH[20], VI[20], DIRECTION)
    explained = hfxling.explain(ZH[20], VI[20], model=lexical.encoder.name)
    assert f"Score {explained.score:+.2f}" in told
    assert [row[:2] for row in reasons] == [[term.source, term.target] for term in explained.terms[: len(reasons)]]
    words = hfxling.align_words([ZH[20]], [VI[20]], model=lexical.encoder.name, units="segments").pairs[0]
    assert [row[2] for row in links] == [f"{score:.2f}" for score in words.scores]
    source, target = (colours_of(text) for text in texts)
    for i, j in words.links:
        assert source[words.source[i].start] == target[words.target[j].start]
    linked = {place for i, _ in words.links for place in range(words.source[i].start, words.source[i].end)}
    assert source.keys() == linked
    assert len(set(source.values())) > 1


def test_an_aligner_shows_its_own_links(app, folders):
    demo = app.Demo(str(folders / "aligner"))
    told, *_, links, reasons = demo.links(ZH[20], VI[20], DIRECTION)
    assert reasons == []
    assert "Score" not in told
    assert links
    assert len(demo.nearest(ZH[20], "\n".join(VI), DIRECTION)[1]) == 3


@pytest.mark.parametrize("name", ["lexical", "routed"])
def test_mined_pairs_are_those_of_the_command(app, folders, tmp_path, name):
    texts = ["\n".join(ZH[:30]), "\n".join(sorted(VI[10:40]))]
    told, rows, _ = app.Demo(str(folders / name)).mine(*texts, DIRECTION)
    for text, lang in zip(texts, PAIR):
        (tmp_path / lang).write_text(text, encoding="utf-8")
    key = "--lexical" if name == "lexical" else "--model"
    given = f"{tmp_path}/zh {tmp_path}/vi --languages zh vi {key} {folders / name} --margin distance"
    main(
        ["mine", *shlex.split(given), "--output", str(tmp_path / "command.tsv"), "--cache_dir", str(tmp_path / "cache")]
    )
    path = Path(app.FOLDER.name, "pairs.zh-vi.tsv")
    assert path.read_text(encoding="utf-8") == (tmp_path / "command.tsv").read_text(encoding="utf-8")
    assert len(rows) > 0
    assert f"{len(rows)} pairs of 30 and 30" in told
    assert list(path.parent.glob("tmp*")) == []  # the vectors are gone


def test_scores_are_those_of_quality(app, folders, lexical):
    for demo, options in ((lexical, {"lexical": "lexical"}), (app.Demo(str(folders / "routed")), {"model": "routed"})):
        told, rows = demo.quality("\n".join(ZH[:5]), "\n".join(VI[:5]), DIRECTION)
        models = {key: str(folders / name) for key, name in options.items()}
        (scores,) = hfxling.quality(ZH[:5], VI[:5], languages=PAIR, **models).scores.values()
        assert [row[2] for row in rows] == [f"{score:.2f}" for score in scores]
        assert "0 of 5 pairs" in told
    with pytest.raises(ValueError, match="2"):
        lexical.quality("\n".join(ZH[:2]), VI[0], DIRECTION)


def test_name_description_and_examples_are_those_of_the_card(app, folders, tmp_path):
    shutil.copytree(folders / "routed", tmp_path / "model")
    card = """---
language: [zh, vi]
widget: [{source_sentence: 你好, sentences: [Xin chào, Hello]}]
---

# other name

A model for letters.

<img src="https://example.org/x.png"> and ![](https://example.org/y.png)

## Results

None.
"""
    (tmp_path / "model" / "README.md").write_text(card, encoding="utf-8")
    demo = app.Demo(str(tmp_path / "model"))
    assert demo.heading() == f"# {tmp_path.name}/model\n\nA model for letters."
    assert [side[-1] for side in demo.examples(DIRECTION)] == ["你好", "Xin chào"]
    assert [side[-1] for side in demo.examples("vi to zh")] == ["Xin chào", "你好"]
    assert demo.examples("vi to zh")[1][0] == ZH[20]
    (tmp_path / "model" / "README.md").write_bytes(b"---\n: [\n---\n\xff")
    assert app.Demo(str(tmp_path / "model")).heading() == f"# {tmp_path.name}/model"


def test_the_title_is_the_name_that_the_card_has(app, folders, tmp_path):
    folder = shutil.copytree(folders / "lexical", tmp_path / "model")
    card = (folder / "README.md").read_text(encoding="utf-8")
    renamed = re.sub("^model_name: .*$", "model_name: some-links", card, count=1, flags=re.MULTILINE)
    (folder / "README.md").write_text(renamed, encoding="utf-8")
    demo = app.Demo(str(folder))
    assert demo.heading().startswith("# some-links\n")
    assert app.page(demo).title == "some-links"


def test_the_tabs_are_tools_of_an_mcp_server(app, lexical):
    pytest.importorskip("mcp", reason="needs mcp: pip install 'hfxling[demo]'")
    blocks = app.page(lexical)
    try:
        blocks.launch(mcp_server=True, prevent_thread_lock=True, quiet=True)
        with urlopen(f"{blocks.local_url}gradio_api/mcp/schema") as answer:
            tools = {tool["name"]: tool["inputSchema"] for tool in json.load(answer)}
    finally:
        blocks.close()
    assert [*tools] == ["nearest", "links", "mine", "quality"]
    assert [*tools["nearest"]["properties"]] == ["sentences", "candidates", "direction"]
    assert tools["links"]["required"] == ["sentence", "translation"]
    assert tools["mine"]["properties"]["direction"]["enum"] == ["zh to vi", "vi to zh"]


@pytest.mark.parametrize(
    ("sentences", "candidates", "message"),
    [
        ("", VI[0], "There is no text in the sentences. Write something"),
        (ZH[0], " \n ", "There is no text in the candidates"),
        (ZH[0], f"{VI[0]}\n" * 1_500, "The candidates: 1,500 lines, and this page takes 1,000"),
        (ZH[0], "x" * 300_000, "The candidates: 300,000 letters, and this page takes 200,000"),
        (f"{ZH[0]}\n{'我' * 3000}", VI[0], "line 2 has 3,000 letters, and a sentence here 2,000"),
    ],
)
def test_text_that_is_none_gets_a_message(lexical, sentences, candidates, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lexical.nearest(sentences, candidates, DIRECTION)
    others = message.replace("sentences", "first text").replace("candidates", "second text")
    with pytest.raises(ValueError, match=re.escape(others)):
        lexical.mine(sentences, candidates, DIRECTION)


@pytest.mark.parametrize(
    ("text", "message"),
    [(3, "int is no text"), (None, "NoneType is no text"), ("今天\ud83d下雨", "half a surrogate pair is no letter")],
)
def test_what_only_a_program_sends_gets_a_message_too(lexical, text, message):
    for part in (lexical.nearest, lexical.links, lexical.mine, lexical.quality):
        with pytest.raises(ValueError, match=message):
            part(text, "Hôm nay trời mưa.", DIRECTION)
        with pytest.raises(ValueError, match=message):
            part("今天下雨。", text, DIRECTION)


def test_words_of_very_long_sentences_are_not_linked(lexical):
    with pytest.raises(ValueError, match="2,000 letters, and a sentence here 400"):
        lexical.links("我" * 2_000, "a" * 2_000, DIRECTION)
    lexical.links("我" * 400, "đ " * 199 + "đ", DIRECTION)


def test_what_a_user_writes_is_never_markup(app, lexical):
    import gradio

    def refuse(*_: str) -> None:
        raise ValueError('<script>alert("x")</script>')

    with pytest.raises(gradio.Error) as error:
        app.with_errors_shown(refuse)()
    assert "<script" not in error.value.message
    for component in app.page(lexical).config["components"]:  # tables are text: no column is html or markdown
        if component["type"] == "dataframe":
            assert set(np.ravel(component["props"]["datatype"])) == {"str"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "plain", "languages": ("lo", "vi")}, None),
        ({"model": "routed", "languages": ("th", "vi")}, "language 'th' is none of the model's: zh, vi"),
        ({"model": "lexical", "lexical": "none"}, "lexical='.*none' is neither the folder"),
        ({"model": "none"}, "is neither the folder of a model"),
    ],
)
def test_models_and_languages(app, folders, settings, message):
    given = {key: str(folders / value) if key in ("model", "lexical") else value for key, value in settings.items()}
    if message:
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            app.Demo(**given)
        return
    demo = app.Demo(**given)
    assert (demo.directions[0], demo.linked_by) == ("lo to vi", {})
    assert isinstance(demo.encoder, SentenceEncoder)


def tabs(blocks) -> list[str]:
    """Names of the tabs."""
    return [block["props"]["label"] for block in blocks.config["components"] if block["type"] == "tabitem"]


def test_a_tab_that_a_model_cannot_serve_is_not_there(app, folders, lexical):
    assert tabs(app.page(app.Demo(str(folders / "plain")))) == ["Find", "Mine", "Score"]
    assert tabs(app.page(lexical)) == ["Find", "Words", "Mine", "Score"]


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
    fusion = fit_fusion([[(*fold, fold)]], pools, lexical=weights_hash(sparse.name), languages=PAIR)
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
demo = module.Demo(**json.loads(app.with_name("demo.json").read_text()))
_, rows = demo.nearest(*sys.argv[2:], "zh to vi")
print(json.dumps([bool(demo.linked_by), rows]))
"""


@pytest.mark.slow
def test_a_space_of_both_parts_needs_their_ids_alone(app, fused, hub, publisher, tmp_path):
    for name, folder in zip(("org/dense", "org/links"), fused):
        hub.put(name, {key: path.read_bytes() for key, path in folder_files(folder).items()})
    hub.put("org/other", hub.files("org/links") | {"x.safetensors": b"x"})
    hfxling.demo("org/dense", lexical="org/links", space=tmp_path / "space")
    hfxling.demo("org/dense", lexical="org/other", space=tmp_path / "other")
    texts = [f"{ZH[20]}\n{ZH[5]}", "\n".join(VI[:30])]

    found = publisher.run(SPACE, tmp_path / "space" / "app.py", *texts, cwd=tmp_path)
    assert found.returncode == 0, found.stderr[-2000:]
    here = app.Demo(str(fused[0]), str(fused[1]))
    _, expected = here.nearest(*texts, DIRECTION)
    has_links, rows = json.loads(found.stdout.splitlines()[-1])
    assert has_links
    assert rows == expected
    other = publisher.run(SPACE, tmp_path / "other" / "app.py", *texts, cwd=tmp_path)
    assert "org/dense: its fusion.json was made for the lexical model" in other.stderr


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
        (["--model", "{}"], "is not a Hub id"),
        (["--model", "org/x\nsdk: docker"], "is not a Hub id"),
        (["--model", "org/x\n"], "is not a Hub id"),
        (["--model", "https://me:hf_abcdefghijklmnopqrstuvwxyz012345@huggingface.co/org/x"], "is not a Hub id"),
        (["--model", "org/x", "--candidates", "c.txt"], "candidates='c.txt' is on this machine"),
        (["--model", "org/x", "--space", "{}"], "holds files that hfxling did not write (a)"),
        (["--model", "org/x", "--port", "0"], "port=0: give a number from 1 to 65535"),
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


@pytest.mark.slow
def test_a_stopped_page_leaves_no_folder(folders, warm_python, tmp_path):
    code = f"import hfxling; hfxling.demo({str(folders / 'lexical')!r})"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {"PATH": "/usr/bin", "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), "HF_HUB_OFFLINE": "1"}
    with (tmp_path / "log").open("w") as log:
        page = subprocess.Popen([warm_python, "-c", code], env=env, cwd=tmp_path, stdout=log, stderr=log)
    try:
        for _ in range(480):
            if "Running on" in (tmp_path / "log").read_text():
                break
            assert page.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.25)
        assert "Running on" in (tmp_path / "log").read_text()
        assert list(temporary.glob("hfxling-demo-*"))
        page.terminate()
        page.wait(20)
    finally:
        page.kill()
    assert [path for path in temporary.iterdir() if "torch" not in path.name] == []
