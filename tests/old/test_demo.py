"""What the page shows, without a browser: the same as the other commands, and messages for text that is none."""

import json
import re
import shlex
import shutil
import subprocess
import sys
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
from hfxling.hub.record import folder_files
from hfxling.old import demo_pictures as pictures
from hfxling.old.demo_model import MAX_LETTERS, MAX_LINES, ShownArguments, ShownModel
from hfxling.sentences.neighbours import nearest

ROOT = Path(__file__).resolve().parents[2]
PAIR = ("zh", "vi")
ZH, VI = (sample_texts(lang, "test", generated=0) for lang in PAIR)


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
def lexical(folders) -> ShownModel:
    return ShownModel(ShownArguments(model=str(folders / "lexical")))


def test_nearest_translations_and_their_picture(lexical):
    found = lexical.nearest(f"{ZH[20]}\n\n  {ZH[5]}\n", "\n".join(VI), PAIR)
    encoder = LexicalEncoder(lexical.encoder.name)
    vectors = (encoder.encode(*side) for side in (([ZH[20], ZH[5]], "zh", "query"), (VI, "vi", "document")))
    places, scores = nearest(*vectors, 3, "dot")
    assert np.array_equal(found.places, places)
    assert np.allclose(found.scores, scores)
    assert [len(points) for points in found.points] == [2, len(VI)]
    shown = pictures.hits(found)
    assert [ZH[20] in shown, VI[places[0, 0]] in shown, VI[places[1, 2]] in shown] == [True] * 3
    assert pictures.sentence_map(found).count("<circle") == 2 + len(VI) + len({*places[:, 0]})


def test_links_of_words_and_the_rest_are_the_score(lexical):
    found = lexical.links(ZH[20], VI[20], PAIR)
    score = lexical.lexical.model.score([ZH[20]], [VI[20]], PAIR)[0]
    rest = sum(value for name, value in found.terms if "→" not in name)
    assert found.weights.sum() + rest == pytest.approx(score, abs=1e-4)
    assert found.score == pytest.approx(score, abs=1e-4)
    for cell, reasons in found.reasons.items():
        assert sum(value for _, value in reasons) == pytest.approx(found.weights[cell])
    assert "".join(found.source) == ZH[20]
    page = pictures.links(found)
    assert page.count("<button") == len(found.reasons) > 5
    assert "what any sentence gets here" in page


def test_an_aligner_shows_its_own_links(folders):
    model = ShownModel(ShownArguments(model=str(folders / "aligner")))
    found = model.links(ZH[20], VI[20], PAIR)
    assert found.weights.shape == (len(found.source), len(found.target))
    assert found.framed <= {*found.reasons}
    assert found.score is None
    assert model.nearest(ZH[20], "\n".join(VI), PAIR).places.shape == (1, 3)
    assert pictures.links(found).count('class="hx-linked"') == len(found.framed) > 0


@pytest.mark.parametrize("name", ["lexical", "routed"])
def test_mined_pairs_are_those_of_the_command(folders, tmp_path, name):
    texts = ["\n".join(ZH[:30]), "\n".join(sorted(VI[10:40]))]
    rows = ShownModel(ShownArguments(model=str(folders / name))).mine(*texts, PAIR, tmp_path / "page.tsv")
    for text, lang in zip(texts, PAIR):
        (tmp_path / lang).write_text(text, encoding="utf-8")
    key = "--lexical" if name == "lexical" else "--model"
    given = f"{tmp_path}/zh {tmp_path}/vi --source_lang zh --target_lang vi {key} {folders / name} --margin distance"
    main(
        ["mine", *shlex.split(given), "--output", str(tmp_path / "command.tsv"), "--cache_dir", str(tmp_path / "cache")]
    )
    assert (tmp_path / "page.tsv").read_text(encoding="utf-8") == (tmp_path / "command.tsv").read_text(encoding="utf-8")
    page = pictures.pairs(rows, (30, 30))
    assert page.count("<tr>") == len(rows) > 0
    assert f"{len(rows)} pair" in page


@pytest.mark.parametrize(
    ("sentences", "candidates", "pair", "message"),
    [
        ("", VI[0], PAIR, "There is no text in the sentences. Write something"),
        (ZH[0], " \n ", PAIR, "There is no text in the candidates"),
        (ZH[0], f"{VI[0]}\n" * 10_000, PAIR, f"The candidates: 10,000 lines, and this page takes {MAX_LINES:,}"),
        (f"{ZH[0]}\n{'我' * 3000}", VI[0], PAIR, f"line 2 has 3,000 letters, and a sentence here {MAX_LETTERS:,}"),
        (VI[0], VI[0], PAIR, "The sentences should be in 'zh', but it looks like another language"),
        (ZH[0], "\n".join([*ZH[:6], *VI[:4]]), PAIR, "in 'vi', but 6 of its 10 lines look like another language"),
        (ZH[0], ZH[0], ("zh", "zh"), "Both languages are 'zh'. Choose two."),
    ],
)
def test_text_that_is_none_gets_a_message(lexical, tmp_path, sentences, candidates, pair, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        lexical.nearest(sentences, candidates, pair)
    others = message.replace("sentences", "first text").replace("candidates", "second text")
    with pytest.raises(ValueError, match=re.escape(others)):
        lexical.mine(sentences, candidates, pair, tmp_path / "x.tsv")
    assert list(tmp_path.iterdir()) == []


def test_what_a_user_writes_is_never_markup(lexical):
    nasty = '<script>alert("x")</script> & 今天'
    found = lexical.nearest(f"{ZH[0]}{nasty}", f"{VI[0]}<b>", PAIR)
    links = lexical.links(f"{ZH[0]}{nasty}", f"{VI[0]}<b>", PAIR)
    for page in (pictures.hits(found), pictures.sentence_map(found), pictures.links(links), pictures.note(nasty)):
        assert "<script" not in page
        assert "<b>" not in page.replace('<div class="hx-hit"><b>', "")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "plain", "source_lang": "zh"}, None),
        ({"model": "routed", "source_lang": "th"}, "source_lang='th' is none of the model's languages: zh, vi"),
        ({"model": "lexical", "lexical": "none"}, "lexical='.*none' is neither the folder"),
        ({"model": "none"}, "is neither the folder of a model"),
    ],
)
def test_models_and_languages(folders, options, message):
    args = {key: str(folders / value) if key in ("model", "lexical") else value for key, value in options.items()}
    if message:
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            ShownModel(ShownArguments(**args))
        return
    model = ShownModel(ShownArguments(**args))
    assert (model.pair, model.has_links) == (("zh", "vi"), False)
    assert isinstance(model.encoder, SentenceEncoder)


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


SPACE = """
import json, runpy, sys
from hfxling.old import demo, demo_model
from hfxling.arguments import parse_arguments

def shown(argv):
    model = demo_model.ShownModel(*parse_arguments((demo_model.ShownArguments,), argv))
    found = model.nearest(*sys.argv[2:], ("zh", "vi"))
    print(json.dumps([model.has_links, found.places.tolist(), found.scores.tolist()]))

demo.main = shown
runpy.run_path(sys.argv[1])
"""


@pytest.mark.slow
def test_a_space_of_both_parts_needs_their_ids_alone(fused, hub, tmp_path):
    pytest.importorskip("gradio", reason="needs gradio: pip install 'hfxling[demo]'")
    from hfxling.old import demo

    for name, folder in zip(("org/dense", "org/links"), fused):
        hub.put(name, {key: path.read_bytes() for key, path in folder_files(folder).items()})
    hub.put("org/other", hub.files("org/links") | {"x.safetensors": b"x"})
    demo.main(["--model", "org/dense", "--lexical", "org/links", "--space", f"{tmp_path}/space"])
    demo.main(["--model", "org/dense", "--lexical", "org/other", "--space", f"{tmp_path}/other"])
    texts = [f"{ZH[20]}\n{ZH[5]}", "\n".join(VI[:30])]

    def opened(space: str, **environment: str) -> subprocess.CompletedProcess:
        env = hub.env(tmp_path) | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | environment
        command = [sys.executable, "-c", SPACE, str(tmp_path / space / "app.py"), *texts]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)

    found, offline = opened("space"), opened("space", HF_HUB_OFFLINE="1")
    assert found.returncode == 0, found.stderr[-2000:]
    here = ShownModel(ShownArguments(model=str(fused[0]), lexical=str(fused[1])))
    expected = here.nearest(*texts, PAIR)
    for done in (found, offline):
        has_links, places, scores = json.loads(done.stdout.splitlines()[-1])
        assert has_links
        assert places == expected.places.tolist()
        np.testing.assert_allclose(scores, expected.scores, atol=1e-5)
    assert "org/dense: its fusion.json was made for the sparse encoder" in opened("other").stderr


def labels(blocks) -> list[str]:
    """Names of the tabs."""
    return [block["props"]["label"] for block in blocks.config["components"] if block["type"] == "tabitem"]


def test_a_tab_that_a_model_cannot_serve_is_not_there(folders):
    pytest.importorskip("gradio", reason="needs gradio: pip install 'hfxling[demo]'")
    from hfxling.old.demo_page import page

    tabs = {
        name: labels(page(ShownModel(ShownArguments(model=str(folders / name))))[0]) for name in ("plain", "lexical")
    }
    assert tabs == {
        "plain": ["Nearest translations", "Mine two texts"],
        "lexical": ["Nearest translations", "Word links", "Mine two texts"],
    }


def test_a_space_has_what_the_hub_wants_of_one(tmp_path):
    pytest.importorskip("gradio", reason="needs gradio: pip install 'hfxling[demo]'")
    from hfxling.old import demo

    demo.main(["--model", "org/zh-vi", "--source_lang", "zh", "--target_lang", "vi", "--space", f"{tmp_path}/space"])
    files = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "space").iterdir()}
    assert files.keys() == {"README.md", "app.py", "requirements.txt"}
    front = yaml.safe_load(files["README.md"].split("---")[1])
    assert front["sdk"] == "gradio"
    assert front["app_file"] == "app.py"
    assert front["models"] == ["org/zh-vi"]
    assert front["sdk_version"].split(".")[0].isdigit()
    assert files["requirements.txt"] == f"hfxling[demo]=={hfxling.__version__}\n"
    (argv,) = re.findall(r"^main\((.*)\)$", files["app.py"], re.MULTILINE)
    assert json.loads(argv) == ["--model", "org/zh-vi", "--source_lang", "zh", "--target_lang", "vi"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "{}"], "is no id on the Hub"),
        (["--model", "org/x", "--candidates", "c.txt"], "candidates='c.txt' is a file of this machine"),
        (["--model", "org/x", "--space", "{}"], "is a folder with files in it"),
        (["--model", "org/x", "--port", "0"], "port=0: give 1 or more"),
    ],
)
def test_no_space_of_what_is_not_on_the_hub(tmp_path, refusal, words, message):
    pytest.importorskip("gradio", reason="needs gradio: pip install 'hfxling[demo]'")
    from hfxling.old import demo

    (tmp_path / "a").touch()
    argv = ["--space", f"{tmp_path}/space", *(word.format(tmp_path) for word in words)]
    assert message in refusal(lambda: demo.main(argv))
    assert not (tmp_path / "space").exists()


def test_gradio_is_named_where_it_is_missing(monkeypatch, refusal):
    from hfxling.old import demo

    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    assert "pip install 'hfxling[demo]'" in refusal(lambda: demo.main(["--model", "org/x"]))
