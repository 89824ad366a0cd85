# etalon; `make help` says what there is to make.
BUILD := build
CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off -fopenmp
NVCCFLAGS := -std=c++17 -O3 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90 \
	-Xcompiler -Wall,-Wextra
DEBIAN := build-essential libmpfr-dev libgmp-dev libopenblas-dev libjansson-dev \
	libcmocka-dev libflint-arb-dev libflint-dev gnuplot-nox $(if $(filter fuzz,$(MAKECMDGOALS)),clang)
FUZZ_SECONDS := 60
COMMA := ,
SEEDS := 5
DRAWS := 100
PAIRS := 50
ifeq ($(origin NVCC),undefined)
NVCC := $(firstword $(shell command -v nvcc) $(wildcard /usr/local/cuda/bin/nvcc))
endif

# On all processors, unless -j says otherwise.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell getconf _NPROCESSORS_ONLN)
endif

# Threads that wait sleep: spinning ones are many times slower beside other work.
export OMP_WAIT_POLICY ?= passive

# ---- what is built ----
LIBS := -ljansson -lmpfr -lgmp -lopenblas -lm -ldl -lpthread
# Sources are found by their names, in whichever folder they stand: `named` gives those of our own, `objects` their objects.
SOURCES := $(shell find fixtures ref gpu compare $(wildcard bench) tests -name '*.[ch]' -o -name '*.c[cu]' -o -name '*.cuh' | LC_ALL=C sort)
named = $(foreach f,$(filter-out tests/strangers/%,$(SOURCES)),$(if $(filter $(1),$(notdir $f)),$f))
objects = $(patsubst %.c,$(BUILD)/%.o,$(patsubst %.cu,$(BUILD)/%.cu.o,$(call named,$(1))))
KERNELS := $(filter-out $(call named,cuda.cu model_%.cu),$(filter gpu/%.cu,$(SOURCES)))
SHARED := $(call named,cuda.cu) $(filter gpu/%.cuh,$(SOURCES))  # part of every kernel's hash
C := $(filter-out $(call named,main.c bench%.c no_cuda.c),$(filter fixtures/%.c ref/%.c compare/%.c gpu/%.c,$(SOURCES)))
ifdef NVCC
CUDA := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CU := $(filter gpu/%.cu,$(SOURCES))
# wgmma exists on sm_90a only; elsewhere the PTX of compute_90 runs, without it.
$(call objects,newton_schulz.cu muon_step.cu mixed_batch.cu gated_delta_rule.cu model_decode.cu bench_gpu%.cu) \
		$(patsubst %.cu,$(BUILD)/faults/%.cu.o,$(call named,mixed_batch.cu)): private NVCCFLAGS := \
	$(subst arch=compute_90$(COMMA)code=sm_90 ,arch=compute_90a$(COMMA)code=sm_90a ,$(NVCCFLAGS)) -DCUDA_HOME='"$(CUDA)"'
$(call objects,model%.cu): private NVCCFLAGS += -DCUDA_HOME='"$(CUDA)"'
CUDALIBS := -L$(CUDA)/lib64 -L$(CUDA)/targets/x86_64-linux/lib -lcudart_static -lstdc++ -lrt
else
C += $(call named,no_cuda.c)
endif
ifdef STATIC
GCCLIB = $(shell $(CC) -print-file-name=lib$(1).a)
LIBS := $(foreach l,jansson mpfr gmp openblas gfortran quadmath,$(call GCCLIB,$(l))) -lm -ldl -lpthread
CUDALIBS := $(subst -lstdc++,$(call GCCLIB,stdc++),$(CUDALIBS))
OPENMP := -static-libgcc -fno-openmp $(call GCCLIB,gomp)
endif
OBJECTS := $(C:%.c=$(BUILD)/%.o) $(CU:%.cu=$(BUILD)/%.cu.o)
# Of a test the object lies beside its source's, the program in $(BUILD)/tests or, with faults, $(BUILD)/faults.
TEST_SOURCES := $(call named,test_%.c)
FAULT_SOURCES := $(call named,test_executor_faults%.c test_executor_cpu_faults%.c test_isolate_faults%.c)
TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(filter-out $(WITHOUT:%=%.c),$(notdir $(TEST_SOURCES))))
HELPERS := $(call objects,helpers.c witness%.c)
FAULT_TESTS := $(patsubst %.c,$(BUILD)/faults/%,$(notdir $(FAULT_SOURCES)))
PLUGINS := $(patsubst %.c,$(BUILD)/tests/%.so,$(notdir $(filter tests/%,$(call named,plugin_%.c))))
MUTANT_TESTS := $(sort $(shell awk -F '\t' '!/^\#/ && NF { print "$(BUILD)/" ($$5 ~ /(executor|executor_cpu|isolate)_faults/ ? "faults/" : "tests/") $$5 }' tests/mutants.tsv))
FUZZERS := $(patsubst fuzz_%.c,$(BUILD)/fuzz/%,$(notdir $(call named,fuzz_%.c)))
AFTER := $(filter deps,$(MAKECMDGOALS))                 # under -j too, deps come before all else

.PHONY: all deps gate test check-recipe check-arrows docs check-docs kernels check-kernels plots false-alarms kill-matrix strangers pairs readback mutants asan fuzz fuzz-% device bench bench-deps bench-gpu bench-gpu-page faults model-faults clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
all: $(BUILD)/etalon

LINK = @echo link $@; $(CC) $(CFLAGS) -o $@ $(filter %.o,$^) $(OPENMP) $(CUDALIBS)
$(BUILD)/etalon: $(OBJECTS) $(call objects,main.c)
	$(LINK) $(LIBS)
# Peers that are not installed are missing in the table.
PEERS := $(if $(wildcard /usr/include/arb_mat.h),-lflint-arb -lflint) $(if $(wildcard /usr/include/qd/dd_real.h),-lqd)
BENCH_QD := $(patsubst %.cc,$(BUILD)/%.o,$(call named,bench_qd.cc))
$(BUILD)/bench-cpu: $(OBJECTS) $(filter-out $(call objects,bench_gpu%.c),$(call objects,bench%.c)) $(BENCH_QD)
	$(LINK) -Wl,--as-needed $(PEERS) $(LIBS) -lstdc++
$(call objects,bench_%.c): private CFLAGS += -O3 -march=native
$(BENCH_QD): $(call named,bench_qd.cc) $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo c++ $<
	@$(CXX) -std=c++17 -O3 -march=native -ffp-contract=off -I. -MMD -MP -c -o $@ $<
$(BUILD)/bench-gpu: $(call objects,bench_gpu%.cu bench_gpu%.c) $(OBJECTS)
	$(LINK) $(LIBS)
$(foreach t,$(TEST_SOURCES),$(eval $(BUILD)/tests/$(basename $(notdir $t)): $(BUILD)/$(t:.c=.o)))
$(patsubst %.c,$(BUILD)/tests/%,$(notdir $(TEST_SOURCES))): $(HELPERS) $(OBJECTS)
	$(LINK) -lcmocka -Wl,--as-needed -lflint-arb -lflint $(LIBS)
$(foreach p,$(filter tests/%,$(call named,plugin_%.c)),$(eval $(BUILD)/tests/$(basename $(notdir $p)).so: $p))
$(PLUGINS): $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo cc $<
	@$(CC) $(CFLAGS) -I. -shared -fPIC -MMD -MP -o $@ $(filter %.c,$^)

$(call objects,arith_%.c dtype.c scan_%.c kl_%.c executor_cpu_layer.c): private CFLAGS += -O3
# Neither flag changes a result; with either effect kept, loops with roots or choices are no vector code.
$(call objects,dd_%.c): private CFLAGS += -O3 -fno-math-errno -fno-trapping-math
$(BUILD)/%.o: %.c $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo cc $<
	@$(CC) $(CFLAGS) -I. -I$(BUILD) -MMD -MP -c -o $@ $<
$(BUILD)/%.cu.o: %.cu $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo nvcc $<
	@$(NVCC) $(NVCCFLAGS) -Xptxas -v -I. -I$(BUILD) -MMD -MP -MF $(@:.o=.d) -c -o $@ $< 2>$(@:.o=.ptxas); status=$$?; \
		grep -v '^ptxas info\|^ *[0-9]* bytes stack frame' $(@:.o=.ptxas) >&2; exit $$status
$(call objects,backend.c): $(BUILD)/gpu_sources.h
$(call objects,logits_pictures.c): $(BUILD)/logits_gp.h

# A script as a string of C.
$(BUILD)/%_gp.h: plots/%.gp
	@mkdir -p $(@D); sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< >$@

# Rebuilds everything when the flags change.
$(BUILD)/flags: FORCE
	@mkdir -p $(@D); echo '$(CC) $(CFLAGS) $(LIBS) $(NVCC)' | cmp -s - $@ || echo '$(CC) $(CFLAGS) $(LIBS) $(NVCC)' >$@

# Which sources made a kernel: SHA-256 of its own files (OP.cu, OP_*.c) and those that all share; of the engine of whole
# models, all kernels.
ENGINE := $(sort $(KERNELS) $(filter gpu/engine/%,$(SOURCES)))
$(BUILD)/gpu_sources.h: $(KERNELS) $(wildcard $(KERNELS:.cu=_*.c)) $(ENGINE) $(SHARED) Makefile
	@mkdir -p $(@D)
	@{ echo 'static const struct { const char *op, *sha256; } gpu_sources[] = {'; \
	for f in $(KERNELS); do \
		printf '\t{ "%s", "%s" },\n' $$(basename $$f .cu) \
			$$(if [ $$(basename $$f) = model.cu ]; then cat $(ENGINE) $(SHARED); else cat $$f $$(ls $${f%.cu}_*.c 2>/dev/null) $(SHARED); fi | sha256sum | cut -c 1-64); \
	done; echo '};'; } >$@

-include $(shell find $(BUILD) \( -path build/asan -o -path build/device \) -prune -o -name "*.d" -print 2>/dev/null)

# ---- what is run ----
deps:
	@missing=; for p in $(DEBIAN); do \
		[ "$$(dpkg-query -W -f '$${db:Status-Status}' $$p 2>/dev/null)" = installed ] || missing="$$missing $$p"; \
	done; \
	if [ -z "$$missing" ]; then echo "deps: nothing is missing"; exit; fi; \
	echo "deps: installing$$missing"; \
	root=; [ $$(id -u) = 0 ] || root=sudo; \
	$$root apt-get update -q && \
	$$root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing

gate: $(BUILD)/etalon
	$(BUILD)/etalon gate fixtures/captures

test: $(BUILD)/etalon $(TESTS) $(FAULT_TESTS) $(PLUGINS)
	+@$(MAKE) -s BUILD=$(BUILD) check-recipe check-arrows check-docs check-kernels; recipe=$$?; ETALON=$(BUILD)/etalon sh tests/run.sh $(TESTS) $(FAULT_TESTS) && exit $$recipe

docs: $(BUILD)/etalon
	ETALON=$(BUILD)/etalon docs/generate.sh
check-docs: $(BUILD)/etalon
	ETALON=$(BUILD)/etalon docs/generate.sh --check

plots: $(BUILD)/etalon
	ETALON=$(BUILD)/etalon plots/plots.sh $(BUILD)/plots docs

false-alarms: $(BUILD)/false_alarms
	$(BUILD)/false_alarms $(SEEDS) $(ONLY)
readback: $(BUILD)/readback
	$(BUILD)/readback $(DRAWS)
$(BUILD)/false_alarms: $(call objects,false_alarms.c)
$(BUILD)/readback: $(call objects,readback.c)
$(BUILD)/false_alarms $(BUILD)/readback: $(HELPERS) $(OBJECTS)
	$(LINK) -lcmocka -Wl,--as-needed -lflint-arb -lflint $(LIBS)

mutants: $(BUILD)/etalon $(MUTANT_TESTS)
	@CC='$(CC)' CFLAGS='$(CFLAGS)' LIBS='$(CUDALIBS) $(LIBS)' OBJECTS='$(OBJECTS)' FAULTY='$(FAULTY)' HELPERS='$(HELPERS)' \
		sh tests/mutate.sh tests/mutants.tsv $(BUILD)

# The page is written even when the matrix is not good enough; SMALL=1 writes none.
kill-matrix: $(BUILD)/kill_matrix
	@$< $(if $(SMALL),-s) -t $(BUILD)/kill-matrix.tsv >$(BUILD)/kill-matrix.md; status=$$?; cat $(BUILD)/kill-matrix.md; \
	[ $$status -gt 1 ] || [ "$(SMALL)" ] || { cp $(BUILD)/kill-matrix.md docs/ && \
		gnuplot -e "table='$(BUILD)/kill-matrix.tsv'; picture='docs/kill-matrix.png'" plots/kill-matrix.gp; } || status=4; exit $$status
$(BUILD)/kill_matrix: $(call objects,kill_matrix%.c) $(OBJECTS)
	$(LINK) $(LIBS)

# The page is written even when the study is not good enough; SMALL=1 writes none.
strangers: $(BUILD)/strangers
	@$< $(if $(SMALL),-s) -t $(BUILD)/strangers.tsv >$(BUILD)/strangers.md; status=$$?; cat $(BUILD)/strangers.md; \
	[ $$status -gt 1 ] || [ "$(SMALL)" ] || ! [ -s $(BUILD)/strangers.md ] || cp $(BUILD)/strangers.md docs/ || status=4; exit $$status
$(BUILD)/strangers: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/strangers/*.c)) $(OBJECTS)
	$(LINK) $(LIBS)

$(BUILD)/pairs: $(call objects,pairs.c kill_matrix_model.c) $(OBJECTS)
	$(LINK) $(LIBS)

$(BUILD)/model_faults: $(call objects,model_faults.c) $(OBJECTS)
	$(LINK) $(LIBS)

# HOW=logits: from logits alone, the fault in all layers of its kind.
model-faults: $(BUILD)/model_faults
	$(BUILD)/model_faults 1 0 1000 $(HOW)

pairs: $(BUILD)/pairs
	$(BUILD)/pairs $(PAIRS)

# ptxas' reports lie beside the objects.
PTXAS := $(CU:%.cu=$(BUILD)/%.cu.ptxas)
kernels check-kernels: $(CU:%.cu=$(BUILD)/%.cu.o)
kernels:
	docs/kernels.sh docs/kernels.md $(PTXAS) >$(BUILD)/kernels.md && cp $(BUILD)/kernels.md docs/
check-kernels:
	@$(if $(NVCC),docs/kernels.sh --check docs/kernels.md $(PTXAS),:)

check-recipe: $(BUILD)/etalon
	@ok=0; for op in $$($(BUILD)/etalon list ops | sed '1d; s/ .*//'); do \
		for f in ref/$$op.c gpu/$$op.cu tests/test_$$op.c docs/ops/$$op.md; do \
			[ "$$(find $${f%/*} -name $${f##*/})" ] || { echo "check-recipe: the op $$op lacks $$f; see docs/adding-an-op.md" >&2; ok=1; }; \
		done; seen=1; \
	done; [ "$$seen" ] && exit $$ok

# MOST files in a folder.
MOST := 35
check-arrows:
	@sh tests/arrows.sh $(MOST)

# Without the studies of made-up faults and of profiles, whose code the other tests run too: they take minutes there.
ASAN_WITHOUT := test_invented_% test_profile
asan:
	@echo "asan: without $(notdir $(filter $(ASAN_WITHOUT:%=$(BUILD)/tests/%),$(TESTS)))"
	+$(MAKE) BUILD=build/asan NVCC= CFLAGS='$(CFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=all' \
		WITHOUT='$(ASAN_WITHOUT)' test
asan: | $(AFTER)

# What the executor's faults change is built twice; the rest of etalon-faults is etalon's.
$(BUILD)/faults/%.o: %.c $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo cc -DETALON_FAULTS $<
	@$(CC) $(CFLAGS) -DETALON_FAULTS -I. -I$(BUILD) -MMD -MP -c -o $@ $<
$(BUILD)/faults/%.cu.o: %.cu $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo nvcc -DETALON_FAULTS $<
	@$(NVCC) $(NVCCFLAGS) -DETALON_FAULTS -I. -I$(BUILD) -MMD -MP -MF $(@:.o=.d) -c -o $@ $<
FAULTY := $(foreach o,$(OBJECTS),$(if $(filter executor% mixed_batch.cu.o,$(notdir $o)),$(o:$(BUILD)/%=$(BUILD)/faults/%),$o))
$(BUILD)/etalon-faults: $(FAULTY) $(call objects,main.c)
	$(LINK) $(LIBS)
$(foreach t,$(FAULT_SOURCES),$(eval $(BUILD)/faults/$(basename $(notdir $t)): $(BUILD)/faults/$(t:.c=.o)))
$(FAULT_TESTS): $(HELPERS) $(FAULTY)
	$(LINK) -lcmocka -Wl,--as-needed -lflint-arb -lflint $(LIBS)
faults: $(BUILD)/etalon-faults $(FAULT_TESTS)
	ETALON=$(BUILD)/etalon-faults sh tests/run.sh $(FAULT_TESTS)

fuzz: $(FUZZERS:$(BUILD)/fuzz/%=fuzz-%)
fuzz-%: $(BUILD)/fuzz/%
	mkdir -p $(BUILD)/corpus/$*
	if [ -d tests/corpus/$* ]; then cp -r tests/corpus/$*/. $(BUILD)/corpus/$*; fi
	cd $(BUILD)/fuzz && ./$* -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 ../corpus/$*
$(foreach f,$(call named,fuzz_%.c),$(eval $(BUILD)/fuzz/$(patsubst fuzz_%.c,%,$(notdir $f)): $f))
$(FUZZERS): $(filter fixtures/%.c fixtures/%.h,$(SOURCES)) | $(AFTER)
	@mkdir -p $(@D); echo clang $(@F)
	@clang -std=gnu11 -O1 -g -ffp-contract=off -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-I. -o $@ $(filter %.c,$^) -ljansson -lm

DEVICE := build/device/etalon $(if $(NVCC),build/device/bench-gpu)
device: | $(AFTER)
	+$(MAKE) BUILD=build/device STATIC=1 $(DEVICE)
	@! ldd $(DEVICE) | grep -E 'openblas|mpfr|gmp|jansson|gomp|stdc' || { echo "device: not static" >&2; exit 1; }

PERFORMANCE := performance
bench: $(BUILD)/bench-cpu
	$< $(BUILD)/growth.tsv >$(BUILD)/performance.md
	sed 's/performance\.png/$(PERFORMANCE).png/' $(BUILD)/performance.md >docs/$(PERFORMANCE).md
	gnuplot -e "table='$(BUILD)/growth.tsv'; picture='docs/$(PERFORMANCE).png'" plots/growth.gp
	@cat docs/$(PERFORMANCE).md

bench-deps: DEBIAN := libflint-arb-dev libflint-dev libqd-dev python3-mpmath python3-numpy gnuplot-nox
bench-deps: deps

# Rivals: what python3 can import; a missing one is missing in the table.
bench-gpu: $(if $(NVCC),$(BUILD)/bench-gpu)
	@[ '$(NVCC)' ] || { echo "bench-gpu: needs nvcc" >&2; exit 2; }
	$(BUILD)/bench-gpu --selftest && $(BUILD)/bench-gpu --page $(BUILD)/performance-gpu.md
	+$(MAKE) -s BUILD=$(BUILD) bench-gpu-page
# A page that bench-gpu wrote here or on another machine, and its PAGE.ladder, into docs.
PAGE := $(BUILD)/performance-gpu.md
bench-gpu-page:
	cp $(PAGE) docs/performance-gpu.md
	awk -v gains=$(PAGE).ladder '/^<!-- \/bench-gpu/ { skip = 0 } !skip { print } \
		/^<!-- bench-gpu/ { skip = 1; while ((getline line < gains) > 0) print line }' docs/ladder.md >$(BUILD)/ladder.md
	cp $(BUILD)/ladder.md docs/

clean:
	rm -rf build

define HELP
make              $(BUILD)/etalon; with nvcc, its CUDA kernels too (NVCC= leaves them out)
make deps         installs what is missing from Debian; first among others: make deps gate
make gate         judges the captures in fixtures/captures
make test         all tests, and that every op has its four files
make asan         the same under the address and undefined-behaviour sanitizers
make faults       $(BUILD)/etalon-faults, whose executor has faults when told to, and their tests
make fuzz         the file readers on hostile input, FUZZ_SECONDS=$(FUZZ_SECONDS) each (needs clang)
make bench        dd against MPFR, Arb, QD and others, comparison against reading memory: docs/$(PERFORMANCE).md (PERFORMANCE=)
make bench-deps   installs what make bench compares with
make bench-gpu    all kernels against the hardware's limits and against PyTorch and flash-linear-attention: docs/performance-gpu.md (needs a GPU)
make bench-gpu-page PAGE=FILE: the page that `bench-gpu --page FILE` wrote on another machine, into docs
make device       build/device/etalon and bench-gpu: static libraries, for a GPU machine without them; cuBLAS is found when run
make check-recipe every op has its reference, kernel, test and page
make check-arrows no folder includes what stands below it (tests/arrows.txt), or has more than MOST=$(MOST) files
make kernels      docs/kernels.md: registers, shared memory and spills of every kernel, as nvcc says
make check-kernels no kernel spills that docs/kernels.md does not list
make docs         fills the generated blocks of the pages (make test checks them)
make mutants      breaks each rule of the verdict in turn; a test must notice
make plots        the pictures of docs/newton-schulz.md and docs/quantize.md, and SVG in $(BUILD)/plots; a minute
make readback     reads back random roundings of model kernels, DRAWS=100 draws
make false-alarms judges correct model kernels with SEEDS=5 seeds each, some 15 minutes (ONLY: names of ops, contracts)
make pairs        two faults at once, PAIRS=50 random pairs for each op
make model-faults  plants each known fault in one layer of a tiny model and reads it back, some 15 minutes (HOW=logits)
make kill-matrix  judges model kernels with each known fault, and clean ones, and writes docs/kill-matrix.md (SMALL=1: less, no page)
make strangers    judges kernels that the product has never seen, correct and with faults, and writes docs/strangers.md (SMALL=1: less, no page)
make clean        removes build
endef
help:
	$(info $(HELP))
	@:
