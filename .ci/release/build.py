"""Builds the files of a release from the last commit: make release

    python3 .ci/release/build.py [--snapshot] OUT [GOOS/GOARCH …]

OUT gets for each system an archive with the static program, its manual pages and its shell
completions, the wheel and the SBOM (CycloneDX); .deb and .rpm packages for Linux, a Homebrew
formula, the guide for programs that do not contain it, and SHA256SUMS. The program is built in a clone, so that no file is in it that the commit
lacks. The same commit and the same Go give the same bytes in each folder.

Without --snapshot, the commit must have the tag of the version in python/dptrain/_version.py, and
$MAINTAINER is the name and the address in the packages for Linux: "Name <address>".
Go runs nfpm and cyclonedx-gomod at the versions below.
"""

import argparse
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import build_wheel  # noqa: E402

NFPM = "github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.2"
CYCLONEDX = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"
PAGE = "https://github.com/dptrain/dptrain"
MAINTAINER = os.environ.get("MAINTAINER", "nobody <nobody@localhost>")


def output(*command, cwd):
    return subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def go_run(tool, *arguments, cwd, **environment):
    """Runs a tool of the Go proxy; go.mod does not name it."""
    subprocess.run(["go", "run", tool, *arguments], cwd=cwd, check=True, env={**os.environ, **environment})


class Release:
    """The files of one commit."""

    def __init__(self, clone, out, cache):
        self.clone, self.out, self.cache = clone, out, cache
        self.version = build_wheel.version()
        self.commit = output("git", "rev-parse", "HEAD", cwd=clone)
        self.time = int(output("git", "log", "-1", "--format=%ct", cwd=clone))
        self.made = []

    def check_tag(self):
        tags = output("git", "tag", "--points-at", "HEAD", cwd=self.clone).split()
        if f"v{self.version}" not in tags:
            raise SystemExit(
                f"release: the commit {self.commit[:12]} has no tag v{self.version}; set the tag or the version in "
                "python/dptrain/_version.py, or build with --snapshot (make release SNAPSHOT=1)"
            )

    def check_maintainer(self):
        if "MAINTAINER" not in os.environ:
            raise SystemExit('release: the packages for Linux need a maintainer who reads mail; set MAINTAINER="Name <address>"')

    def build(self, targets):
        with tempfile.TemporaryDirectory() as work:
            documents = self.documents(work)
            for target in targets:
                self.build_target(target, work, documents)
        self.guide()
        if {"darwin/arm64", "darwin/amd64", "linux/arm64", "linux/amd64"} <= set(targets):
            self.write("dptrain.rb", self.formula().encode())
        sums = "".join(f"{self.digest(name)}  {name}\n" for name in sorted(self.made))
        self.write("SHA256SUMS", sums.encode())

    def documents(self, work):
        """Returns the files that are the same for all systems: place in an archive, and content."""
        program = os.path.join(work, "host")
        self.compile(build_wheel.host(), program)
        subprocess.run([program, "man", "--out", os.path.join(work, "man1"), "--quiet"], check=True, stdout=subprocess.DEVNULL)
        files = {name: self.read(os.path.join(self.clone, name)) for name in ("LICENSE", "README.md", "CHANGELOG.md")}
        for page in sorted(os.listdir(os.path.join(work, "man1"))):
            files[f"man1/{page}"] = self.read(os.path.join(work, "man1", page))
        for shell in ("bash", "zsh", "fish", "powershell"):
            script = subprocess.run([program, "completion", shell], check=True, stdout=subprocess.PIPE).stdout
            files[f"completions/dptrain.{'ps1' if shell == 'powershell' else shell}"] = script
        return files

    def compile(self, target, path):
        goos, goarch = target.split("/")
        link = f"-s -w -buildid= -X main.version=v{self.version}"
        subprocess.run(
            ["go", "build", "-trimpath", "-buildvcs=true", "-ldflags", link, "-o", path, "./cmd/dptrain"], cwd=self.clone, check=True,
            env={**os.environ, **self.cache, "CGO_ENABLED": "0", "GOOS": goos, "GOARCH": goarch, "GOFLAGS": "", "GOAMD64": "v1",
                 "GOARM64": "v8.0"},
        )  # fmt: skip

    def guide(self):
        """Writes the WebAssembly modules of the guide, for `dptrain learn --guide`."""
        name = f"dptrain_{self.version}_guide.zip"
        subprocess.run(
            ["go", "run", "./cmd/dptrain/internal/learn/build", "-out", os.path.join(self.out, name)], cwd=self.clone, check=True,
            env={**os.environ, **self.cache},
        )  # fmt: skip
        self.made.append(name)
        print("guide", flush=True)

    def build_target(self, target, work, documents):
        goos, goarch = target.split("/")
        suffix = ".exe" if goos == "windows" else ""
        folder = os.path.join(work, goos, goarch)
        os.makedirs(folder)
        program = os.path.join(folder, "dptrain" + suffix)
        if target == build_wheel.host():
            shutil.copy(os.path.join(work, "host"), program)
        else:
            self.compile(target, program)
        name = f"dptrain_{self.version}_{goos}_{goarch}"
        files = {"dptrain" + suffix: self.read(program), **documents}
        self.write(*(self.zip(name, files) if goos == "windows" else self.tar(name, files)))
        self.made.append(build_wheel.write_wheel(self.out, target, program))
        go_run(CYCLONEDX, "bin", "-json", "-std", "-noserial", "-notimestamp", "-version", "v" + self.version,
               "-output", os.path.join(self.out, f"{name}.cdx.json"), program, cwd=self.clone)  # fmt: skip
        self.made.append(f"{name}.cdx.json")
        if goos == "linux":
            self.packages(goarch, folder, documents)
        print(target, flush=True)

    def packages(self, goarch, folder, documents):
        os.utime(os.path.join(folder, "dptrain"), (self.time, self.time))
        for place, content in documents.items():
            if place.startswith("man1/"):
                place, content = place + ".gz", gzip.compress(content, 9, mtime=0)
            path = os.path.join(folder, place)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
            os.utime(path, (self.time, self.time))
        with open(os.path.join(self.clone, ".ci", "release", "nfpm.yaml"), encoding="utf-8") as file:
            config = file.read().replace("VERSION", self.version).replace("ARCH", goarch).replace("MAINTAINER", MAINTAINER)
        with open(os.path.join(folder, "nfpm.yaml"), "w", encoding="utf-8") as file:
            file.write(config)
        for kind in ("deb", "rpm"):
            name = f"dptrain_{self.version}_{goarch}.{kind}"
            go_run(NFPM, "package", "--packager", kind, "--target", os.path.join(self.out, name), cwd=folder,
                   SOURCE_DATE_EPOCH=str(self.time))  # fmt: skip
            self.made.append(name)

    def tar(self, name, files):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for place, data in files.items():
                entry = tarfile.TarInfo(f"{name}/{place}")
                entry.size, entry.mtime, entry.mode = len(data), self.time, 0o755 if place == "dptrain" else 0o644
                archive.addfile(entry, io.BytesIO(data))
        return f"{name}.tar.gz", gzip.compress(content.getvalue(), 9, mtime=0)

    def zip(self, name, files):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for place, data in files.items():
                entry = zipfile.ZipInfo(f"{name}/{place}")  # the time is the first one of a zip file
                entry.create_system, entry.external_attr = 3, 0o100644 << 16
                archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)
        return f"{name}.zip", content.getvalue()

    def formula(self):
        with open(os.path.join(self.clone, ".ci", "release", "homebrew.rb"), encoding="utf-8") as file:
            text = file.read().replace("VERSION", self.version).replace("PAGE", PAGE)
        for system in ("darwin_arm64", "darwin_amd64", "linux_arm64", "linux_amd64"):
            text = text.replace(f"SHA256_{system}", self.digest(f"dptrain_{self.version}_{system}.tar.gz"))
        return text

    def write(self, name, content):
        with open(os.path.join(self.out, name), "wb") as file:
            file.write(content)
        self.made.append(name)

    def digest(self, name):
        return hashlib.sha256(self.read(os.path.join(self.out, name))).hexdigest()

    @staticmethod
    def read(path):
        with open(path, "rb") as file:
            return file.read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT", help="a new or empty folder")
    parser.add_argument("targets", metavar="GOOS/GOARCH", nargs="*", help="systems; all by default")
    parser.add_argument("--snapshot", action="store_true", help="build a commit without a tag")
    parser.add_argument("--cache", metavar="FOLDER", help="Go's build cache for the program")
    arguments = parser.parse_args()
    unknown = [t for t in arguments.targets if t not in build_wheel.TAGS]
    if unknown:
        parser.error(f"{unknown[0]} is unknown; write some of {', '.join(build_wheel.TAGS)}")
    out = os.path.abspath(arguments.out)
    os.makedirs(out, exist_ok=True)
    if os.listdir(out):
        parser.error(f"{arguments.out} is not empty; name a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        clone = os.path.join(temporary, "dptrain")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        release = Release(clone, out, {"GOCACHE": os.path.abspath(arguments.cache)} if arguments.cache else {})
        if not arguments.snapshot:
            release.check_tag()
            release.check_maintainer()
        release.build(arguments.targets or list(build_wheel.TAGS))


if __name__ == "__main__":
    main()
