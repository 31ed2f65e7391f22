"""YAML and command line."""

from dataclasses import dataclass, field

import pytest

from hfxling.arguments import parse_arguments, resolved, run_recipe


@dataclass
class Arguments:
    data: list[str] = field(metadata={"help": "files"})
    margin: float = 1.0
    rate: float = 1e-3
    centre: bool = False
    name: str | None = None


def parse(argv, **kwargs):
    return parse_arguments((Arguments,), argv, **kwargs)[0]


def test_command_line_wins_over_yaml_over_defaults(tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text("data: [a.zh, a.vi]\nmargin: 2.0\nrate: 5e-6\ncentre: true\nname: null\n")
    found = parse(["--config", str(config), "--margin", "3"], defaults={"margin": 9.0, "name": "x"})
    assert found == Arguments(data=["a.zh", "a.vi"], margin=3.0, rate=5e-6, centre=True, name="x")
    assert resolved(found) == {"data": ["a.zh", "a.vi"], "margin": 3.0, "rate": 5e-6, "centre": True, "name": "x"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("marign: 2\n", "unknown key 'marign' in .*run.yaml; the nearest known one is 'margin'"),
        ("- 1\n", "need lines of the form"),
        ("data: [\n", "not valid YAML"),
    ],
)
def test_bad_yaml(text, message, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(text)
    with pytest.raises(ValueError, match=message):
        parse([f"--config={config}", "--data", "x"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["--data", "x", "--marjin", "2"],
            "unknown key 'marjin' in the command line; the nearest known one is 'margin'",
        ),
        (["--margin", "2"], "required: --data"),
        (["--data", "x", "--margin", "wide"], "invalid float value: 'wide'"),
    ],
)
def test_bad_command_line(argv, message):
    with pytest.raises(ValueError, match=message):
        parse(argv)


def test_missing_configuration():
    with pytest.raises(FileNotFoundError, match=r"none\.yaml: no such configuration"):
        parse(["--config", "none.yaml"])


def test_an_error_of_the_user_ends_in_one_line(capsys):
    def main():
        raise ValueError("line one\n  and two")

    with pytest.raises(SystemExit) as stop:
        run_recipe(main)
    assert stop.value.code == 2
    assert capsys.readouterr().err == "error: line one and two\n"
