# SPDX-License-Identifier: GPL-2.0
#
# The entry point. Every target works in a clean checkout: prerequisites are
# made first and kept in the cache (see qemu/cache.sh). `make help` lists the targets.
#
# Kbuild's rules for the module are in the file Kbuild.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

# The harness kernel: base, debug, native or native-debug.
K ?= debug
# Another kernel tree; without it, the harness kernel.
KDIR ?=
# Entries of userspace-tests/suite.list, by name.
T ?=
# Further arguments of these entries.
A ?=
# rxe or rlo: another RDMA device than the lists name.
D ?=
# The number of concurrent guests; by default qemu/suite chooses it.
J ?=

export K
JOBS := $(if $(J),-j $(J))
PICKED := $(foreach name,$(T),-o $(name)) $(if $(A),--arguments='$(A)') $(if $(D),--device=$(D)) $(JOBS)

.PHONY: help
help:
	@echo 'make demo                real programs over SDP in a virtual machine, with a table'
	@echo 'make quick               a part of the tests natively, in simulated time: run it before each commit'
	@echo 'make test                all tests, under a kernel that checks memory, locks and references'
	@echo 'make test-vm T="a b"     some entries of userspace-tests/suite.list (K=base for the other kernel)'
	@echo 'make test-apps T="a b"   programs and test suites that others wrote (userspace-tests/apps.list)'
	@echo '               A="c d"   with T=NAME: only these programs or modules of it'
	@echo '               D=rxe|rlo the RDMA device; J=n the number of concurrent guests'
	@echo 'make coverage T="a b"    the same natively, and which blocks of sdp.ko and rlo.ko ran, by source file'
	@echo 'make planted T="a b"     whether random histories still find faults that are planted in the modules'
	@echo 'make test-install        a plain Debian 13: packages, a program over SDP, removal'
	@echo 'make check               formatting, lints and engine tests: run it every few minutes'
	@echo 'make sim SEEDS=n         random histories of two engines and a faulty link'
	@echo 'make fuzz FOR=seconds    libFuzzer on codec, connection and pairs of peers (cargo-fuzz on the host)'
	@echo 'make mutants FILES=...   changes of the engine that no test notices (cargo-mutants on the host; all without FILES)'
	@echo 'make explore             every interleaving of small scenes'
	@echo 'make order               every order of memory accesses in code without locks'
	@echo 'make spec                where each rule of spec/sdp.md is implemented and tested'
	@echo 'make soak                the long versions of the tests'
	@echo 'make bench               SDP beside raw verbs on each device, TCP, SMC-D, AF_UNIX'
	@echo 'make profile LOAD="sdp back 64"  the functions of the kernel under a load (OUT=DIR for a flame graph)'
	@echo 'make bench-chunks        writes that are sent while they are copied, beside raw SEND'
	@echo 'make bench-zcopy OUT=DIR zero copy beside copies, raw RDMA Read and TCP, with plots in DIR'
	@echo 'make bench-decisions     what other values of the knobs would cost'
	@echo 'make bench-async OUT=DIR zero copy under blocking sends (sdp_run --async), with plots in DIR'
	@echo 'make bench-programs      real programs over SDP beside TCP, SMC and rsockets (OUT=DIR for JSON)'
	@echo 'make bench-kernel        sockets inside the kernel, without system calls, natively (OUT=DIR for each result)'
	@echo 'make bench-instructions  the instructions of the same programs, of streams, and of a message that comes back'
	@echo 'make bench-idle          the memory of an idle connection, by kind and by slab (D=rxe|rlo)'
	@echo '               A="..."   options of one of the benches; A=--help lists them'
	@echo 'make module              sdp.ko and rlo.ko for a harness kernel (K=base|debug)'
	@echo 'make module KDIR=DIR     both for the kernel whose build tree is DIR'
	@echo 'make install             tools, library, header and man pages, below PREFIX=/usr/local (and DESTDIR)'
	@echo 'make install-module      both modules, for KDIR or the running kernel'
	@echo 'make uninstall           removes the files of both'
	@echo 'make deb                 Debian packages, in the cache'
	@echo 'make programs            the programs for guests, release build'
	@echo 'make kernel              a harness kernel (K=base|debug)'
	@echo 'make shell               a shell in the builder root'
	@echo 'make clean               removes everything built from this checkout'
	@echo 'make distclean           removes kernels, roots and logs as well'
	@echo
	@echo 'qemu/vm -h               how to run anything else in a virtual machine'

.PHONY: host
host:
	@qemu/host

.PHONY: module
ifneq ($(KDIR),)
module:
	@qemu/foreign "$(KDIR)"
else
module: host
	@qemu/kernel $(K) >/dev/null
	@qemu/module -k $(K)
endif

# The installation uses this machine's tools, not the builder root's.
PREFIX ?= /usr/local
DESTDIR ?=
RUNNING := /lib/modules/$(shell uname -r)/build
HOST_TARGET = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/sdp/target-host

.PHONY: tools install install-module uninstall
tools:
	@rust/packaging/tools "$(HOST_TARGET)"

install: tools
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" rust/packaging/install "$(HOST_TARGET)"

install-module:
	@modules=$$(qemu/foreign "$(or $(KDIR),$(RUNNING))") && \
		DESTDIR="$(DESTDIR)" rust/packaging/install-module "$(or $(KDIR),$(RUNNING))" $$modules

uninstall:
	@PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" rust/packaging/install --uninstall

.PHONY: deb
deb: host
	@qemu/deb

.PHONY: kernel
kernel: host
	@qemu/kernel $(K)

.PHONY: programs
programs: host
	@qemu/cargo --programs

# The demonstration runs on Debian's kernel, which need not be built. The guest's packages, the
# programs and the module do not need each other, so they are made at the same time.
DEMO_PACKAGES = $(shell sed -n 's/^# packages: //p' userspace-tests/apps/demo)

.PHONY: demo
demo: host
	@qemu/root builder >/dev/null
	@qemu/root guest $(DEMO_PACKAGES) >/dev/null & root=$$!; qemu/cargo --programs & programs=$$!; \
		qemu/module -k stock >/dev/null; module=$$?; \
		wait $$root && wait $$programs && exit $$module
	@qemu/vm -k stock -d both $(addprefix -p ,$(DEMO_PACKAGES)) -T 1800 -- /mnt/sdp/userspace-tests/apps/demo

# The bench judges by the processor time of a native kernel, which has the last processor of the host.
PIN = $$(python3 -c 'import os; print(max(os.sched_getaffinity(0)))')
NATIVE = qemu/vm -k native --pin $(PIN) -m 1800

# make bench [A="--rounds 9 --devices rlo --idle"]
.PHONY: bench
bench: programs
	@$(NATIVE) -d both -x userspace-tests/verbs -T 3600 -- /mnt/sdp/userspace-tests/bench/run $(A)

# make profile LOAD="sdp back 64" [OUT=DIR]
.PHONY: profile
profile: programs
	@userspace-tests/bench/profile $(LOAD) --pin $(PIN) $(if $(OUT),--out '$(OUT)')

# make bench-zcopy [OUT=DIR] [A="--rounds 9 --links rlo"]: a page of results, and with
# OUT the page, plots and figures.json in that directory.
OUT ?=

.PHONY: bench-zcopy
bench-zcopy: programs
	$(if $(OUT),@mkdir -p '$(OUT)',)
	@$(NATIVE) -d both -x userspace-tests/verbs \
		$(shell sed -n 's/^# packages: /-p /p' userspace-tests/bench/zcopy) $(if $(OUT),-s '$(OUT)',) \
		-T 7200 -- /mnt/sdp/userspace-tests/bench/zcopy $(if $(OUT),--out /mnt/share,) $(A)

# make bench-decisions [OUT=DIR] [A="busy_poll inline_bytes"]: what each knob earns.
.PHONY: bench-decisions
bench-decisions: programs
	$(if $(OUT),@mkdir -p '$(OUT)',)
	@$(NATIVE) -d rlo -x userspace-tests/verbs $(if $(OUT),-s '$(OUT)',) -T 3600 -- \
		/mnt/sdp/userspace-tests/bench/decisions $(if $(OUT),--json /mnt/share/decisions.json,) $(A)

# make bench-async [OUT=DIR] [A="--rounds 9 --experiments overlap faults"]
.PHONY: bench-async
bench-async: programs
	$(if $(OUT),@mkdir -p '$(OUT)',)
	@qemu/vm -k base -d both -m 4096 \
		$(shell sed -n 's/^# packages: /-p /p' userspace-tests/bench/async) $(if $(OUT),-s '$(OUT)',) \
		-T 3600 -- /mnt/sdp/userspace-tests/bench/async $(if $(OUT),--out /mnt/share,) $(A)

# make bench-chunks [A="--rounds 30 --mbps 1000"]
.PHONY: bench-chunks
bench-chunks: programs
	@qemu/vm -k base -d both -m 4096 -x userspace-tests/verbs \
		-T 3600 -- /mnt/sdp/userspace-tests/bench/chunks $(A)

# The packages are the ones that the tests of the same programs need, so that one root serves both.
SERVERS = $(addprefix -p ,$(shell sed -n 's/^servers //p' userspace-tests/packages.list))

# make bench-programs [OUT=DIR] [A="--part 0.2 'redis*'"]: a page of results in Markdown.
.PHONY: bench-programs
bench-programs: programs
	$(if $(OUT),@mkdir -p '$(OUT)',)
	@$(NATIVE) -d rlo $(SERVERS) $(if $(OUT),-s '$(OUT)',) -T 7200 -- \
		/mnt/sdp/userspace-tests/bench/programs $(if $(OUT),--out /mnt/share,) $(A)

# make bench-kernel [OUT=DIR] [A="--rounds 9 --kinds tcp sdp"]
.PHONY: bench-kernel
bench-kernel: programs
	$(if $(OUT),@mkdir -p '$(OUT)',)
	@$(NATIVE) -d both -x userspace-tests/kernel-sockets $(if $(OUT),-s '$(OUT)',) -T 3600 -- \
		/mnt/sdp/userspace-tests/bench/kernel_sockets $(if $(OUT),--csv /mnt/share/kernel-sockets.csv,) $(A)

# make bench-instructions [A="'redis*' --functions 40"]
.PHONY: bench-instructions
bench-instructions: programs
	@counts=$$(mktemp -d) && trap 'rm -rf "$$counts"' EXIT && \
		qemu/vm -k base -d both -m 4096 -x userspace-tests/verbs $(SERVERS) \
		-s "$$counts" -I "$$counts/counts" -T 3600 -- /mnt/sdp/userspace-tests/bench/instructions $(A)

# make bench-idle [D=rxe] [A="--seconds 60"]
.PHONY: bench-idle
bench-idle: programs
	@qemu/vm -k base -d $(or $(D),rlo) --append slab_nomerge -T 1800 -- /mnt/sdp/userspace-tests/bench/idle $(A)

# The root is made first, so that it does not delay the first results.
# EMULATED=1: without native kernels, which need a host that lets a process control others.
EMULATED ?=
.PHONY: test
test: host
	@qemu/root builder >/dev/null
	@qemu/suite all $(JOBS) $(if $(EMULATED),--emulated)

.PHONY: quick
quick: host
	@qemu/root builder >/dev/null
	@qemu/suite quick $(PICKED)

# Entries of the lists on another kernel; SIMULATED=1 with native ones lets no time pass for waits.
SIMULATED ?=
.PHONY: test-vm
test-vm: host
	@qemu/suite vm -k $(K) $(if $(SIMULATED),--simulated-time) $(PICKED)

# make coverage T="histories sockets" [A="--seed 1 --count 1000"]: natively, if K names no other kernel.
GROUND := $(if $(filter file,$(origin K)),native,$(K))
.PHONY: coverage
coverage: host
	@qemu/suite vm -k $(GROUND) $(if $(filter native%,$(GROUND)),--simulated-time) --coverage $(PICKED)

.PHONY: planted
planted: programs
	@userspace-tests/planted/run $(T)

.PHONY: test-apps
test-apps: host
	@qemu/suite vm -k $(K) --apps $(PICKED)

.PHONY: soak
soak: host
	@qemu/suite vm $(if $(filter file,$(origin K)),,-k $(K) $(if $(SIMULATED),--simulated-time)) --soak $(PICKED)

# A plain Debian 13: packages, a program over SDP, removal; part of soak.
.PHONY: test-install
test-install: host
	@qemu/tests/fresh-machine

.PHONY: check
check: host
	@qemu/check

# make sim SEEDS=n; make explore SCENE=words LIMIT=states
SEEDS ?= 500000
SCENE ?=
LIMIT ?= 1000000

.PHONY: sim explore
sim: host
	@qemu/cargo rust run --quiet --release --locked -p sdp-sim -- run --seeds $(SEEDS) --threads 2

explore: host
	@qemu/cargo rust run --quiet --release --locked -p sdp-sim -- explore --limit $(LIMIT) "$(SCENE)"

.PHONY: order
order: host
	@qemu/cargo rust/order test --locked

# make fuzz FUZZ="codec peer operations" FOR=seconds for each
FUZZ ?= codec peer operations
FOR ?= 60

.PHONY: fuzz
fuzz:
	@rust/fuzz/run $(FOR) $(FUZZ)

# make mutants FILES="flow/credit.rs": changes of the engine that no test notices
FILES ?=

.PHONY: mutants
mutants:
	@rust/engine/mutants $(FILES)

.PHONY: spec
spec: host
	@qemu/cargo rust run --quiet --locked -p xtask -- spec --report

.PHONY: shell
shell: host
	@qemu/enter bash

.PHONY: clean distclean
clean:
	@qemu/clean
distclean:
	@qemu/clean --all
