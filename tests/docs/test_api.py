"""Every verb: its example runs, and its command has the same names, defaults and words."""

import doctest
import inspect
import re
import shutil
import sys
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
from builders import command_line
from docstring_parser import parse
from tiny_models import save_tiny

import hfxling
from hfxling.cli import main
from hfxling.commands import COMMANDS, load_verb
from hfxling.data.sample import sample_texts
from recipes import siamese

CODES = ("zh", "vi", "lo")
TEXTS = {lang: sample_texts(lang, "train", generated=0)[:130] for lang in CODES}
VERBS = [load_verb(command) for command in COMMANDS]


@pytest.fixture(scope="module")
def place(tmp_path_factory, tiny_bert):
    """A folder with all that the examples name."""
    root = tmp_path_factory.mktemp("examples")
    write = {
        **{f"{name}.{lang}": TEXTS[lang] for name in ("my", "a", "b", "text", "train") for lang in CODES},
        **{f"test.{lang}": sample_texts(lang, "test", generated=0)[:20] for lang in CODES},
        **{f"book.{lang}": TEXTS[lang][:20] for lang in CODES},
        "pairs.tsv": [f"{zh}\t{vi}" for zh, vi in zip(TEXTS["zh"][:40], TEXTS["vi"])],
        "seed.tsv": [f"{zh}\t{vi}" for zh, vi in zip(TEXTS["zh"][:100], TEXTS["vi"])],
    }
    for name, lines in write.items():
        (root / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    with chdir(root):
        hfxling.select(
            "my.zh", "my.vi", languages=("zh", "vi"), only=["sparse"], choose="sparse", licence="mit", progress=False
        )
        options = {"size": 8, "num_train_epochs": 1, "prior": True, "progress": False}
        aligner = hfxling.fit_aligner(TEXTS["lo"][:40], TEXTS["zh"][:40], ("lo", "zh"), **options)
        hfxling.save_aligner(aligner, "outputs/lo-zh/model")
        for name in ("intfloat/multilingual-e5-small", "sentence-transformers/LaBSE"):
            save_tiny("bert", Path(name))
        for name, model in (("a", "intfloat/multilingual-e5-small"), ("b", "sentence-transformers/LaBSE")):
            hfxling.evaluate(
                model, task=["retrieval"], source="test.zh", target="test.vi", languages=("zh", "vi"), output=name
            )
        shutil.copytree(tiny_bert, "tiny")
        head = {"train_data": "pairs.tsv", "test_data": "pairs.tsv@1-10", "pairs": "zh-vi", "base_model": "tiny"}
        head |= {"layer": 0, "fit": "discriminant", "output_dir": "outputs/zh-vi-sf", "use_cpu": True}
        head |= {"disable_tqdm": True, "data_licence": "cc0-1.0"}
        siamese.main(command_line(head))
    (root.parent / "texts").mkdir(exist_ok=True)
    for path in root.glob("*.tsv"):
        shutil.copy(path, root.parent / "texts")
    return root


def example_code(verb) -> str:
    """The statements of a docstring's example."""
    return "".join(example.source for example in doctest.DocTestParser().get_examples(inspect.getdoc(verb)))


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_examples_run(verb, place, hub, publisher, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setattr("hfxling.words.encoder._MOST_UNKNOWN", 1.0)  # the tiny encoder knows few letters
    monkeypatch.setattr("hfxling.sentences.precision._SAMPLES", 50)  # of the bootstrap
    if verb.__name__ == "export":
        pytest.importorskip("onnxscript")
    if verb.__name__ == "demo":
        if find_spec("gradio") is None:
            pytest.skip("needs gradio")
        monkeypatch.setattr("hfxling.hub.demo.load_page", lambda: SimpleNamespace(launch=lambda *_, **__: None))
    code = example_code(verb)
    assert f"hfxling.{verb.__name__}(" in code
    if verb.__name__ == "publish":  # to the stand-in for the Hub
        code = code.replace("outputs/zh-vi-sf", "outputs/fit")  # links: the head's encoder is no model of the Hub
        done = publisher.run(f"import hfxling\n{code}", cwd=place)
        assert done.returncode == 0, done.stderr
        return
    names = {"hfxling": hfxling, "chinese": TEXTS["zh"], "vietnamese": TEXTS["vi"]}
    exec(compile(code, verb.__name__, "exec"), names)


@pytest.mark.parametrize(("command", "verb"), list(zip(COMMANDS, VERBS)), ids=list(COMMANDS))
def test_a_command_is_its_verb(command, verb, capsys):
    """Names, defaults and words of --help are those of the function; its first line stands in the list of commands."""
    said = parse(inspect.getdoc(verb))
    assert COMMANDS[command].summary == said.short_description
    main([command, "--help"])
    shown = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    assert shown.lower().startswith(f"usage: hfxling {command} ")
    texts = {parameter.arg_name: parameter.description for parameter in said.params}
    parameters = inspect.signature(verb).parameters
    assert set(texts) == set(parameters)
    for name, parameter in parameters.items():
        if parameter.kind is not parameter.VAR_POSITIONAL:
            assert f"--{name}" in shown
        first_words = " ".join(texts[name].split()[:3])
        assert first_words in shown, name
        if isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool):
            assert f"[default: {parameter.default}]" in shown, name
    assert verb.__name__ in hfxling.__all__
    assert getattr(hfxling, verb.__name__) is verb


def test_public_functions_say_what_they_give_and_refuse():
    for verb in VERBS:
        said = parse(inspect.getdoc(verb))
        assert said.returns, verb.__name__
        assert {error.type_name for error in said.raises} >= {"ValueError"}, verb.__name__
    assert sys.modules["hfxling"].__all__ == sorted(hfxling.__all__)
