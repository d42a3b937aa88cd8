"""Verifies the files of a release: python3 .ci/release/verify.py OUT GOOS/GOARCH …

Each program has the format, the processor and the version of its name, and loads no library. The wheel and
the archive of a target have the same program, pip chooses this wheel on the target's platforms, and the
wheel has less than 20 MB. The SBOM lists the modules that the program names. SHA256SUMS covers all files.
The programs of this machine, and of linux/arm64 where qemu-aarch64 is installed, are started.
"""

import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import build_wheel  # noqa: E402

# What pip calls the platforms of a target, with a later version of macOS.
PLATFORMS = {
    "linux/amd64": ["manylinux_2_17_x86_64", "musllinux_1_2_x86_64"],
    "linux/arm64": ["manylinux_2_17_aarch64", "musllinux_1_2_aarch64"],
    "darwin/amd64": ["macosx_12_0_x86_64", "macosx_15_0_x86_64"],
    "darwin/arm64": ["macosx_12_0_arm64", "macosx_15_0_arm64"],
    "windows/amd64": ["win_amd64"],
    "windows/arm64": ["win_arm64"],
}

ELF = {"amd64": 62, "arm64": 183}
MACH_O = {"amd64": 0x01000007, "arm64": 0x0100000C}
PE = {"amd64": 0x8664, "arm64": 0xAA64}


def kind(program):
    """Returns the target of a program, from its header."""

    def name(machines, number):
        return next((arch for arch, n in machines.items() if n == number), f"machine {number:#x}")

    if program[:4] == b"\x7fELF":
        headers, size, count = struct.unpack_from("<Q", program, 32)[0], *struct.unpack_from("<HH", program, 54)
        kinds = [struct.unpack_from("<I", program, headers + i * size)[0] for i in range(count)]
        assert 3 not in kinds, "the program needs a loader, so it is not static"
        return "linux/" + name(ELF, struct.unpack_from("<H", program, 18)[0])
    if program[:4] == b"\xcf\xfa\xed\xfe":
        return "darwin/" + name(MACH_O, struct.unpack_from("<I", program, 4)[0])
    if program[:2] == b"MZ":
        at = struct.unpack_from("<I", program, 60)[0]
        assert program[at : at + 4] == b"PE\0\0"
        return "windows/" + name(PE, struct.unpack_from("<H", program, at + 4)[0])
    raise AssertionError(f"unknown format {program[:4]!r}")


def program_of_archive(out, target, version):
    name = f"dptrain_{version}_{target.replace('/', '_')}"
    if target.startswith("windows/"):
        with zipfile.ZipFile(os.path.join(out, name + ".zip")) as archive:
            return archive.read(f"{name}/dptrain.exe")
    with tarfile.open(os.path.join(out, name + ".tar.gz")) as archive:
        member = archive.getmember(f"{name}/dptrain")
        assert member.mode == 0o755, f"{name}: mode {member.mode:o}"
        return archive.extractfile(member).read()


def check_wheel(out, target, version, program):
    wheel = f"dptrain-{version}-{build_wheel.TAGS[target]}.whl"
    size = os.path.getsize(os.path.join(out, wheel))
    assert size < 20_000_000, f"{wheel} has {size} bytes"
    with zipfile.ZipFile(os.path.join(out, wheel)) as content:
        inside = next(n for n in content.namelist() if n.startswith("dptrain/bin/"))
        assert inside.endswith(".exe") == target.startswith("windows/")
        assert content.getinfo(inside).external_attr >> 16 & 0o111, f"{wheel}: the program is not executable"
        assert content.read(inside) == program, f"{wheel} has another program than the archive"
    for platform in PLATFORMS[target]:
        with tempfile.TemporaryDirectory() as got:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", "--find-links", out,
                 "--only-binary=:all:", "--platform", platform, "--python-version", "3.12", "--dest", got, f"dptrain=={version}"], check=True,
            )  # fmt: skip
            assert os.listdir(got) == [wheel], f"pip chooses {os.listdir(got)} on {platform}"


def check_sbom(out, target, version, program):
    with open(os.path.join(out, f"dptrain_{version}_{target.replace('/', '_')}.cdx.json"), encoding="utf-8") as file:
        sbom = json.load(file)
    assert sbom["bomFormat"] == "CycloneDX" and sbom["metadata"]["component"]["version"] == "v" + version
    listed = {f"{c['name']} {c['version']}" for c in sbom["components"]}
    with tempfile.NamedTemporaryFile() as copy:
        copy.write(program)
        copy.flush()
        text = subprocess.run(["go", "version", "-m", copy.name], check=True, stdout=subprocess.PIPE, text=True).stdout
    missing = {" ".join(m) for m in re.findall(r"^\tdep\t(\S+)\t(\S+)", text, re.MULTILINE)} - listed
    assert not missing, f"the SBOM of {target} lacks {sorted(missing)}"
    settings = dict(re.findall(r"^\tbuild\t(\S+?)=(.*)$", text, re.MULTILINE))
    assert (settings["GOOS"] + "/" + settings["GOARCH"], settings["CGO_ENABLED"]) == (target, "0")


def check_start(target, version, program):
    """Starts a program that this machine can run, and reports whether there is one."""
    emulator = shutil.which("qemu-aarch64")
    if target != build_wheel.host() and not (target == "linux/arm64" and emulator):
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "dptrain")
        with open(path, "wb") as file:
            file.write(program)
        os.chmod(path, 0o755)
        command = [path] if target == build_wheel.host() else [emulator, path]
        answer = json.loads(subprocess.run([*command, "version", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    assert (answer["version"], answer["platform"]) == ("v" + version, target), answer
    assert len(answer["revision"]) == 40 and not answer.get("modified"), answer
    return True


def check_sums(out):
    with open(os.path.join(out, "SHA256SUMS"), encoding="utf-8") as file:
        sums = dict(reversed(line.split()) for line in file)
    assert sorted(sums) == sorted(set(os.listdir(out)) - {"SHA256SUMS"})
    for name, digest in sums.items():
        with open(os.path.join(out, name), "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == digest, name


def main(out, *targets):
    version = build_wheel.version()
    for target in targets:
        program = program_of_archive(out, target, version)
        assert kind(program) == target, f"the program of {target} is one of {kind(program)}"
        check_wheel(out, target, version, program)
        check_sbom(out, target, version, program)
        started = check_start(target, version, program)
        print(f"{target}: the files are those of the target" + (", and the program starts" if started else ""), flush=True)
    check_sums(out)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
