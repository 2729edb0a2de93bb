"""Commands at a terminal of their own, stopped in the middle."""

import os
import pty
import signal
import time
from collections.abc import Callable, Sequence
from select import select

LONGEST = 240.0  # seconds until a command must have ended
CTRL_C = b"\x03"


def stop_in_the_middle(
    command: Sequence[str], is_time: Callable[[], bool], key: bytes | None = CTRL_C
) -> tuple[int, str]:
    """Press a key when it is time, or kill the command; its exit code, and what it said."""
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
        os.execvp(command[0], list(command))
    said, is_stopped, ends = b"", False, time.monotonic() + LONGEST
    while time.monotonic() < ends:
        try:
            said += os.read(terminal, 1 << 16) if select([terminal], [], [], 0.05)[0] else b""
        except OSError:  # the command has ended
            break
        if not is_stopped and is_time():
            is_stopped = True
            os.write(terminal, key) if key else os.kill(child, signal.SIGKILL)
    else:
        os.kill(child, signal.SIGKILL)
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert is_stopped, said.decode()
    return os.waitstatus_to_exitcode(status), said.decode(errors="replace").replace("\r\n", "\n")
