"""Processes."""
import os


def os_is_running(pid):
    try:
        os.kill(int(pid), 0)
        return True
    except OSError as exc:
        return exc.errno == 1
