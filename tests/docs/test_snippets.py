"""Every snippet of README, guides and the pages in depth, run in the order of its page in a folder of its own.

Models of the Hub are tiny ones in folders of the same names; text is that of the sample corpus. Blocks of `console`
show commands with their output, which is compared; "..." stands for lines that are left out. What takes minutes, a
server or the Hub is read by its own parser only.
"""

import argparse
import functools
import io
import logging
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import create_autospec

import numpy as np
import pytest
from accelerate.commands.launch import launch_command_parser
from evaluate_cache import evaluate_cache
from methods import on_encoder, write_stock
from short_sample import leave_out_grammar
from tiny_models import save_tiny
from transformers import TrainingArguments

import hfxling
from hfxling.arguments import parse_arguments
from hfxling.cli import main
from hfxling.commands import load_verb
from hfxling.data.sample import sample_texts
from hfxling.hub.snippets import TEI, Client, client_snippets
from hfxling.methods import method

ROOT = Path(__file__).resolve().parents[2]
GUIDES = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("guide_*.md"))]
PAGES = [
    "README.md",
    "docs/index.md",
    "docs/from_sentence_transformers.md",
    "docs/choose.md",
    *GUIDES,
    "docs/recipes.md",
]
IN_DEPTH = [
    *("evaluation", "text", "serving", "mining", "documents", "quality", "lexical", "siamese", "dap", "disentangler"),
    *("aligner", "demo"),
]
# How commands of these pages begin that are only read.
READ_ONLY = (
    "accelerate launch",
    "hf upload",
    "hfxling bootstrap",
    "hfxling demo",
    "hfxling evaluate --task retrieval --model DENSE",
    "hfxling export",
    "hfxling mine A.zh B.vi --languages zh vi --lexical DIR_OR_ID --output pairs.tsv --precision",  # of large texts
    "hfxling mine A.zh.gz",
    'hfxling nearest "今天下雨。" --model DENSE',
    "python benchmarks/",
    "python recipes/aligner.py",
    "python recipes/disentangler.py",
    "python recipes/lexical.py --config",
)
TWO_ROWS = '[{"label": "mean of layer 7", "set": {"layer": "7"}}, {"label": "mean of layer 8", "set": {"layer": "8"}}]'
# What recipes get here beside the words on the page, so that they end soon.
SHORTER = {
    "recipes/study.py": ["--fit", "cca", "--max_train_pairs", "200", "--rows", TWO_ROWS],
    "recipes/siamese.py": ["--max_train_pairs", "200"],
}
# Their layers: pages ask some for the seventh.
MODELS = {
    "sentence-transformers/LaBSE": 2,
    "intfloat/multilingual-e5-small": 2,
    "google-bert/bert-base-multilingual-cased": 7,
}
FEW = {"my.zh": 130, "my.vi": 130, "seed.tsv": 100}  # lines of text that are enough where no output is shown
FIT = "hfxling fit my.zh my.vi --languages zh vi"
FIT_AND_TEST = f"{FIT} --test test.zh test.vi"  # writes and shows the same, and a line of the test
BOOTSTRAP = (
    "hfxling bootstrap my.zh my.vi --seed_pairs seed.tsv --languages zh vi --output outputs/bootstrap --rounds 1"
)
UNSURE = re.compile(r"^\| (static|sparse) .*$", re.MULTILINE)  # these lines have CPU seconds in their seventh column


def snippets(page: str) -> list[tuple[str, str]]:
    """(language, text) of a page's fenced blocks; in a shell's block every command is one."""
    found = []
    for block in (ROOT / page).read_text(encoding="utf-8").split("\n```")[1::2]:
        language, _, text = block.partition("\n")
        if language == "bash":
            commands = text.replace("\\\n", " ").split("\n")
            found += [(language, " ".join(command.split())) for command in commands if command.strip()]
        elif language == "console":
            found += [(language, part) for part in re.split(r"^\$ ", text, flags=re.MULTILINE) if part.strip()]
        elif language == "python":
            found.append((language, text))
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A folder with the files and models that pages name; a page's own snippets add to it."""
    folder = tmp_path_factory.mktemp("pages")
    for name, layers in MODELS.items():
        save_tiny("bert", folder / name, layers=layers)
    (folder / "recipes").symlink_to(ROOT / "recipes")
    return folder


@pytest.fixture(scope="module")
def fitted(place) -> Path:
    """What the commands of several pages write, of which one is run, and only here; in fitted.txt what it prints."""
    assert ("bash", FIT) in snippets("docs/index.md")
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(place)
        write_text(place)
        main(shlex.split(FIT_AND_TEST)[1:])
    (place / "outputs" / "fit").rename(place / "fitted")
    (place / "fitted.txt").write_text(printed.getvalue(), encoding="utf-8")
    return place / "fitted"


def write_text(folder: Path) -> None:
    """The files of docs/index.md."""
    text = next(text for language, text in snippets("docs/index.md") if language == "python")
    exec(compile(text, "docs/index.md", "exec"), {})
    for lang in ("zh", "vi"):
        assert (folder / f"my.{lang}").is_file()


def shorten_text() -> None:
    """Keep no more than the first lines of the text."""
    for name, count in FEW.items():
        write_lines(name, Path(name).read_text(encoding="utf-8").split("\n")[:count])


def long_text() -> None:
    """2,000 lines, of which some pages take the last ones for their test."""
    for language in ("zh", "vi"):
        texts = sample_texts(language, generated=2000 - len(sample_texts(language, generated=0)))
        Path(f"my.{language}").write_text("\n".join(texts) + "\n", encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_snippets_of_a_page_run(page, place, fitted, monkeypatch, capsys, publisher):
    if page == "docs/guide_serve.md":
        pytest.importorskip("onnxscript", reason="needs onnxscript: pip install -e '.[dev]'")
    monkeypatch.chdir(place)
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    monkeypatch.setattr("hfxling.sentences.precision._SAMPLES", 50)  # of the bootstrap
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    write_text(place)
    if page == "docs/recipes.md":
        long_text()
    else:
        leave_out_grammar(monkeypatch)
    if page in GUIDES:
        shutil.copytree(fitted, place / "outputs" / "fit", dirs_exist_ok=True)
    done, still_to_show = 0, [language for language, _ in snippets(page)].count("console")
    for language, text in snippets(page):
        capsys.readouterr()
        if still_to_show == 0 and page != "docs/recipes.md":
            shorten_text()
        if text.startswith("hfxling verify"):  # reads the text that the folder was made of
            write_text(place)
        if language == "bash" and text == FIT:
            shutil.copytree(fitted, place / "outputs" / "fit", dirs_exist_ok=True)
            continue
        if page in GUIDES and text == BOOTSTRAP and (place / "outputs" / "bootstrap").is_dir():  # of docs/index.md
            continue
        if language == "python":
            done += run_python(page, text)
        elif language == "console":
            command, _, shown = text.partition("\n")
            words = shlex.split(command, comments=True)
            if words in (shlex.split(FIT), shlex.split(FIT_AND_TEST)):
                shutil.copytree(fitted, place / "outputs" / "fit", dirs_exist_ok=True)
                printed = (place / "fitted.txt").read_text(encoding="utf-8")
            else:
                main(words[1:])
                printed = capsys.readouterr().out
            assert_shown(shown, printed)
            still_to_show -= 1
            done += 1
        else:
            done += run_shell(shlex.split(text, comments=True), place, publisher, monkeypatch)
        assert "error" not in capsys.readouterr().err.lower(), text
    assert done > 0


def run_python(page: str, text: str) -> bool:
    """Run a snippet; not where it needs a package that is not installed, which another test stands in for."""
    for package in ("langchain_huggingface", "haystack_integrations", "qdrant_client"):
        if package in text and find_spec(package) is None:
            return False
    exec(compile(text, page, "exec"), {})
    return True


def run_shell(words: list[str], place: Path, publisher, monkeypatch) -> bool:
    """Run a command of a shell's block; what another test runs is looked at only."""
    if words[:1] == ["make"]:
        done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif words[:1] in (["pip"], ["uv"], ["pipx"]):
        assert words[-2] == "install"
        name = words[-1].partition("[")[2].rstrip("]")
        assert name in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    elif words[:2] == ["hfxling", "publish"]:  # to the stand-in for the Hub
        words = [word.replace("you/", "org/") for word in words]
        done = publisher.command(*words[1:], cwd=place)
        assert done.returncode == 0, done.stderr
    elif words[:1] == ["hfxling"]:
        main(words[1:])
    elif words[:1] == ["python"]:
        monkeypatch.setattr(sys, "argv", [*words[1:], *SHORTER.get(words[1], [])])
        monkeypatch.setattr(logging.getLogger("hfxling"), "level", logging.NOTSET)
        runpy.run_path(words[1], run_name="__main__")
    elif words[:2] == ["accelerate", "launch"]:  # of several hours; the recipe's own tests start it
        launch = launch_command_parser().parse_args(words[2:])
        assert (ROOT / launch.config_file).is_file()
        assert (ROOT / launch.training_script).is_file()
        config = launch.training_script_args[launch.training_script_args.index("--config") + 1]
        assert (ROOT / config).is_file()
        return False
    else:
        assert words[:2] == ["hf", "auth"]
        return False
    return True


@pytest.fixture(scope="module")
def place_in_depth(place, fitted) -> Path:
    """The same folder with what pages in depth name: placeholders for models, and text of several kinds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        write_text(place)
        with (ROOT / "hfxling/data/sample/dictionary.tsv").open(encoding="utf-8") as words:
            write_lines("words.tsv", ["\t".join(line.split("\t")[1:3]) for line in words])
        for language, name in (("zh", "A.zh"), ("vi", "B.vi")):
            shutil.copy(f"news.{language}", name)
            write_lines(f"book.{language}", sample_texts(language, "test")[:20])
            np.save(f"{language}.npy", np.random.default_rng(0).normal(size=(20, 8)).astype(np.float32))
        english = [f"There are {number} of them." for number in range(20)]
        german = [f"Es sind {number}." for number in range(20)]
        links = hfxling.fit_lexical(english, german, ("en", "de"), progress=False)
        hfxling.save_lexical(links, "english/model")
        rows = [f"{source}\t{target}\t{number}" for number, (source, target) in enumerate(zip(english, german))]
        write_lines("judged.tsv", ["source\ttarget\tda", *rows])
        Path("tatoeba").mkdir()
        write_lines("tatoeba/deu-eng.deu", german)
        write_lines("tatoeba/deu-eng.eng", english)
        Path("bucc2018/zh-en").mkdir(parents=True)
        for split in ("training", "test"):
            for language in ("zh", "en"):
                rows = [f"{language}-{row}\ttext {row}" for row in range(9)]
                write_lines(f"bucc2018/zh-en/zh-en.{split}.{language}", rows)
            write_lines(f"bucc2018/zh-en/zh-en.{split}.gold", ["zh-1\ten-1"])
    for name in ("my/model", "other/model", "intfloat/multilingual-e5-base"):
        save_tiny("bert", place / name)
    save_tiny("bert", place / "outputs/encoders/me5-small", layers=7)
    for name in ("LINKS", "DIR", "DIR_OR_ID"):
        (place / name).symlink_to(fitted / "model")
    for name in ("DENSE", "ID"):
        (place / name).symlink_to(place / "my/model")
    shutil.copytree(fitted, place / "outputs/fit", dirs_exist_ok=True)
    model = on_encoder(hfxling.DisentanglerModel)(place / "scratch")
    write_stock(model, place / "scratch", place / "outputs/labse-meaning/model")
    (place / "benchmarks").symlink_to(ROOT / "benchmarks")
    return place


def write_lines(name: str, lines: list[str]) -> None:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def metrics_for_itself(tmp_path):
    """evaluate imports its scripts from a folder of this test."""
    with evaluate_cache(tmp_path):
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("metrics_for_itself")
@pytest.mark.parametrize("page", IN_DEPTH)
def test_the_snippets_of_a_page_in_depth_run(page, place_in_depth, monkeypatch, capsys, publisher):
    if page == "demo" and find_spec("gradio") is None:
        pytest.skip("needs gradio: pip install -e '.[demo]'")
    place = place_in_depth
    monkeypatch.chdir(place)
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    monkeypatch.setattr("hfxling.sentences.precision._SAMPLES", 50)  # of the bootstrap
    monkeypatch.setitem(SHORTER, "recipes/lexical.py", ["--test_data", "test.zh+test.vi"])
    write_text(place)
    if page in ("text", "serving"):
        long_text()
    else:
        leave_out_grammar(monkeypatch)
        shorten_text()
    if page == "quality":
        shutil.copy("judged.tsv", "pairs.tsv")
    if page == "lexical":
        few = {side: texts[:100] for side, texts in hfxling.load_parallel("sample", "zh", "vi").to_dict().items()}
        monkeypatch.setattr(hfxling, "load_parallel", lambda *args: few, raising=False)
    names: dict = {}  # a snippet may go on where the one before it ended
    for language, text in snippets(f"docs/{page}.md"):
        capsys.readouterr()
        if page == "quality":  # of other languages
            text = text.replace("DIR_OR_ID", "english/model")
        if language == "python":
            text = text.replace("128", "16")  # of a tiny encoder's components
            with monkeypatch.context() as patch:  # bootstrap takes half a minute: docs/index.md runs it
                patch.setattr(hfxling, "bootstrap", create_autospec(hfxling.bootstrap), raising=False)
                exec(compile(text, page, "exec"), names)
        elif text.startswith(READ_ONLY):
            read_only(shlex.split(text, comments=True), monkeypatch)
        elif not text.startswith(("TEI_URL=", "text-embeddings-router")):  # of a server that is not here
            run_shell(shlex.split(text, comments=True), place, publisher, monkeypatch)
        assert "error" not in capsys.readouterr().err.lower(), text


def read_only(words: list[str], monkeypatch) -> None:
    """Have a command's words read by its own parser, and nothing else done."""
    if words[:2] == ["accelerate", "launch"]:
        launch = launch_command_parser().parse_args(words[2:])
        assert launch.config_file is None or (ROOT / launch.config_file).is_file()
        words = ["python", launch.training_script, *launch.training_script_args]
    if words[0] == "hf":
        hf = Path(sys.executable).with_name("hf")
        shown = subprocess.run([hf, words[1], "--help"], capture_output=True, text=True, check=True).stdout
        assert [word for word in words if word.startswith("--") and word not in shown] == []
    elif words[0] == "hfxling":
        verb = load_verb(words[1])
        nothing = functools.wraps(verb)(lambda *args, **named: None)
        monkeypatch.setattr("hfxling.cli.load_verb", lambda name: nothing)
        main(words[1:])
        monkeypatch.setattr("hfxling.cli.load_verb", load_verb)
    elif words[1].startswith("recipes/"):
        package = method(Path(words[1]).stem)
        types = (package.Arguments, TrainingArguments)
        parse_arguments(types, [*words[2:], "--use_cpu"], defaults=package.TRAINING_DEFAULTS)
    else:
        parse = argparse.ArgumentParser.parse_args

        def parse_and_end(self, argv=None, namespace=None):
            parse(self, argv, namespace)
            raise SystemExit("read")

        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", words[1:])
            patch.setattr(argparse.ArgumentParser, "parse_args", parse_and_end)
            with pytest.raises(SystemExit, match="read"):
                runpy.run_path(words[1], run_name="__main__")


def assert_shown(shown: str, printed: str) -> None:
    """What a page shows of a command's output is what it prints, but for seconds and lines left out."""
    pattern = r"[\s\S]*".join(re.escape(without_seconds(part)) for part in re.split(r"^\.\.\.\n?", shown, flags=re.M))
    assert re.fullmatch(rf"\s*{pattern}\s*", without_seconds(printed)), printed


def without_seconds(text: str) -> str:
    """The text with CPU seconds of the table of `fit` left out."""

    def kept(match: re.Match) -> str:
        cells = match[0].split("|")
        return "|".join([*cells[:7], " ", *cells[8:]])

    return UNSURE.sub(kept, text) if "CPU s" in text else text


def test_the_guide_names_the_server_that_cards_name():
    told = client_snippets({TEI: Client()}, ["zh", "vi"])[TEI]
    (image,) = re.findall(r"ghcr\.io/\S+", told)
    assert f"{image} " in (ROOT / "docs/guide_serve.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_bodies_for_search_servers_have_the_score_without_negative_weights(place, fitted, monkeypatch):
    monkeypatch.chdir(place)
    shutil.copytree(fitted, place / "outputs" / "fit", dirs_exist_ok=True)
    (text,) = [text for _, text in snippets("docs/guide_serve.md") if "neural_sparse" in text]
    names: dict = {}
    exec(compile(text, "docs/guide_serve.md", "exec"), names)
    weights = names["opensearch_query"]["neural_sparse"]["links"]["query_tokens"]
    of_elasticsearch = {"field": "links", "query_vector": weights, "prune": False}
    assert names["elasticsearch_query"]["sparse_vector"] == of_elasticsearch
    indexed = names["document"]["links"]
    assert min(*weights.values(), *indexed.values()) > 0
    terms = [weights[name] * indexed[name] for name in weights if name in indexed]
    links = names["links"]
    query = links.encode(["今天下雨。"], "zh").maximum(0)
    document = links.encode(["Hôm nay trời mưa."], "vi", role="document").maximum(0)
    assert sum(terms) == pytest.approx(query.multiply(document).sum(), rel=1e-5)
    assert sum(terms) > 0


@pytest.mark.parametrize("page", ["README.md", "docs/choose.md"])
def test_commands_that_made_the_tables_are_understood(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    made_by = re.findall(r"`(python benchmarks/[^`]+)`", (ROOT / page).read_text(encoding="utf-8"))
    assert len(made_by) > 0
    for command in made_by:
        read_only(shlex.split(command), monkeypatch)


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
