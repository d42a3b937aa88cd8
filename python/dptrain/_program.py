"""Runs the program dptrain that the package contains."""

import json
import os
import re
import signal
import subprocess
import sys
import threading

from ._errors import BY_EXIT_CODE, DptrainError

INTERRUPTED = 130


def path():
    """Returns the path of the program: $DPTRAIN_PROGRAM, or the one of the package."""
    name = "dptrain.exe" if sys.platform == "win32" else "dptrain"
    return os.environ.get("DPTRAIN_PROGRAM") or os.path.join(os.path.dirname(__file__), "bin", name)


def main():
    """The command dptrain: the program takes the place of Python."""
    command = [path(), *sys.argv[1:]]
    if sys.platform != "win32":
        os.execv(command[0], command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program, which has the same console, handles it
    sys.exit(subprocess.run(command, check=False).returncode)


def check_version(expected):
    """Raises ImportError unless the program can be started and has the version of the package."""
    try:
        version = run_json(["version"])["version"]
    except (OSError, DptrainError) as error:
        raise ImportError(f"dptrain: the program {path()} cannot be started: {error}; install the package again") from None
    if version.removeprefix("v") != expected:
        raise ImportError(
            f"dptrain: the program {path()} has the version {version}, and the package {expected}; "
            "install the package again, or unset DPTRAIN_PROGRAM"
        )


def flags(settings):
    """Converts settings to arguments: local_steps=4 becomes --local-steps=4."""
    arguments = []
    for name, value in settings.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(flag)
        else:
            values = value if isinstance(value, (list, tuple)) else [value]
            arguments += [f"{flag}={v}" for v in values]
    return arguments


def run_json(arguments, **options):
    """Runs a command with --json and returns its object."""
    return json.loads(run([*arguments, "--json"], **options))


def run(arguments, parts=(), watch=None):
    """Runs a command and returns its standard output.

    parts are written to its standard input. watch() is called about five times a second. An
    interrupt (^C) is passed to the command, which saves its work; then KeyboardInterrupt is raised.
    """
    child = subprocess.Popen(
        [path(), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **_own_group()
    )
    outputs = {}
    threads = [
        threading.Thread(target=_write, args=(child.stdin, parts), daemon=True),
        threading.Thread(target=lambda: outputs.update(out=child.stdout.read()), daemon=True),
        threading.Thread(target=lambda: outputs.update(err=child.stderr.read()), daemon=True),
    ]
    for t in threads:
        t.start()
    interrupts = 0
    while True:
        try:
            threads[1].join(0.2)  # child.wait with a timeout would poll
            if not threads[1].is_alive():
                child.wait()
                break
            if watch:
                watch()
        except KeyboardInterrupt:
            interrupts += 1
            _interrupt(child, interrupts)
        except BaseException:
            child.kill()
            raise
    for t in threads:
        t.join()
    child.stdout.close()
    child.stderr.close()
    if child.returncode != 0:
        if interrupts or child.returncode == INTERRUPTED:
            raise KeyboardInterrupt(_message(outputs["err"]))
        raise BY_EXIT_CODE.get(child.returncode, DptrainError)(_message(outputs["err"]))
    if interrupts:
        raise KeyboardInterrupt
    return outputs["out"]


def _own_group():
    """Options so that a terminal sends ^C to Python alone, which passes it on."""
    if sys.platform == "win32":
        return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return {"start_new_session": True}


def _interrupt(child, times):
    """Asks the command to save and end; the third time it is killed."""
    if times > 2:
        child.kill()
    elif sys.platform == "win32":
        child.send_signal(signal.CTRL_BREAK_EVENT)
    else:
        child.send_signal(signal.SIGINT)


def _write(pipe, parts):
    try:
        for part in parts:
            pipe.write(part)
        pipe.close()
    except OSError:
        pass  # the command ended early, and its message says why


def _message(stderr):
    """Returns the last message of the program, with settings named as in Python."""
    text = stderr.decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.startswith("dptrain: ")] or text.splitlines() or ["dptrain: it failed without a message"]
    return re.sub(r"--([a-z][a-z-]*)", lambda m: m[1].replace("-", "_"), lines[-1])
