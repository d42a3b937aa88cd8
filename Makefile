# dptrain for the CPU needs no make: go build ./cmd/dptrain. This file builds it with
# support for NVIDIA GPUs. Missing headers and compilers are downloaded from PyPI to .cache.

CACHE := $(CURDIR)/.cache/cuda
PIP := python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --upgrade --target

# CUDA's headers, 12 or 13: from $CUDA_HOME, the usual folders, or PyPI.
HEADER := $(firstword $(wildcard $(if $(CUDA_HOME),$(CUDA_HOME)/include/cuda.h) \
	/usr/local/cuda/include/cuda.h /opt/cuda/include/cuda.h))
ifeq ($(HEADER),)
HEADER := $(CACHE)/headers/nvidia/cuda_runtime/include/cuda.h
endif

# Only this version of NVRTC compiles the kernels, so that the same sources give the same
# bytes.
NVRTC := $(CACHE)/nvrtc/nvidia/cuda_nvrtc/lib

export CGO_ENABLED := 1
export CGO_CFLAGS := -O2 -g -I$(CURDIR)/cuda/internal/include -I$(dir $(HEADER))
export CGO_LDFLAGS := -L$(CURDIR)/cuda/internal/driver/lib

# The emulated device: EMU=checked checks every access to shared memory, EMU=fast does
# not, and EMU=ptx runs the PTX to which NVRTC compiled the kernels, of the archive KERNELS.
EMU := checked
KERNELS := $(CACHE)/kernels-ptx.zip
PKG := ./cuda/...
RUN := .

.PHONY: quick changes release learn gpu vet-gpu emu dptrain-emu test-emu bench-gpu traffic bytes gpu-memory cubins cubins-check resources

# Checks what changed since the last commit, in about two minutes.
quick:
	bash .ci/quick

# Adds one change of each kind from patches of internal/lint to a copy, and checks that it works.
changes: $(HEADER)
	DPTRAIN_CHANGES=all go test -count=1 -run TestFilesToChange ./internal/lint

# Builds ./dptrain with the guide of `dptrain learn`, which needs modules for WebAssembly.
LEARN := $(CURDIR)/.cache/learn
learn:
	go run ./cmd/dptrain/internal/learn/build -out $(LEARN)/learn.zip
	printf '{"Replace": {%s}}' '$(guide)' > $(LEARN)/overlay.json
	go build -overlay $(LEARN)/overlay.json ./cmd/dptrain
guide = "$(CURDIR)/cmd/dptrain/internal/learn/built/learn.zip": "$(LEARN)/learn.zip"

# Builds the files of a release from the last commit: make release DIST=FOLDER. The commit has the
# version's tag, unless SNAPSHOT=1.
DIST := dist
release:
	python3 .ci/release/build.py $(if $(SNAPSHOT),--snapshot) $(DIST)

# Builds ./dptrain with kernels for some GPUs: make gpu TARGETS=sm_86,ptx. By default these are
# sm_90 (H100, H200), PTX, which the driver translates for later cards, and this host's cards.
# A release has them all, and the guide: make learn gpu TARGETS=all. Compiled kernels are kept in KERNEL_CACHE.
comma := ,
empty :=
space := $(empty) $(empty)
HOST := $(sort $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sed 's/^/sm_/'))
TARGETS := $(subst $(space),$(comma),$(strip $(sort sm_90 $(HOST)) ptx))
KERNEL_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/dptrain/kernels

# with ARCHIVE builds programs that contain an archive of kernels: go build $(call with,ARCHIVE)
with = -tags gpu -overlay $(call overlay,$(1))
overlay = $(shell mkdir -p $(CACHE); file=$(basename $(1))-overlay.json; mkdir -p $$(dirname $$file); \
	printf '{"Replace": {%s"%s": "%s"}}' '$(if $(wildcard $(LEARN)/learn.zip),$(guide)$(comma) )' $(CURDIR)/cuda/internal/kernels/built/kernels.zip $(1) > $$file; echo $$file)

gpu: $(HEADER) $(CACHE)/kernels-$(TARGETS).zip
	go build $(call with,$(CACHE)/kernels-$(TARGETS).zip) ./cmd/dptrain

vet-gpu: $(HEADER)
	go vet -tags gpu ./cuda/... ./cmd/dptrain ./engine ./bench ./perexample
	go build -tags gpu -o /dev/null ./cmd/dptrain # without kernels

emu: $(if $(filter ptx,$(EMU)),$(KERNELS))
	go run ./cuda/internal/emu/build $(if $(filter ptx,$(EMU)),-ptx $(KERNELS),-only $(EMU))
EMULATED := $(CACHE)/emu/kernels.zip

# Builds a dptrain for the emulated device: DPTRAIN_LIBCUDA=.cache/cuda/emu/checked/libcuda.so.1 .cache/cuda/emu/dptrain
dptrain-emu: $(HEADER) emu
	go build $(call with,$(EMULATED)) -o $(CACHE)/emu/dptrain ./cmd/dptrain

# Runs tests on the emulated device: make test-emu PKG=./cuda/internal/compile RUN=TestConformance_Operations
test-emu: $(HEADER) emu
	DPTRAIN_LIBCUDA=$(CACHE)/emu/$(EMU)/libcuda.so.1 go test $(call with,$(EMULATED)) -count=1 -timeout 3h -run '$(RUN)' $(PKG)

# Counts the memory requests of the kernels' instructions in three steps, on a sample of
# blocks: make traffic STEP=mnist-cnn. Counts launches and distinct bytes of a step's kernels,
# on all blocks, which takes minutes: make bytes STEP=mnist-cnn KIND=float
STEP := mnist-cnn
KIND := private
CARD = DPTRAIN_LIBCUDA=$(CACHE)/emu/$(EMU)/libcuda.so.1 DPTRAIN_EMU_NAME='a GPU' DPTRAIN_EMU_MULTIPROCESSORS=132 \
	DPTRAIN_CUBLASLT=none DPTRAIN_CUDNN=none
COUNT = $(CARD) go test $(call with,$(EMULATED)) ./bench -run '^$$' \
	-bench 'Step/$(STEP).*/$(KIND)' -benchtime 1x -timeout 1h -device cuda:0 -precision $(PRECISION)
traffic bytes: EMU := ptx
traffic: $(HEADER) emu
	DPTRAIN_EMU_TRAFFIC=$(CACHE)/traffic.tsv $(COUNT)
	@head -40 $(CACHE)/traffic.tsv
bytes: $(HEADER) emu
	DPTRAIN_EMU_BYTES=$(CACHE)/bytes.tsv $(COUNT)
	@awk -F '\t' 'NR > 1 { n += $$2; r += $$3; w += $$4 } \
		END { printf "$(STEP) $(KIND): %.0f launches, %.1f MB loaded, %.1f MB stored a step\n", n / 3, r / 3e6, w / 3e6 }' $(CACHE)/bytes.tsv

# Prints the GPU memory of a step of each workload.
gpu-memory: $(HEADER) emu
	$(CARD) go test $(call with,$(EMULATED)) ./bench -run MemoryOnGPU -count=1 -v

# Measures training steps on a GPU: make bench-gpu DEVICE=cuda:0 PRECISION=bf16
DEVICE := cuda:0
PRECISION := fp32
bench-gpu: $(HEADER) $(CACHE)/kernels-$(TARGETS).zip
	go test $(call with,$(CACHE)/kernels-$(TARGETS).zip) ./bench -run '^$$' -bench Step -device $(DEVICE) -precision $(PRECISION)

# Compiles all kernels after a change: writes cuda/internal/kernels/DIGESTS and RESOURCES.md.
TOOLCHAIN := go run ./cuda/internal/toolchain -nvrtc $(NVRTC) -cache $(KERNEL_CACHE)
cubins: $(NVRTC)/libnvrtc.so.12
	$(TOOLCHAIN) -update

cubins-check: $(NVRTC)/libnvrtc.so.12
	$(TOOLCHAIN) -check
	$(MAKE) $(CACHE)/kernels-all.zip
	go test -count=1 $(call with,$(CACHE)/kernels-all.zip) ./cuda/internal/kernels

KERNEL_SOURCES := $(wildcard cuda/internal/kernels/*.cu cuda/internal/kernels/*.h cuda/internal/kernels/DIGESTS cuda/internal/toolchain/*.go)
$(CACHE)/kernels-%.zip: $(KERNEL_SOURCES) $(NVRTC)/libnvrtc.so.12
	$(TOOLCHAIN) -targets $* -archive $@

resources: cubins
	@cat cuda/internal/kernels/RESOURCES.md

$(CACHE)/headers/%/cuda.h:
	$(PIP) $(CACHE)/headers nvidia-cuda-runtime-cu12==12.9.79
	touch $@

$(NVRTC)/libnvrtc.so.12:
	$(PIP) $(CACHE)/nvrtc nvidia-cuda-nvrtc-cu12==12.9.86
	touch $@

# The second archive of kernels, whose time a card compares with that of the first. To see that
# it computes the same bits:
# make test-emu EMU=ptx KERNELS=$PWD/.cache/cuda/more-blocks-sm_90,ptx.zip PKG=./cuda/internal/compile RUN='Tiles_Agree|TestContributions_SameBitsAsCPU'
$(CACHE)/more-blocks-%.zip: $(KERNEL_SOURCES) $(NVRTC)/libnvrtc.so.12
	$(TOOLCHAIN) -targets $* -more-blocks -archive $@


# Everything that a GPU host needs to check and time dptrain, in one file, with the kernels of the
# host's card only: make gpu-bundle ARCH=sm_80. Its programs contain the same kernels, which xz
# with a wide window compresses once. Python compresses, because some hosts lack the program xz.
# Hosts limit the bytes that they get: the tree and the bundle together.
ARCH := sm_90
BUNDLE := $(CACHE)/dptrain-gpu
MAX_BYTES := 67108864
KERNELS_OF := $(CACHE)/kernels-$(ARCH).zip
VARIANT_OF := $(CACHE)/more-blocks-$(ARCH).zip
.PHONY: gpu-bundle gpu-wheels gpu-dry-run
gpu-bundle: $(HEADER) $(KERNELS_OF) $(VARIANT_OF)
	rm -rf $(BUNDLE) && mkdir -p $(BUNDLE)/bin
	go build $(call with,$(KERNELS_OF)) -trimpath -ldflags '-s -w' -o $(BUNDLE)/bin/ ./cmd/dptrain ./bench/compare
	for p in bench cuda/internal/compile cuda/internal/driver engine perexample; do \
		go test -c $(call with,$(KERNELS_OF)) -trimpath -ldflags '-s -w' -o $(BUNDLE)/bin/$$(basename $$p).test ./$$p || exit 1; done
	cp -r bench/peers cuda/device-check/device-check cuda/device-check/hold_open.py $(BUNDLE)
	[ ! -d $(CACHE)/wheels ] || cp -r $(CACHE)/wheels $(BUNDLE)
	cp $(VARIANT_OF) $(BUNDLE)/more-blocks.zip && cp $(VARIANT_OF:.zip=.md) $(BUNDLE)/more-blocks.md
	tar -cf - -C $(CACHE) dptrain-gpu | python3 -c 'import lzma, shutil, sys; \
		f = lzma.open(sys.stdout.buffer, "wb", filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 1 << 27}]); \
		shutil.copyfileobj(sys.stdin.buffer, f, 1 << 20); f.close()' > dptrain-gpu.tar.xz
	@bundle=$$(wc -c < dptrain-gpu.tar.xz); \
	tree=$$(git ls-files --cached --others --exclude-standard -z | xargs -0 cat 2>/dev/null | wc -c); \
	echo "tree $$tree bytes + dptrain-gpu.tar.xz $$bundle bytes = $$((tree + bundle)) of $(MAX_BYTES)"; \
	[ $$((tree + bundle)) -le $(MAX_BYTES) ] || { echo "a host with this limit does not take them"; rm dptrain-gpu.tar.xz; exit 1; }

# Packages of the peers that hosts with PyTorch and JAX lack, for the host's version of Python.
# gpu-bundle packs them.
PYTHON_VERSION := 3.12
gpu-wheels:
	rm -rf $(CACHE)/wheels
	python3 -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version $(PYTHON_VERSION) \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		--dest $(CACHE)/wheels --requirement bench/peers/wheels.txt

# Runs the bundle on the emulated device, as a host does, and counts the files that come back.
gpu-dry-run: EMU := fast
gpu-dry-run: gpu-bundle emu
	DPTRAIN_BUNDLE=$(CURDIR)/dptrain-gpu.tar.xz DPTRAIN_LIBCUDA=$(CACHE)/emu/fast/libcuda.so.1 \
		go test -count=1 -v -timeout 1h -run EmulatedDevice ./cuda/device-check
