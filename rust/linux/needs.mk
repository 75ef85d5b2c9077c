# SPDX-License-Identifier: GPL-2.0
# A build for a kernel that cannot have the modules ends here, with the reason. The options are
# those of rust/packaging/options. There is no configuration while the output is removed.

ifdef CONFIG_CC_VERSION_TEXT
needs-path := $(patsubst %/,%,$(dir $(lastword $(MAKEFILE_LIST))))
needs-missing := $(strip $(foreach option,$(shell sed '/^\#/d' $(needs-path)/../packaging/options), \
	$(if $(CONFIG_$(option)),,CONFIG_$(option))))
ifneq ($(needs-missing),)
$(error SDP and rlo need a kernel with $(needs-missing))
endif
endif
