# SPDX-License-Identifier: GPL-2.0
# The crate of a module and its bindings: what `kernel::bindings` lacks. Each Kbuild
# file of a module includes this file, behind these variables:
#
#   crate           the object of the crate
#   ffi             the folder of bindings_helper.h, from that of the Kbuild file;
#                   the module has the object $(ffi)/layout_generated.o
#   ffi-parameters  files of options for bindgen, beside the one here
#   ffi-headers     headers that bindings_helper.h includes
#   ffi-offsets     C files as in offsets.h, as .s; the crate has offsets.rs then
#
# Layouts depend on the kernel's configuration, so bindings are made for each kernel
# and never kept.

linux := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
include $(linux)/needs.mk
ffi-out := $(obj)/$(ffi)
ffi-src := $(src)/$(ffi)
ffi-parameters += $(linux)/bindgen_parameters

# The difference between the supported kernels: see prelude.rs.
RUSTFLAGS_$(crate) := $(shell [ "$(VERSION)" -gt 7 -o "$(PATCHLEVEL)" -ge 3 ] && echo --cfg linux_7_3)

# For ffi.rs and offsets.rs.
export MODULE_BINDINGS := $(abspath $(ffi-out))/bindings_generated.rs
export MODULE_OFFSETS := $(abspath $(ffi-out))/offsets_generated.rs

# Flags of gcc that libclang does not know (the list is from rust/Makefile).
ffi-bindgen-skip := -mno-fp-ret-in-387 -mpreferred-stack-boundary=% \
	-mskip-rax-setup -mgeneral-regs-only -msign-return-address=% \
	-mindirect-branch=thunk-extern -mindirect-branch-register \
	-mfunction-return=thunk-extern -mrecord-mcount -mabi=lp64 \
	-mindirect-branch-cs-prefix -mstack-protector-guard% -mtraceback=no \
	-mno-pointers-to-nested-functions -mno-string -mno-strict-align \
	-mstrict-align -mdirect-extern-access -mexplicit-relocs \
	-mno-check-zero-division -fconserve-stack -falign-jumps=% \
	-falign-loops=% -femit-struct-debug-baseonly -fno-ipa-cp-clone \
	-fno-ipa-sra -fno-partial-inlining -fplugin-arg-arm_ssp_per_task_plugin-% \
	-fno-reorder-blocks -fno-allow-store-data-races -fasan-shadow-offset=% \
	-fzero-call-used-regs=% -fno-stack-clash-protection \
	-fno-inline-functions-called-once -fsanitize=bounds-strict \
	-fstrict-flex-arrays=% -fmin-function-alignment=% \
	-fzero-init-padding-bits=% -mno-fdpic -fdiagnostics-show-context \
	-fdiagnostics-show-context=% --param=% --param asan-% \
	-fno-isolate-erroneous-paths-dereference

ffi-bindgen-target-x86 := x86_64-linux-gnu
ffi-bindgen-target-arm64 := aarch64-linux-gnu
# User Mode Linux, on x86-64.
ffi-bindgen-target-um := x86_64-linux-gnu

ifdef CONFIG_CC_IS_CLANG
ffi-bindgen-cflags = $(c_flags)
else
ifdef CONFIG_CC_VERSION_TEXT
$(if $(ffi-bindgen-target-$(SRCARCH)),,$(error SDP and rlo are built for x86-64 and arm64, and not for $(SRCARCH)))
endif
ffi-bindgen-cflags = $(filter-out $(ffi-bindgen-skip), $(c_flags)) \
	-w --target=$(ffi-bindgen-target-$(SRCARCH))
endif

quiet_cmd_ffi_bindgen = BINDGEN $@
      cmd_ffi_bindgen = \
	$(BINDGEN) $< $(shell sed '/^\#/d; /^$$/d' $(ffi-parameters)) \
		--rust-target 1.85 --use-core --with-derive-default \
		--ctypes-prefix ffi --no-debug '.*' \
		--enable-function-attribute-detection -o $@ -- \
		$(filter-out $(CC_FLAGS_LTO), $(ffi-bindgen-cflags)) \
		-fno-builtin -D__BINDGEN__ -DMODULE -I$(ffi-src) && \
	zeroable="$$(awk -f $(linux)/zeroable.awk $@)" && echo "$$zeroable" >>$@

$(ffi-out)/bindings_generated.rs: $(ffi-src)/bindings_helper.h $(ffi-headers) $(ffi-parameters) \
    $(linux)/zeroable.awk FORCE
	$(call if_changed,ffi_bindgen)

# The C compiler checks the structs as bindgen understood them.
quiet_cmd_ffi_layout = LAYOUT  $@
      cmd_ffi_layout = awk -f $(real-prereqs) >$@

$(ffi-out)/layout_generated.c: $(linux)/layout.awk $(ffi-out)/bindings_generated.rs FORCE
	$(call if_changed,ffi_layout)

CFLAGS_$(ffi)/layout_generated.o := -I$(ffi-src)

# rustc checks the structs of the kernel's bindings; it is told how the C compiler
# has them.
quiet_cmd_ffi_offsets = OFFSETS $@
      cmd_ffi_offsets = awk -f $(real-prereqs) >$@

$(ffi-out)/offsets_generated.rs: $(linux)/offsets.awk $(addprefix $(obj)/,$(ffi-offsets)) FORCE
	$(call if_changed,ffi_offsets)

targets += $(addprefix $(ffi)/,bindings_generated.rs layout_generated.c offsets_generated.rs) \
	$(ffi-offsets)

$(obj)/$(crate): $(ffi-out)/bindings_generated.rs \
	$(if $(ffi-offsets),$(ffi-out)/offsets_generated.rs)
