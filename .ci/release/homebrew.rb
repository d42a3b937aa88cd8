class Dptrain < Formula
  desc "Train neural networks on private data, with a ledger of the privacy cost"
  homepage "PAGE"
  version "VERSION"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "PAGE/releases/download/vVERSION/dptrain_VERSION_darwin_arm64.tar.gz"
      sha256 "SHA256_darwin_arm64"
    end
    on_intel do
      url "PAGE/releases/download/vVERSION/dptrain_VERSION_darwin_amd64.tar.gz"
      sha256 "SHA256_darwin_amd64"
    end
  end

  on_linux do
    on_arm do
      url "PAGE/releases/download/vVERSION/dptrain_VERSION_linux_arm64.tar.gz"
      sha256 "SHA256_linux_arm64"
    end
    on_intel do
      url "PAGE/releases/download/vVERSION/dptrain_VERSION_linux_amd64.tar.gz"
      sha256 "SHA256_linux_amd64"
    end
  end

  def install
    bin.install "dptrain"
    man1.install Dir["man1/*.1"]
    bash_completion.install "completions/dptrain.bash" => "dptrain"
    zsh_completion.install "completions/dptrain.zsh" => "_dptrain"
    fish_completion.install "completions/dptrain.fish"
  end

  test do
    assert_match "v#{version}", shell_output("#{bin}/dptrain version")
  end
end
