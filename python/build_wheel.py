"""Builds wheels of dptrain: the package and the static program, for one system each.

As a build backend it serves ``pip install ./python``, which needs Go. As a command it
cross-compiles wheels for all systems::

    python python/build_wheel.py OUT [GOOS/GOARCH …]

The same sources and the same Go give the same bytes.
"""

import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)

# A static program needs no C library, so one wheel serves glibc and musl.
TAGS = {
    "linux/amd64": "py3-none-manylinux_2_17_x86_64.musllinux_1_2_x86_64",
    "linux/arm64": "py3-none-manylinux_2_17_aarch64.musllinux_1_2_aarch64",
    "darwin/amd64": "py3-none-macosx_12_0_x86_64",
    "darwin/arm64": "py3-none-macosx_12_0_arm64",
    "windows/amd64": "py3-none-win_amd64",
    "windows/arm64": "py3-none-win_arm64",
}

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time of a zip file


def version():
    with open(os.path.join(HERE, "dptrain", "_version.py"), encoding="utf-8") as file:
        return re.search(r'"(.+)"', file.read())[1]


def metadata():
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    with open(os.path.join(HERE, "pyproject.toml"), encoding="utf-8") as file:
        project = file.read()
    needs = re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*)\]", project, re.MULTILINE)[1])
    lines = [
        "Metadata-Version: 2.4", "Name: dptrain", f"Version: {version()}",
        "Summary: " + re.search(r'^description = "(.*)"', project, re.MULTILINE)[1],
        "License-Expression: Apache-2.0", "License-File: LICENSE",
        "Requires-Python: " + re.search(r'^requires-python = "(.*)"', project, re.MULTILINE)[1],
        *(f"Requires-Dist: {n}" for n in needs), "Description-Content-Type: text/markdown",
    ]  # fmt: skip
    return "\n".join(lines) + "\n\n" + readme


def build_program(target, path):
    """Compiles the program. The flags leave out what differs between two folders."""
    goos, goarch = target.split("/")
    link = f"-s -w -buildid= -X main.version=v{version()}"
    subprocess.run(
        ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", link, "-o", path, "./cmd/dptrain"],
        cwd=ROOT, check=True, env={**os.environ, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch},
    )  # fmt: skip


def write_wheel(folder, target, program):
    """Writes the wheel of a target with a compiled program, and returns its name."""
    tag, info = TAGS[target], f"dptrain-{version()}.dist-info"
    name = f"dptrain-{version()}-{tag}.whl"
    record = []
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:

        def add(place, content, mode=0o644):
            entry = zipfile.ZipInfo(place, _EPOCH)
            entry.create_system, entry.external_attr, entry.compress_type = 3, (0o100000 | mode) << 16, zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content, compresslevel=9)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{place},sha256={digest},{len(content)}\n")

        for file in sorted(os.listdir(os.path.join(HERE, "dptrain"))):
            if file.endswith(".py"):
                add(f"dptrain/{file}", _read(os.path.join(HERE, "dptrain", file)))
        add("dptrain/bin/dptrain" + (".exe" if target.startswith("windows/") else ""), _read(program), 0o755)
        add(f"{info}/METADATA", metadata().encode())
        kinds = "".join(f"Tag: {t}\n" for t in _expanded(tag))
        add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: dptrain\nRoot-Is-Purelib: false\n{kinds}".encode())
        add(f"{info}/entry_points.txt", b"[console_scripts]\ndptrain = dptrain._program:main\n")
        add(f"{info}/licenses/LICENSE", _read(os.path.join(ROOT, "LICENSE")))
        record.append(f"{info}/RECORD,,\n")
        add(f"{info}/RECORD", "".join(record).encode())
    return name


def _expanded(tag):
    python, abi, platforms = tag.split("-")
    return [f"{python}-{abi}-{p}" for p in platforms.split(".")]


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def host():
    """Returns the target of this machine."""
    systems = {"linux": "linux", "darwin": "darwin", "win32": "windows"}
    machines = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
    target = f"{systems.get(sys.platform, sys.platform)}/{machines.get(platform.machine().lower(), platform.machine())}"
    if target not in TAGS:
        raise SystemExit(f"dptrain: there is no wheel for {target}; there are wheels for {', '.join(TAGS)}")
    return target


def build(folder, target):
    """Compiles the program of a target and writes its wheel."""
    with tempfile.TemporaryDirectory() as temporary:
        program = os.path.join(temporary, "dptrain")
        build_program(target, program)
        return write_wheel(folder, target, program)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return build(wheel_directory, host())


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("dptrain: there is no source distribution, because installing it would compile the program; install a wheel")


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit(__doc__)
    unknown = [t for t in arguments[1:] if t not in TAGS]
    if unknown:
        raise SystemExit(f"dptrain: {unknown[0]} is unknown; write one of {', '.join(TAGS)}")
    os.makedirs(arguments[0], exist_ok=True)
    for target in arguments[1:] or TAGS:
        name = build(arguments[0], target)
        size = os.path.getsize(os.path.join(arguments[0], name)) / 1e6
        print(f"{name}  {size:.1f} MB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
