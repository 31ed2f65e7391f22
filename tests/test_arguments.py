"""YAML and command line."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from transformers import TrainingArguments

from hfxling.arguments import parse_arguments, read_yaml, resolved


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
        (["stray", "--data", "x"], "unexpected argument 'stray'; see --help"),
    ],
)
def test_bad_command_line(argv, message):
    with pytest.raises(ValueError, match=message):
        parse(argv)


def test_missing_configuration():
    with pytest.raises(FileNotFoundError, match=r"none\.yaml: no such configuration"):
        parse(["--config", "none.yaml"])


@dataclass
class Base:
    """What is read. A second sentence.

    And a second paragraph.
    """

    data: list[str] = field(metadata={"help": "files"})
    share: str = field(default="100%", metadata={"help": "of it"})


@dataclass
class Derived(Base):
    """How it is used."""

    rate: float = field(default=1e-3, metadata={"help": "of learning"})
    centre: bool = field(default=True, metadata={"help": "or not"})


def help_page(capsys, *argv, types=(Derived, TrainingArguments), **kwargs) -> str:
    with pytest.raises(SystemExit) as stop:
        parse_arguments(types, list(argv), **kwargs)
    assert stop.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_has_groups_with_the_defaults_that_hold(capsys, tmp_path):
    (tmp_path / "run.yaml").write_text("share: 50%\n")
    defaults = {"rate": 7.0, "warmup_steps": 3, "output_dir": "outputs/x", "seed": None}
    page = help_page(capsys, "--config", str(tmp_path / "run.yaml"), "--help", defaults=defaults)
    assert " --data DATA ... [--KEY VALUE ...] " in page.partition("What is read")[0]
    titles = ["What is read. A second sentence: --data ", "How it is used: --rate ", "The Trainer's (", "General: "]
    assert [page.index(title) for title in titles] == sorted(page.index(title) for title in titles)
    for part in ("files (required)", "of it (default: 50%)", "of learning (default: 7.0)", "or not (default: true)"):
        assert part in page
    assert "(default: outputs/x)" in page
    assert "(default: 42)" in page, "a default of None is none"
    for key in ("--warmup_steps", "--push_to_hub", "--bf16", "--resume_from_checkpoint"):
        assert f"{key} " in page
    assert "--adam_beta1" not in page
    assert "--adam_beta1" in help_page(capsys, "--help-all", defaults=defaults)


def test_every_key_of_the_trainer_can_be_given(tmp_path):
    argv = ["--output_dir", str(tmp_path), "--use_cpu", "--lr_scheduler_type", "cosine", "--optim", "adamw_torch"]
    argv += ["--lr-scheduler-kwargs", '{"num_cycles": 2}', "--logging_steps", "0.5", "--torch_compile", "no"]
    argv += ["--report_to", "none", "--ddp_find_unused_parameters", "false", "--include_num_input_tokens_seen", "true"]
    (found,) = parse_arguments((TrainingArguments,), [*argv, "--resume_from_checkpoint"], defaults={"max_steps": 5})
    assert (found.max_steps, found.logging_steps, found.use_cpu) == (5, 0.5, True)
    assert (found.lr_scheduler_type, found.optim, found.report_to) == ("cosine", "adamw_torch", [])
    assert (found.lr_scheduler_kwargs, found.torch_compile) == ({"num_cycles": 2}, False)
    assert (found.ddp_find_unused_parameters, found.include_num_input_tokens_seen) == (False, "all")
    assert found.resume_from_checkpoint == "true"


def test_dashes_stand_for_underscores():
    @dataclass
    class Two:
        source_lang: str

    for argv in (["--source-lang", "zh-tw"], ["--source-lang=zh-tw"], ["--source_lang", "zh-tw"]):
        assert parse_arguments((Two,), argv) == (Two("zh-tw"),)


def test_unknown_defaults_are_refused():
    with pytest.raises(ValueError, match="unknown key 'marjin' in the defaults; the nearest known one is 'margin'"):
        parse(["--data", "x"], defaults={"marjin": 1})


@dataclass
class Counted:
    """Numbers and places."""

    top: int = field(default=3, metadata={"help": "how many", "least": 1})
    sizes: list[int] | None = field(default=None, metadata={"help": "of each", "least": 1})
    share: float = field(default=0.5, metadata={"help": "of it", "least": 0})
    folder: str | None = field(default=None, metadata={"help": "a folder", "writes": "folder"})


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--top", "0"], "^top=0: give 1 or more.$"),
        (["--sizes", "3", "-1"], r"^sizes=\[3, -1\]: give 1 or more.$"),
        (["--share", "nan"], "^share=nan: give a number.$"),
        (["--folder", "{here}/file"], "^folder=.*file is a file; name a folder.$"),
        (["--folder", "{here}/file/deep/er"], "deep/er: .*file is a file, not a folder; name another place.$"),
    ],
)
def test_counts_and_places_are_checked_when_they_are_read(argv, message, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=message):
        parse_arguments((Counted,), [word.format(here=tmp_path) for word in argv])
    sound = ["--folder", str(tmp_path / "a" / "b"), "--sizes", "1", "--share", "0"]
    assert parse_arguments((Counted,), sound)[0].sizes == [1]
    assert not (tmp_path / "a").exists()


def test_a_place_that_may_not_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(ValueError, match=r"this user may not write to .*; name another place"):
        parse_arguments((Counted,), ["--folder", str(tmp_path / "x" / "y")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name: no\n", 'run.yaml: name: a value is False in YAML, .*; write "no" in quotes.'),
        ("data: [sv, no]\n", "run.yaml: data: a value is False in YAML"),
        ("name: [1, 2]\n", r"run.yaml: name: \[1, 2\] is a list; give one value, such as '1,2'."),
        ("data: [[a]]\n", r"run.yaml: data: \[\['a'\]\] is nested"),
        ("margin: {a: 1}\n", "run.yaml: margin: .* is nested"),
        ("save_strategy: no\n", "run.yaml: save_strategy: a value is False in YAML"),
    ],
)
def test_what_yaml_reads_otherwise_than_it_was_meant(text, message, tmp_path):
    config = tmp_path / "run.yaml"
    config.write_text(text)
    with pytest.raises(ValueError, match=message):
        parse_arguments((Arguments, TrainingArguments), ["--config", str(config), "--data", "x"])


def test_yaml_gives_dictionaries_and_truth_values_where_they_belong(tmp_path):
    config = tmp_path / "run.yaml"
    kept = "centre: yes\nresume_from_checkpoint: true\nlr_scheduler_kwargs: {a: 1}\noutput_dir: x\nuse_cpu: true\n"
    config.write_text(kept + "data: [x]\n")
    args, training_args = parse_arguments((Arguments, TrainingArguments), ["--config", str(config)])
    assert args.centre
    assert training_args.resume_from_checkpoint == "True"
    assert training_args.lr_scheduler_kwargs == {"a": 1}


def test_a_configuration_that_is_nested_too_deeply_is_a_line(tmp_path):
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 1_000)
    with pytest.raises(ValueError, match=r"deep\.yaml: not valid YAML"):
        read_yaml(tmp_path / "deep.yaml")


def test_aliases_of_aliases_are_refused_before_anything_is_shown(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for number in range(1, 30):
        lines.append(f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]")
    (tmp_path / "bomb.yaml").write_text("\n".join([*lines, "layer: *a29"]))
    with pytest.raises(ValueError, match=r"bomb\.yaml: more than 100,000 values after resolving its aliases"):
        read_yaml(tmp_path / "bomb.yaml")
    (tmp_path / "ring.yaml").write_text("layer: &a [*a]")
    with pytest.raises(ValueError, match="more than 100,000 values"):
        read_yaml(tmp_path / "ring.yaml")
