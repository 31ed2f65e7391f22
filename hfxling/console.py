"""What a user sees of messages, warnings and errors: lines, and never a traceback."""

from __future__ import annotations

import atexit
import errno
import logging
import os
import re
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from hfxling.missing import EXTRAS
from hfxling.progress import hide_loading_bars

# What `torch.save` says where its file takes no more bytes; it names no reason.
_TORCH_CANNOT_WRITE = ("iostream error", "unexpected pos")
_REMEDIES = {
    errno.ENOENT: "there is no such file or folder; check the path.",
    errno.EISDIR: "is a folder; name a file.",
    errno.ENOTDIR: "a file stands where a folder is needed; name another place.",
    errno.EEXIST: "a file stands where a folder is needed; name another place.",
    errno.ENOTEMPTY: "is a folder that is not empty; name another place.",
    errno.EACCES: "may not be read or written by this user; change its permissions or name another place.",
    errno.EPERM: "may not be read or written by this user; change its permissions or name another place.",
    errno.EROFS: "lies on a read-only disk; name another place.",
    errno.ENAMETOOLONG: "is too long for a file's name; name another.",
    errno.ENOSPC: "the disk is full; make room, or name another place.",
    errno.EDQUOT: "the disk is full; make room, or name another place.",
}


def run(main: Callable[[], Any], argv: Sequence[str] | None = None) -> None:
    """Run a recipe or a command; the one place that decides what a user sees of messages and errors.

    Messages of the logger "hfxling" go to standard error. What a user can cause (ValueError, and what the system says
    of files) ends in one line and exit status 2, any other error in one line and status 1; `--traceback` in `argv` (by
    default the process') shows all of it, and `--verbose` more messages. Ctrl-C, SIGTERM and a closed pipe end quietly,
    with 130, 143 and 141 as in a shell, and what was begun is taken back. Text is printed as UTF-8 in any locale. No
    message of any library shows a password or token.
    """
    words = sys.argv if argv is None else argv
    _prepare_streams()
    _end_on_sigterm()
    logger, handler = logging.getLogger("hfxling"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Message())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if "--verbose" in words else logging.INFO)
    logging.getLogger("transformers.trainer_utils").addFilter(_is_of_use)
    hide_loading_bars()
    record_of_any_logger = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_record_without_secrets)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            main()
        if sys.stdout is not None:
            sys.stdout.flush()
        _leave_together()
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _drop_unwritten()
        sys.exit(141)
    except Exception as error:
        line = _line_of(error)
        if "--traceback" in words:
            sys.stderr.write(without_secrets(traceback.format_exc()))
        else:
            unknown = [*traceback.format_exception_only(error), "(--traceback shows all)"]
            logger.error(" ".join((line or " ".join(unknown)).split()))
        _drop_unwritten()
        sys.exit(2 if line else 1)
    finally:
        logger.removeHandler(handler)
        logging.setLogRecordFactory(record_of_any_logger)


def _leave_together() -> None:
    """Of several processes, end this one now, when all have come here.

    gloo's threads outlive the process group, and an interpreter that takes its time to shut down now and then dies of
    them.
    """
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    distributed.barrier()
    atexit._run_exitfuncs()  # `os._exit` runs none
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _prepare_streams() -> None:
    """Standard output and error that take text of any language, whatever the locale; a closed error stream is none."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for the rest of the process
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            # Without `errors` stderr would become strict and no longer escape what it cannot encode.
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _drop_unwritten() -> None:
    """Leave out what cannot be written to standard output, of which the interpreter's last flush would complain."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _end_on_sigterm() -> None:
    """SIGTERM ends as Ctrl-C does, so that scratch files go."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        sys.unraisablehook = partial(_end_again, sys.unraisablehook)


def _end_again(before: Callable, unraisable: sys.UnraisableHookArgs) -> None:
    """Send a signal again that came within a callback that lets no exception out, such as a weak reference's."""
    number = None
    if isinstance(unraisable.exc_value, KeyboardInterrupt):
        number = signal.SIGINT
    elif isinstance(unraisable.exc_value, SystemExit) and unraisable.exc_value.code == 143:
        number = signal.SIGTERM
    if number is None or sys.is_finalizing():  # at its end the interpreter starts no threads
        before(unraisable)
        return
    again = threading.Timer(0.1, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


def check_words(words: Sequence[str]) -> None:
    """Refuse words of a command line that are not UTF-8."""
    for word in words:
        if any("\udc80" <= letter <= "\udcff" for letter in word):  # how Python keeps bytes that are not UTF-8
            raise ValueError(f"{word!a} is not UTF-8; give text in that encoding.")


def _show_warning(message: Warning | str, category: type[Warning], *_place: Any) -> None:
    """A warning as a line, without the place in the code; what libraries tell their developers is left out."""
    if not issubclass(category, DeprecationWarning | PendingDeprecationWarning | FutureWarning):
        logging.getLogger("hfxling").warning(" ".join(str(message).split()))


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether a user can do something about a library's message."""
    return not record.getMessage().startswith("mtime may not be reliable")


def _line_of(error: Exception) -> str | None:
    """What an error says that a user can cause; None for any other. The system names a file and no remedy."""
    if isinstance(error, OSError) and error.errno in _REMEDIES and error.filename is not None:
        return f"{os.fsdecode(error.filename2 or error.filename)}: {_REMEDIES[error.errno]}"
    if os.strerror(errno.ENOSPC) in str(error) or os.strerror(errno.EDQUOT) in str(error):  # safetensors has own errors
        return f"{_REMEDIES[errno.ENOSPC]} ({error})"
    if isinstance(error, RuntimeError) and any(words in str(error) for words in _TORCH_CANNOT_WRITE):
        return "a file could not be written: is the disk full? Make room, or name another place."
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        return str(error)
    if isinstance(error, ValueError | FileNotFoundError):
        return str(error) or None
    return None


def without_secrets(text: str) -> str:
    """The text without passwords in addresses and tokens of the Hub, which logs would keep."""
    text = re.sub(r"(:/+)[^/\s@]+@", r"\1...@", text)  # one stroke where a path was made of an address
    text = re.sub(r"([?&][\w-]*(?:token|key|secret|password|signature)[\w-]*=)[^&\s'\"]+", r"\1...", text, flags=re.I)
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "hf_...", text)


def _record_without_secrets(*args: Any, **kwargs: Any) -> logging.LogRecord:
    record = logging.LogRecord(*args, **kwargs)
    try:
        text = record.getMessage()
    except (TypeError, ValueError):  # a library's malformed call, which ends no run
        text = f"{record.msg} {record.args}"
    record.msg, record.args = without_secrets(text), ()
    return record


class _Message(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        text = without_secrets(super().format(record))
        text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: repr(found[0])[1:-1], text)  # terminals obey them
        return text if record.levelno <= logging.INFO else f"{record.levelname.lower()}: {text}"
