"""What all commands share: help without heavy imports, the table of commands, how they end."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from hfxling import cli
from hfxling.commands import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
HEAVY = {"torch", "transformers", "sentence_transformers", "datasets"}


def test_the_list_of_commands_is_cheap():
    code = "import sys\nfrom hfxling import cli\ntry:\n    cli.main(['--help'])\nfinally:\n    print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    *shown, modules = done.stdout.splitlines()
    assert not (HEAVY | {"numpy"}) & {*modules.split()}
    assert shown[0].startswith("usage: hfxling COMMAND")
    assert all(any(line.split()[:1] == [name] for line in shown) for name in COMMANDS)


def test_help_of_every_command_and_its_first_refusals_are_cheap():
    code = """
import sys
from hfxling import cli
from hfxling.commands import COMMANDS

for name in COMMANDS:
    for words in (["--help"], ["--no_such_option", "1"]):
        try:
            cli.main([name, *words])
        except SystemExit as stop:
            print(name, words, stop.code, *sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(f"usage: hfxling {name} " in done.stdout.lower() for name in COMMANDS), done.stdout
    *_, last = done.stderr.splitlines()  # what is loaded by then
    assert not (HEAVY | {"sklearn", "scipy.stats"}) & {*last.split()}
    assert done.stderr.count("no_such_option") >= 2 * len(COMMANDS)  # in the message and in our line


def test_the_command_is_installed_with_the_package():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '[project.scripts]\nhfxling = "hfxling.cli:main"\n' in text
    for found in entry_points(group="console_scripts", name="hfxling"):  # none where the checkout is not installed
        assert found.load() is cli.main


def test_a_closed_standard_output_is_said(tmp_path, monkeypatch, capsys):
    for name in ("a", "b"):
        (tmp_path / name).write_text("a b\nb c\n" * 20)
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as stop:
        cli.main(["align", f"{tmp_path}/a", f"{tmp_path}/b", "--languages", "en", "de"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("error: standard output is closed; open it, or give --output")


def test_text_of_any_language_is_printed_in_any_locale(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "LC_ALL": "C", "PYTHONUTF8": "0"}
    code = "from hfxling.console import run; run(lambda: print('Xin ch\\u00e0o'))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.stdout.decode() == "Xin ch\u00e0o\n"


def test_control_characters_are_shown_and_not_sent_to_the_terminal(capfd):
    with pytest.raises(SystemExit):
        cli.main(["\x1b[31mred"])
    said = capfd.readouterr().err
    assert "\x1b" not in said
    assert "x1b[31mred" in said


def test_without_a_command_all_are_listed(capsys):
    cli.main([])
    assert "hfxling COMMAND --help" in capsys.readouterr().out
    cli.main(["--version"])
    assert capsys.readouterr().out.startswith("hfxling 0.")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["lexcon"], "unknown command 'lexcon'; the nearest is 'lexicon'"),
        (["align", "--modle", "x"], "Unknown option: --modle. Did you mean --model?"),
        (["align", "a", "b", "c", "--model", "x"], "error: unexpected c; see hfxling align --help"),
        (["evaluate", "--model", "x", "a.zh", "b.vi"], "unexpected a.zh b.vi: text goes to --source and --target"),
        (["nearest"], "error: no sentence; give at least one, or a file of them as queries"),
        (["mine"], "error: --source is missing; see hfxling mine --help"),
        (["fit", "a.zh", "a.vi"], "--languages is missing (such as --languages zh vi)"),
        (["fit", "a.zh", "a.vi", "--languages", "zh"], "--languages needs 2 values (such as --languages zh vi)"),
        (["mine", "a.zh", "a.vi", "--model"], "--model needs a value"),
        (["publish", "folder", "--repo_id", "me/x"], "--repo is missing, and --repo_id is unknown"),
        (["nearest", "a"], "give --model, --lexical or both"),
        (["evaluate", "--task", "tokens", "--lexical", "x"], "task tokens needs --data"),
        (["compare", "a.json"], "files=a.json: give two results.json or more"),
        (["lexicon", "--model", "x"], "--source is missing"),
        (["nearest", "a", "--model", "x", "--top", "0"], "top=0: give 1 or more"),
        (
            ["align", "a", "b", "--model", "x", "--symmetrize", "both"],
            '"both" for --symmetrize. Choose from: "probability"',
        ),
        (
            ["align", "a", "b", "--model", "x", "--units", "letters"],
            '"letters" for --units. Choose from: "words", "segments"',
        ),
        (
            ["lexicon", "a", "b", "--model", "x", "--output", "c", "--by", "ear"],
            '"ear" for --by. Choose from: "static", "links", "both"',
        ),
    ],
)
def test_mistakes_end_in_one_line_and_2(argv, message, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_all_of_an_error_on_request(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["align", "a", "b", "--model", "/no/where", "--traceback"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert "is neither the folder of an aligner" in said.splitlines()[-1]


def test_a_configuration_file_gives_a_commands_keys_too(tmp_path, capsys):
    (tmp_path / "run.yaml").write_text("model: x\nsymmetrize: magic\nsource: a\ntarget: b\n")
    with pytest.raises(SystemExit):
        cli.main(["align", "--config", str(tmp_path / "run.yaml")])
    assert '"magic"' in capsys.readouterr().err
    for text, message in (
        ("modle: x\n", "unknown key 'modle' in run.yaml; the nearest known one is 'model'"),
        ("language: no\n", "language: a value is False in YAML"),
        ("source: [[a]]\n", "source: [['a']] is nested"),
    ):
        (tmp_path / "run.yaml").write_text(text)
        with pytest.raises(SystemExit):
            cli.main(["encode", "--config", str(tmp_path / "run.yaml")])
        assert message in capsys.readouterr().err.replace(f"{tmp_path}/", "")
