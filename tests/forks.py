"""What a forked child makes of something, told to its parent."""

import json
import os
import signal
from collections.abc import Callable
from typing import Any


def do_in_child(act: Callable[[], Any]) -> Any:
    """Forks, does it in the child, and gives what came of it: a JSON value, or the name and words of an error."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # threads of other libraries are lost in a child, and may be waited for
        try:
            told = act()
        except BaseException as error:
            told = [type(error).__name__, str(error)]
        os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = json.loads(pipe.read())
    os.waitpid(child, 0)
    return told
