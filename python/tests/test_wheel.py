"""The wheel as built: DPTRAIN_WHEEL names it."""

import hashlib
import os
import subprocess
import sysconfig
import zipfile
from base64 import urlsafe_b64encode

import pytest

from dptrain import _program

pytestmark = pytest.mark.skipif("DPTRAIN_WHEEL" not in os.environ, reason="DPTRAIN_WHEEL names no wheel")


def test_size_and_content():
    wheel = os.environ["DPTRAIN_WHEEL"]
    assert os.path.getsize(wheel) < 20_000_000
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
        assert any(n.startswith("dptrain/bin/dptrain") for n in names)
        assert not [n for n in names if "test" in n]
        record = content.read(next(n for n in names if n.endswith("/RECORD"))).decode().splitlines()
        for line in record:
            name, digest, size = line.rsplit(",", 2)
            if digest:
                data = content.read(name)
                assert len(data) == int(size)
                assert digest == "sha256=" + urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        assert sorted(line.rsplit(",", 2)[0] for line in record) == sorted(names)


@pytest.mark.parametrize("system, name", [("win32", "dptrain.exe"), ("darwin", "dptrain"), ("linux", "dptrain")])
def test_the_program_has_the_name_of_the_system(system, name, monkeypatch):
    monkeypatch.delenv("DPTRAIN_PROGRAM", raising=False)
    monkeypatch.setattr("sys.platform", system)
    assert os.path.basename(_program.path()) == name and os.path.isdir(os.path.dirname(_program.path()))


def test_the_command_is_the_program():
    command = os.path.join(sysconfig.get_path("scripts"), "dptrain")
    version = subprocess.run([command, "version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("dptrain v" + os.path.basename(os.environ["DPTRAIN_WHEEL"]).split("-")[1])
    wrong = subprocess.run([command, "train", "--epsilon", "nothing"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and wrong.stderr.count("\n") == 1
    learn = subprocess.run([command, "learn", "--open=false"], capture_output=True, text=True, check=False)
    assert learn.returncode == 1 and learn.stderr.count("\n") == 1 and "_guide.zip from https://" in learn.stderr
