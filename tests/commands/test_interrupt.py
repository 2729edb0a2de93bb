"""Ctrl-C shows no traceback, whatever it meets."""

import os
import signal
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from headscope import __main__ as command
from headscope import cli
from headscope.commands import interrupt


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def in_python() -> None:
    press()


def in_native_code() -> None:
    try:
        press()
    except KeyboardInterrupt:
        raise RuntimeError("the native library was interrupted") from None


def assert_ends_in_one_line(main: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended.value.code == interrupt.INTERRUPTED
    assert capsys.readouterr().err == "\nInterrupted.\n"


@pytest.mark.parametrize("work", [in_python, in_native_code])
def test_ctrl_c_is_one_line(
    work: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(interrupt, "_seen", [])
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr(cli, "build_app", lambda command, is_short: lambda prog_name: work())
    assert_ends_in_one_line(cli.main, capsys)


class Loading(ModuleType):
    """A module that is still being loaded when Ctrl-C is pressed."""

    def __getattr__(self, name: str) -> None:
        press()


def test_ctrl_c_is_one_line_while_the_command_loads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(interrupt, "_seen", [])
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setitem(sys.modules, "headscope.cli", Loading("headscope.cli"))
    assert_ends_in_one_line(command.main, capsys)


def test_an_error_without_ctrl_c_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "build_app", lambda command, is_short: lambda prog_name: fail())
    with pytest.raises(RuntimeError, match="a bug"):
        cli.main()
