# make               the command, its libraries and manual pages, in target/
# make install       to PREFIX (/usr/local); DESTDIR is put in front of it, for packages
# make uninstall     removes what `make install` of this version wrote
# make deb           a Debian package, in target/
# make doc           reference of the Rust and C interfaces, in target/doc/; of Python's where pdoc and the wheel are there
# make wheel         a wheel for Python, in target/wheels/; needs maturin
# make release       the artefacts of a release and their checksums: see packaging/release --help
# make test          what `cargo test` does
#
# Needs Rust, a C compiler with binutils, and GNU make; `make deb` needs dpkg-deb, too.

PREFIX = /usr/local
BINDIR = $(PREFIX)/bin
LIBDIR = $(PREFIX)/lib
INCLUDEDIR = $(PREFIX)/include
DATADIR = $(PREFIX)/share
MANDIR = $(DATADIR)/man
UNITDIR = $(PREFIX)/lib/systemd/system
ifneq ($(words $(PREFIX)),1)
$(error PREFIX is '$(PREFIX)': it names one directory, without spaces)
endif
# What is written into files names the place for good.
override PREFIX := $(abspath $(PREFIX))
CARGO = cargo
CC = cc
INSTALL = install

VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
MAJOR := $(word 1,$(subst ., ,$(VERSION)))
MINOR := $(word 2,$(subst ., ,$(VERSION)))
# While the first number is 0, each second one is an interface of its own.
SONAME_VERSION := $(MAJOR).$(MINOR)

TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
RELEASE := $(TARGET)/release
STAGE := $(TARGET)/install
HEADERS := rackmem.h $(patsubst include/%,%,$(wildcard include/rackmem/*.h))
MODEL_HEADERS := card.h pair.h scratchpad.h window.h $(patsubst include/%,%,$(wildcard include/scratchpad/*.h))

all: build

build:
	$(CARGO) build --release --locked
	@$(MAKE) --no-print-directory $(STAGE)/librackmem.so
	@mkdir -p $(STAGE)/man $(STAGE)/completions
	$(RELEASE)/rackmem man --write $(STAGE)/man
	@for shell in bash zsh fish; do \
	    $(RELEASE)/rackmem completion $$shell >$(STAGE)/completions/$$shell || exit 1; done

# What Cargo makes has all of Rust's library in it, under names that another Rust library in a program has, too. Here is
# what the interface needs, and only its names are seen.
$(STAGE)/librackmem.a: $(RELEASE)/librackmem_paging.a
	@mkdir -p $(@D)
	@objcopy --remove-section .llvmbc --remove-section .llvmcmd $< $(STAGE)/all.a
	@ld -r --gc-sections -o $(STAGE)/rackmem.o $(STAGE)/all.a \
	    $$(nm -g --defined-only $(STAGE)/all.a 2>/dev/null | awk '$$3 ~ /^(rackmem_|rmc_)/ { print "-u", $$3 }')
	@objcopy --wildcard --keep-global-symbol='rackmem_*' --keep-global-symbol='rmc_*' $(STAGE)/rackmem.o
	@strip --strip-unneeded $(STAGE)/rackmem.o
	@rm -f $@ $(STAGE)/all.a
	@ar crs $@ $(STAGE)/rackmem.o

$(STAGE)/librackmem.so: $(STAGE)/librackmem.a packaging/librackmem.map
	$(CC) -shared -s -o $@ -Wl,--whole-archive $< -Wl,--no-whole-archive -Wl,-z,defs \
	    -Wl,-soname,librackmem.so.$(SONAME_VERSION) -Wl,--version-script,packaging/librackmem.map \
	    -lpthread -ldl -lm -lgcc_s

ROOT = $(DESTDIR)$(PREFIX)

install:
	@[ -x $(RELEASE)/rackmem ] && [ -f $(STAGE)/librackmem.so ] || \
	    { echo "make install: nothing is built yet: run make first" >&2; exit 1; }
	@[ ! $(RELEASE)/librackmem_paging.a -nt $(STAGE)/librackmem.so ] || \
	    { echo "make install: the library in $(STAGE) is older than what Cargo has built: run make first" >&2; exit 1; }
	@mkdir -p $(ROOT) 2>/dev/null && [ -w $(ROOT) ] || \
	    { echo "make install: cannot write to $(ROOT): say PREFIX=$$HOME/.local, or run it as root" >&2; exit 1; }
	@$(INSTALL) -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(LIBDIR)/cmake/rackmem \
	    $(INCLUDEDIR)/rackmem $(INCLUDEDIR)/scratchpad $(MANDIR)/man1 $(UNITDIR) \
	    $(DATADIR)/bash-completion/completions $(DATADIR)/zsh/site-functions \
	    $(DATADIR)/fish/vendor_completions.d $(DATADIR)/doc/rackmem $(DATADIR)/rackmem/grafana)
	@$(INSTALL) -s -m 755 $(RELEASE)/rackmem $(RELEASE)/rackmemd $(DESTDIR)$(BINDIR)
	@$(INSTALL) -s -m 644 $(RELEASE)/deps/librackmem_preload.so $(DESTDIR)$(LIBDIR)
	@$(INSTALL) -m 644 $(STAGE)/librackmem.a $(DESTDIR)$(LIBDIR)
	@$(INSTALL) -m 644 $(STAGE)/librackmem.so $(DESTDIR)$(LIBDIR)/librackmem.so.$(VERSION)
	@ln -sf librackmem.so.$(VERSION) $(DESTDIR)$(LIBDIR)/librackmem.so.$(SONAME_VERSION)
	@ln -sf librackmem.so.$(SONAME_VERSION) $(DESTDIR)$(LIBDIR)/librackmem.so
	@sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	    packaging/rackmem.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/rackmem.pc
	@for header in $(HEADERS) $(MODEL_HEADERS); do \
	    $(INSTALL) -m 644 include/$$header $(DESTDIR)$(INCLUDEDIR)/$$header || exit 1; done
	@$(INSTALL) -m 644 packaging/cmake/rackmem-config.cmake $(DESTDIR)$(LIBDIR)/cmake/rackmem
	@sed -e 's|@VERSION@|$(VERSION)|' -e 's|@MAJOR@|$(MAJOR)|' -e 's|@MINOR@|$(MINOR)|' \
	    packaging/cmake/rackmem-config-version.cmake.in \
	    >$(DESTDIR)$(LIBDIR)/cmake/rackmem/rackmem-config-version.cmake
	@$(INSTALL) -m 644 $(STAGE)/man/*.1 $(DESTDIR)$(MANDIR)/man1
	@$(INSTALL) -m 644 $(STAGE)/completions/bash $(DESTDIR)$(DATADIR)/bash-completion/completions/rackmem
	@$(INSTALL) -m 644 $(STAGE)/completions/zsh $(DESTDIR)$(DATADIR)/zsh/site-functions/_rackmem
	@$(INSTALL) -m 644 $(STAGE)/completions/fish $(DESTDIR)$(DATADIR)/fish/vendor_completions.d/rackmem.fish
	@for unit in rackmem-lend@ rackmemd@; do \
	    sed 's|@BINDIR@|$(BINDIR)|' packaging/systemd/$$unit.service.in \
	        >$(DESTDIR)$(UNITDIR)/$$unit.service || exit 1; done
	@$(INSTALL) -m 644 packaging/grafana/rackmem.json $(DESTDIR)$(DATADIR)/rackmem/grafana
	@$(INSTALL) -m 644 README.md LICENSE-APACHE LICENSE-MIT SECURITY.md CHANGELOG.md $(DESTDIR)$(DATADIR)/doc/rackmem
	@[ -n "$(DESTDIR)" ] || echo "installed to $(PREFIX)"
	@[ -n "$(DESTDIR)" ] || pkg-config --exists rackmem 2>/dev/null || \
	    echo "to compile: export PKG_CONFIG_PATH=$(LIBDIR)/pkgconfig; to run: export LD_LIBRARY_PATH=$(LIBDIR)"
	@[ -n "$(DESTDIR)" ] || [ "$$(id -u)" -ne 0 ] || ldconfig 2>/dev/null || true

uninstall:
	rm -f $(addprefix $(DESTDIR),$(BINDIR)/rackmem $(BINDIR)/rackmemd $(LIBDIR)/librackmem_preload.so \
	    $(LIBDIR)/librackmem.a $(LIBDIR)/librackmem.so $(LIBDIR)/librackmem.so.$(SONAME_VERSION) \
	    $(LIBDIR)/librackmem.so.$(VERSION) $(LIBDIR)/pkgconfig/rackmem.pc \
	    $(INCLUDEDIR)/rackmem.h $(INCLUDEDIR)/card.h $(INCLUDEDIR)/pair.h $(INCLUDEDIR)/scratchpad.h $(INCLUDEDIR)/window.h \
	    $(MANDIR)/man1/rackmem.1 $(UNITDIR)/rackmem-lend@.service $(UNITDIR)/rackmemd@.service \
	    $(DATADIR)/bash-completion/completions/rackmem $(DATADIR)/zsh/site-functions/_rackmem \
	    $(DATADIR)/fish/vendor_completions.d/rackmem.fish) $(DESTDIR)$(MANDIR)/man1/rackmem-*.1
	rm -rf $(addprefix $(DESTDIR),$(INCLUDEDIR)/rackmem $(INCLUDEDIR)/scratchpad $(LIBDIR)/cmake/rackmem \
	    $(DATADIR)/doc/rackmem $(DATADIR)/rackmem)

deb:
	packaging/deb $(VERSION) $(TARGET)

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --lib --locked
	$(CARGO) run --quiet --locked --example c_reference -- $(TARGET)/doc/c/index.html \
	    $(addprefix include/,$(HEADERS) $(MODEL_HEADERS))
	@if python3 -c 'import pdoc, rackmem' 2>/dev/null; then \
	    python3 -m pdoc --output-directory $(TARGET)/doc/python rackmem; \
	else echo "not made: the reference of the Python package needs pdoc and the wheel (pip install pdoc rackmem)"; fi

wheel:
	python/build

release:
	packaging/release

test:
	$(CARGO) test --locked

.PHONY: all build install uninstall deb doc wheel release test
