"""What is refused of the Trainer's arguments before anything is read."""

import pytest
from transformers import TrainingArguments

from hfxling.methods.checks import check_trainer, refuse_evaluation


def arguments(folder, **settings):
    made = TrainingArguments(str(folder / "out"), report_to="none", use_cpu=True)
    for name, value in settings.items():  # as a copy that a study makes
        setattr(made, name, value)
    return made


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"per_device_train_batch_size": 0}, "per_device_train_batch_size=0: give 1 or more."),
        ({"per_device_eval_batch_size": -1}, "per_device_eval_batch_size=-1: give 1 or more."),
        ({"gradient_accumulation_steps": 0}, "gradient_accumulation_steps=0: give 1 or more."),
        ({"num_train_epochs": -1}, "num_train_epochs=-1: give 0 or more."),
        ({"learning_rate": float("nan")}, "learning_rate=nan: give 0 or more."),
        ({"learning_rate": float("inf")}, "learning_rate=inf: give 0 or more."),
        ({"max_steps": 0}, "max_steps=0: give 1 or more, or leave it out for num_train_epochs."),
        ({"max_steps": -2}, "max_steps=-2: give 1 or more"),
        ({"save_steps": 0}, "save_steps=0: give more than 0, or --save_strategy no."),
        ({"eval_strategy": "steps", "eval_steps": 0}, "eval_steps=0: give more than 0, or --eval_strategy no."),
        ({"report_to": ["comet_ml"]}, "report_to='comet_ml': its package is not installed; install it, or choose from"),
        ({"report_to": "tensorbord"}, "report_to='tensorbord' is not one of azure_ml, "),
        ({"output_dir": "{here}/file"}, "file is a file; name a folder."),
        ({"output_dir": "{here}/file/out"}, "file is a file, not a folder; name another place."),
    ],
)
def test_each_is_refused(settings, message, tmp_path):
    (tmp_path / "file").touch()
    settings = {k: v.format(here=tmp_path) if isinstance(v, str) else v for k, v in settings.items()}
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as error:
        check_trainer(arguments(tmp_path, **settings))
    assert "\n" not in str(error.value)


def test_sound_ones_pass(tmp_path):
    check_trainer(arguments(tmp_path))
    check_trainer(
        arguments(tmp_path, max_steps=1, num_train_epochs=0, learning_rate=0.0, save_strategy="no", save_steps=0)
    )


def test_a_method_that_tests_before_and_after_alone_says_so(tmp_path):
    refuse_evaluation(None, "a head")
    refuse_evaluation(arguments(tmp_path), "a head")
    made = TrainingArguments(str(tmp_path), report_to="none", use_cpu=True, eval_strategy="epoch")
    with pytest.raises(
        ValueError, match=r"^eval_strategy='epoch': a head is tested before and after training, not during it"
    ):
        refuse_evaluation(made, "a head")
