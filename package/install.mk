# What is installed: the program, libetalon with its header, man pages, completion; and a Debian package of it.
PREFIX := /usr/local
DESTDIR :=
VERSION := $(shell sed -n 's/^\#define ETALON_VERSION "\(.*\)"/\1/p' compare/api/etalon.h)
SONAME := libetalon.so.$(firstword $(subst ., ,$(VERSION)))
COMMANDS = $(shell $(BUILD)/etalon --help | sed -n 's/^  \([a-z]*\) .*/\1/p' | sort -u)
LIBRARY := $(BUILD)/libetalon.so.$(VERSION)

lib: $(LIBRARY) $(BUILD)/libetalon.a
SHARED = @echo link $@; mkdir -p $(@D); $(CC) $(CFLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=package/libetalon.map -Wl,-z,defs \
	-o $@ $(OBJECTS) $(OPENMP) $(CUDALIBS) $(LIBS)
$(LIBRARY): $(OBJECTS) package/libetalon.map
	$(SHARED)
# One object, whose own names are not seen.
$(BUILD)/libetalon.a: $(OBJECTS)
	@echo link $@; rm -f $@; $(LD) -r -o $(BUILD)/libetalon.o $(OBJECTS) && objcopy --localize-hidden $(BUILD)/libetalon.o && \
		$(AR) rcs $@ $(BUILD)/libetalon.o

man: $(BUILD)/etalon
	@rm -rf $(BUILD)/man && mkdir -p $(BUILD)/man
	@$(BUILD)/etalon --help | awk -v version=$(VERSION) -f package/man.awk >$(BUILD)/man/etalon.1
	@for c in $(COMMANDS); do \
		what=$$($(BUILD)/etalon --help | awk -v c=$$c '$$1 == c { print substr($$0, 36); exit }'); \
		$(BUILD)/etalon $$c --help | awk -v version=$(VERSION) -v command=$$c -v what="$$what" -f package/man.awk >$(BUILD)/man/etalon-$$c.1; done

TO = $(DESTDIR)$(PREFIX)
install: $(BUILD)/etalon lib man
	install -d $(TO)/bin $(TO)/lib/pkgconfig $(TO)/include $(TO)/share/man/man1 $(TO)/share/bash-completion/completions
	install -s $(BUILD)/etalon $(TO)/bin/
	install -s -m 644 $(LIBRARY) $(TO)/lib/
	ln -sf $(notdir $(LIBRARY)) $(TO)/lib/$(SONAME)
	ln -sf $(SONAME) $(TO)/lib/libetalon.so
	install -m 644 $(BUILD)/libetalon.a $(TO)/lib/
	install -m 644 compare/api/etalon.h $(TO)/include/
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|; s|@PRIVATE@|-fopenmp $(CUDALIBS) $(LIBS)|' package/etalon.pc.in >$(TO)/lib/pkgconfig/etalon.pc
	install -m 644 $(BUILD)/man/*.1 $(TO)/share/man/man1/
	install -m 644 package/etalon.bash $(TO)/share/bash-completion/completions/etalon
	[ "$(DESTDIR)" ] || [ "$$(id -u)" != 0 ] || ldconfig

uninstall:
	rm -f $(TO)/bin/etalon $(TO)/lib/libetalon.* $(TO)/include/etalon.h $(TO)/lib/pkgconfig/etalon.pc \
		$(TO)/share/man/man1/etalon.1 $(TO)/share/man/man1/etalon-*.1 $(TO)/share/bash-completion/completions/etalon

# The C program of docs/library.md against an installed copy.
check-install: $(BUILD)/etalon lib man
	@rm -rf $(BUILD)/installed && $(MAKE) -s BUILD=$(BUILD) PREFIX=$(abspath $(BUILD)/installed) DESTDIR= install >/dev/null
	@CC='$(CC)' sh package/check.sh $(abspath $(BUILD)/installed) docs/library.md

deb: $(BUILD)/etalon lib man
	@rm -rf $(BUILD)/deb && $(MAKE) -s BUILD=$(BUILD) PREFIX=/usr DESTDIR=$(BUILD)/deb install >/dev/null
	@gzip -9n $(BUILD)/deb/usr/share/man/man1/*.1; mkdir -p $(BUILD)/deb/DEBIAN $(BUILD)/deb/usr/share/doc/etalon
	@cp LICENSE $(BUILD)/deb/usr/share/doc/etalon/copyright; sh package/control.sh $(VERSION) $(BUILD)/deb >$(BUILD)/deb/DEBIAN/control
	dpkg-deb --build --root-owner-group $(BUILD)/deb $(BUILD)/etalon_$(VERSION)_$$(dpkg --print-architecture).deb

# A wheel is without CUDA; its program and library look for what they need beside themselves.
BESIDE := -Wl,--disable-new-dtags,-rpath,'$$ORIGIN'
$(BUILD)/beside/etalon: $(OBJECTS) $(call objects,main.c) | $(BUILD)/beside/$(SONAME)
	$(LINK) $(LIBS) $(BESIDE)
$(BUILD)/beside/$(SONAME): $(OBJECTS) package/libetalon.map
	$(SHARED) $(BESIDE)
wheel: | $(AFTER) $(if $(NVCC),,$(BUILD)/etalon)          # else two makes would write the same objects
	+@$(MAKE) -s BUILD=$(BUILD)$(if $(NVCC),/wheel) NVCC= beside
	@python3 python/wheel.py $(BUILD)$(if $(NVCC),/wheel)/beside $(VERSION) $(BUILD)/dist
beside: $(BUILD)/beside/etalon

# With Debian's Python packages, and what else (torch, ml_dtypes) is installed there; the wheel asks for none.
test-python: wheel
	@rm -rf $(BUILD)/venv && /usr/bin/python3 -m venv --system-site-packages $(BUILD)/venv && $(BUILD)/venv/bin/pip install -q --no-index --no-deps $(BUILD)/dist/*.whl
	cd $(BUILD) && ETALON_WHEELS=$(abspath $(BUILD))/dist venv/bin/python -m pytest -q -rs -p no:cacheprovider $(CURDIR)/python/tests
