# etalon; `make help` says what there is to make.
BUILD := build
CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -Wconversion -Wshadow -Werror -ffp-contract=off -fopenmp -fPIC -fvisibility=hidden
NVCCFLAGS := -std=c++17 -O3 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90 \
	-Xcompiler -Wall,-Wextra,-fPIC,-fvisibility=hidden
DEBIAN := $(if $(MPI),openmpi-bin libopenmpi-dev) build-essential libmpfr-dev libgmp-dev libopenblas-dev libjansson-dev \
	libcmocka-dev libflint-arb-dev libflint-dev gnuplot-nox $(if $(filter fuzz,$(MAKECMDGOALS)),clang) \
	$(if $(filter analyze,$(MAKECMDGOALS)),clang clang-tidy) $(if $(filter format check-format,$(MAKECMDGOALS)),clang-format python3) $(filter valgrind,$(MAKECMDGOALS)) $(if $(filter wheel,$(MAKECMDGOALS)),python3) $(if $(filter fresh,$(MAKECMDGOALS)),mmdebstrap git) \
	$(if $(filter test-python,$(MAKECMDGOALS)),python3-venv python3-numpy python3-pytest python3-pytest-xdist)
FUZZ_SECONDS := 60
COMMA := ,
SEEDS := 5
DRAWS := 40
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
# Sources are found by their names, in whichever folder they stand: `named` gives those, `objects` their objects.
FILES := $(shell find fixtures ref gpu compare tests -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | LC_ALL=C sort)
named = $(foreach f,$(filter-out tests/strangers/%,$(FILES)),$(if $(filter $1,$(notdir $f)),$f))
objects = $(patsubst %.c,$(BUILD)/%.o,$(patsubst %.cu,$(BUILD)/%.cu.o,$(call named,$1)))
in_gpu = $(filter gpu/%,$(call named,$1))
RECORDED := $(basename $(notdir $(filter-out $(call in_gpu,cuda%.cu model_%.cu),$(call in_gpu,%.cu))))   # ops, and model: the engine
C := $(filter-out $(call named,main.c no_cuda.c $(if $(MPI),ranks_none.c,ranks_mpi.c ranks_watch.c)),$(filter fixtures/%.c ref/%.c compare/%.c gpu/%.c,$(FILES)))
ifdef NVCC
CUDA := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CU := $(call in_gpu,%.cu)
BENCH_GPU := $(wildcard bench/gpu*.cu)
# wgmma exists on sm_90a only; elsewhere the PTX of compute_90 runs, without it.
$(call objects,newton_schulz.cu muon_step.cu mixed_batch.cu gated_delta_rule.cu model_decode.cu) $(BENCH_GPU:%=$(BUILD)/%.o) \
		$(patsubst %,$(BUILD)/faults/%.o,$(call named,mixed_batch.cu)): private NVCCFLAGS := \
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
# Where MPI lies its compiler says, in the recipe: behind deps.
ifdef MPI
$(call objects,ranks_mpi.c): private MPI_HEADERS := $$(mpicc --showme:compile)
LIBS += $$(mpicc --showme:link)
endif
OBJECTS := $(C:%.c=$(BUILD)/%.o) $(CU:%.cu=$(BUILD)/%.cu.o)
# Of a test the object lies where its source does, the program in $(BUILD)/tests or, of the executor's faults, in $(BUILD)/faults.
TEST_SOURCES := $(call named,test_%.c)
FAULT_SOURCES := $(call named,test_executor_faults%.c test_executor_cpu_faults%.c test_isolate_faults%.c)
TESTS := $(patsubst %.c,$(BUILD)/tests/%,$(filter-out $(WITHOUT:%=%.c),$(notdir $(TEST_SOURCES))))
HELPERS := $(call objects,helpers.c witness%.c)
FAULT_TESTS := $(patsubst %.c,$(BUILD)/faults/%,$(notdir $(FAULT_SOURCES)))
PLUGIN_SOURCES := $(filter tests/%,$(call named,plugin_%.c))
PLUGINS := $(patsubst %.c,$(BUILD)/tests/%.so,$(notdir $(PLUGIN_SOURCES)))
MUTANT_TESTS := $(sort $(shell awk -F '\t' '!/^\#/ && NF { print "$(BUILD)/" ($$5 ~ /(executor|executor_cpu|isolate)_faults/ ? "faults/" : "tests/") $$5 }' tests/mutants.tsv))
FUZZER_SOURCES := $(call named,fuzz_%.c)
FUZZERS := $(patsubst fuzz_%.c,$(BUILD)/fuzz/%,$(notdir $(FUZZER_SOURCES)))
AFTER := $(filter deps,$(MAKECMDGOALS))                 # under -j too, deps come before all else

.PHONY: all audit deps gate test check-recipe check-arrows check-globals docs check-docs settled kernels check-kernels test-mpi asan-mpi plots false-alarms kill-matrix planted loosest strangers pairs readback mutants asan fuzz fuzz-% device bench bench-deps bench-gpu bench-gpu-page faults model-faults engines lib man install uninstall deb check-install wheel beside test-python analyze format check-format valgrind fresh referee referee-page check-referee clean help FORCE
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
all: $(BUILD)/etalon

LINK = @echo link $@; $(CC) $(CFLAGS) -o $@ $(filter %.o,$^) $(OPENMP) $(CUDALIBS)
$(BUILD)/etalon: $(OBJECTS) $(call objects,main.c)
	$(LINK) $(LIBS)
# Programs that measure one thing each. Peers that are not installed are missing in the table.
BENCHES := $(patsubst %,$(BUILD)/bench/%,dd eigen memory check reference)
PEERS := $(if $(wildcard /usr/include/arb_mat.h),-lflint-arb -lflint) $(if $(wildcard /usr/include/qd/dd_real.h),-lqd)
$(BENCHES): $(BUILD)/bench/%: $(BUILD)/bench/%.o $(patsubst %,$(BUILD)/bench/%.o,bench peers peers_eigen) $(OBJECTS)
	$(LINK) -Wl,--as-needed $(PEERS) $(LIBS) -lstdc++
$(BUILD)/bench/%.o: private CFLAGS += -O3 -march=native
$(BUILD)/bench/gpu%.o: private CFLAGS := $(CFLAGS)
$(BUILD)/bench/%.o: bench/%.cc $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo c++ $<
	@$(CXX) -std=gnu++17 -O3 -march=native -Wall -Wextra -Werror -ffp-contract=off -I. -MMD -MP -c -o $@ $<
$(BUILD)/bench-gpu: $(patsubst %,$(BUILD)/%.o,$(BENCH_GPU)) $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/gpu*.c)) $(OBJECTS)
	$(LINK) $(LIBS)
$(foreach t,$(TEST_SOURCES),$(eval $(BUILD)/tests/$(basename $(notdir $t)): $(BUILD)/$(t:.c=.o)))
$(patsubst %.c,$(BUILD)/tests/%,$(notdir $(TEST_SOURCES))): $(HELPERS) $(OBJECTS)
	$(LINK) -lcmocka -Wl,--as-needed -lflint-arb -lflint $(LIBS)
$(foreach p,$(PLUGIN_SOURCES),$(eval $(BUILD)/tests/$(basename $(notdir $p)).so: $p))
$(PLUGINS): $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo cc $(filter %.c,$^)
	@$(CC) $(CFLAGS) -fvisibility=default -I. -shared -MMD -MP -o $@ $(filter %.c,$^)

$(call objects,scan_%.c kl_%.c executor_cpu_layer.c cells.c compute.c multiply.c same.c score.c): private CFLAGS += -O3
# Either transformation takes loops over lanes apart, which are vector code then no more.
$(call objects,arith_%.c): private CFLAGS += -O3 -fno-loop-interchange -fno-loop-unroll-and-jam
# Neither flag changes a result; with either effect kept, loops with roots or choices are no vector code.
$(call objects,dd_%.c dtype.c xray_terms.c): private CFLAGS += -O3 -fno-math-errno -fno-trapping-math
$(BUILD)/%.o: %.c $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo cc $<
	@$(CC) $(CFLAGS) $(MPI_HEADERS) -I. -I$(BUILD) -MMD -MP -c -o $@ $<
$(BUILD)/%.cu.o: %.cu $(BUILD)/nvcc | $(AFTER)
	@mkdir -p $(@D); echo nvcc $<
	@$(NVCC) $(NVCCFLAGS) -Xptxas -v -I. -I$(BUILD) -MMD -MP -MF $(@:.o=.d) -c -o $@ $< 2>$(@:.o=.ptxas); status=$$?; \
		grep -v '^ptxas info\|^ *[0-9]* bytes stack frame' $(@:.o=.ptxas) >&2; exit $$status
$(call objects,backend.c): $(BUILD)/gpu_sources.h
$(call objects,logits_pictures.c): $(BUILD)/logits_gp.h
$(BUILD)/ref/formula/op.o: $(BUILD)/builtin_ops.h

# A script as a string of C.
$(BUILD)/%_gp.h: plots/%.gp
	@mkdir -p $(@D); sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< >$@

# The formulas of etalon's own ops, as text: made anew where one changes, comes or goes.
$(BUILD)/builtin_ops.h: FORCE
	@mkdir -p $(@D); for d in ops layers; do echo "static const struct { const char *path, *text; } builtin_$$d[] = {"; \
		for f in $$(ls ref/ops/$$([ $$d = ops ] || echo $$d)/*.op); do echo "{ \"$$f\","; sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $$f; echo '},'; \
		done; echo '};'; done >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@

# Compiles everything anew when the flags change, links when what is linked does: programs with MPI=1 or NVCC= share one BUILD's objects with those without.
WRITTEN = @mkdir -p $(@D); [ ! -f $(BUILD)/bench ] || rm $(BUILD)/bench; echo '$1' >$@.new; cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/flags: FORCE
	$(call WRITTEN,$(CC) $(CFLAGS))
$(BUILD)/nvcc: FORCE
	$(call WRITTEN,$(NVCC) $(NVCCFLAGS))
$(BUILD)/links: FORCE
	$(call WRITTEN,$(OPENMP) $(CUDALIBS) $(LIBS))

# Which sources made a capture: those of the op or the engine, those of others that it calls, and all that these include.
CALLED := cuda.cu
CALLED_mixed_batch := executor.c gated_delta_rule.cu
CALLED_allreduce_norm := cuda_nccl.cu rmsnorm.cu
CALLED_allreduce_norm_fp8 := cuda_nccl.cu rmsnorm_fp8.cu
CALLED_row_parallel := cuda_nccl.cu
CALLED_sharded_delta := cuda_nccl.cu gated_delta_rule.cu rmsnorm.cu
CALLED_state_transfer := cuda_nccl.cu
CALLED_model := model_%.cu causal_conv1d.cu gated_delta_rule.cu gated_product.cu qk_norm_rope.cu rmsnorm.cu
SOURCES = $(call in_gpu,$1.cu $1_%.c $(CALLED_$1) $(CALLED))
HASHED = hash=$$(CXX='$(CXX)' sh gpu/sources.sh $(call SOURCES,$1)) && printf '\t{ "%s", "%s" },\n' $1 $$hash
$(BUILD)/gpu_sources.h: gpu/sources.sh $(filter gpu/%,$(FILES)) Makefile | $(AFTER)
	@mkdir -p $(@D)
	@{ echo 'static const struct { const char *op, *sha256; } gpu_sources[] = {' \
		$(foreach o,$(RECORDED),&& $(call HASHED,$o)) && echo '};'; } >$@

-include $(shell find $(BUILD) -mindepth 1 \( -path build/asan -o -path build/device -o -path build/fresh \) -prune -o -type f -name '*.d' -print 2>/dev/null)

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

# The studies are linked, so that what does not compile there is said at once.
STUDIES := $(patsubst %,$(BUILD)/%,false_alarms readback kill_matrix strangers planted loosest pairs model_faults)
test: $(BUILD)/etalon $(TESTS) $(FAULT_TESTS) $(PLUGINS) $(if $(WITHOUT),,$(STUDIES))
	+@$(MAKE) -s BUILD=$(BUILD) check-recipe check-arrows check-globals $(if $(WITHOUT),,check-docs) check-kernels & recipe=$$!; \
		ETALON=$(BUILD)/etalon sh tests/run.sh $(TESTS) $(FAULT_TESTS); tests=$$?; wait $$recipe && exit $$tests

# The generated blocks, and the commands that the pages show, of which one runs an executor with faults.
docs: $(BUILD)/etalon $(BUILD)/etalon-faults
	ETALON=$(BUILD)/etalon docs/generate.sh
	ETALON=$(BUILD)/etalon docs/run_pages.sh --write
check-docs: $(BUILD)/etalon $(BUILD)/etalon-faults
	ETALON=$(BUILD)/etalon docs/generate.sh --check
	ETALON=$(BUILD)/etalon docs/run_pages.sh

plots: $(BUILD)/etalon
	ETALON=$(BUILD)/etalon plots/plots.sh $(BUILD)/plots docs
settled: $(BUILD)/etalon
	@ETALON=$(BUILD)/etalon python3 plots/settled.py $(ONLY)

false-alarms: $(BUILD)/false_alarms
	$(BUILD)/false_alarms $(SEEDS) $(ONLY)
readback: $(BUILD)/readback
	$(BUILD)/readback fewer $(DRAWS)
$(BUILD)/false_alarms: $(call objects,false_alarms.c)
$(BUILD)/readback: $(call objects,readback.c)
$(BUILD)/false_alarms $(BUILD)/readback: $(HELPERS) $(OBJECTS)
	$(LINK) -lcmocka -Wl,--as-needed -lflint-arb -lflint $(LIBS)

# Of etalon built with MPI=1, in a folder of its own: the same bits on 1 to 4 ranks, checkpoints, ranks that are killed.
ifdef MPI
test-mpi: $(BUILD)/etalon $(BUILD)/rank_answers
	tests/ranks.sh $(BUILD)
$(BUILD)/rank_answers: $(call objects,rank_answers.c) $(OBJECTS)
	$(LINK) $(LIBS)
asan-mpi: $(BUILD)/etalon $(BUILD)/rank_answers
	tests/ranks_asan.sh $(BUILD)
else
asan-mpi: | $(AFTER)
	+$(MAKE) BUILD=build/asan-mpi NVCC= MPI=1 CFLAGS='$(CFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=all' asan-mpi
test-mpi: | $(AFTER)
	+$(MAKE) BUILD=build/mpi NVCC= MPI=1 test-mpi
endif

mutants: $(BUILD)/etalon $(MUTANT_TESTS) $(PLUGINS)
	@CC='$(CC)' CFLAGS='$(CFLAGS)' LIBS='$(CUDALIBS) $(LIBS)' OBJECTS='$(OBJECTS)' FAULTY='$(FAULTY)' HELPERS='$(HELPERS)' \
		sh tests/mutate.sh $(or $(TABLE),tests/mutants.tsv) $(BUILD)

# A page and its ops. It is written even when the matrix is not good enough; SMALL=1 and ONLY write none.
MATRIX := kill-matrix
kill-matrix-newer.ops := attention conv_ssd_norm gdn2 kda mamba3 mamba3_mimo rmsnorm_fp8_groups ssd
kill-matrix.ops := $(filter-out $(kill-matrix-newer.ops),$(basename $(notdir $(wildcard ref/ops/*.op))))
kill-matrix: $(BUILD)/kill_matrix
	@$< $(if $(SMALL),-s) $(if $(KEEP),-k $(KEEP) $(if $(KEPT),-n)) -c "$$(git rev-parse --short HEAD 2>/dev/null || echo -)" -p $(MATRIX) -t $(BUILD)/kill-matrix.tsv \
		$(or $(ONLY),$(if $(SMALL),,$(shell echo $($(MATRIX).ops) | tr ' ' ,))) >$(BUILD)/kill-matrix.md; status=$$?; cat $(BUILD)/kill-matrix.md; \
	[ $$status -gt 1 ] || [ "$(SMALL)$(ONLY)" ] || { cp $(BUILD)/kill-matrix.md docs/$(MATRIX).md && \
		gnuplot -e "table='$(BUILD)/kill-matrix.tsv'; picture='docs/$(MATRIX).png'" plots/kill-matrix.gp; } || status=4; exit $$status
$(BUILD)/kill_matrix: $(call objects,kill_matrix%.c) $(OBJECTS)
	$(LINK) $(LIBS)

# The page is written even when the study is not good enough; SMALL=1 writes none.
strangers: $(BUILD)/strangers
	@$< $(if $(SMALL),-s) -t $(BUILD)/strangers.tsv >$(BUILD)/strangers.md; status=$$?; cat $(BUILD)/strangers.md; \
	[ $$status -gt 1 ] || [ "$(SMALL)" ] || ! [ -s $(BUILD)/strangers.md ] || cp $(BUILD)/strangers.md docs/ || status=4; exit $$status
$(BUILD)/strangers: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/strangers/*.c)) $(OBJECTS)
	$(LINK) $(LIBS)

# What `check --contract auto` lets pass. KEEP=FILE keeps what is done, KEPT=1: only that, BEFORE=FILE: that of another run, for
# comparison; SMALL=1 and ONLY write no page.
loosest: $(BUILD)/loosest
	@$< $(if $(SMALL),-s) $(if $(BEFORE),-b $(BEFORE)) $(if $(KEEP),-k $(KEEP) $(if $(KEPT),-n)) -c "$$(git rev-parse --short HEAD 2>/dev/null || echo -)" -d "$$(date +%F)" $(ONLY) \
		>$(BUILD)/loosest.md; status=$$?; cat $(BUILD)/loosest.md; [ $$status -gt 1 ] || [ "$(SMALL)$(ONLY)" ] || cp $(BUILD)/loosest.md docs/ || status=4; exit $$status
$(BUILD)/loosest: $(call objects,loosest%.c kill_matrix_model.c) $(OBJECTS)
	$(LINK) $(LIBS)

# Recorded calls of ops that are formulas of the field's other kernels; ONLY: names of captures that begin so.
planted: $(BUILD)/planted
	@$< $(if $(KEEP),-k $(KEEP) $(if $(KEPT),-n)) $(foreach o,$(or $(ONLY),$(kill-matrix-newer.ops:%=%.)),$(wildcard fixtures/captures/$o*.safetensors)) \
		>$(BUILD)/planted.md; status=$$?; cat $(BUILD)/planted.md; [ $$status -gt 1 ] || [ "$(ONLY)" ] || cp $(BUILD)/planted.md docs/ || status=4; exit $$status
$(BUILD)/planted: $(call objects,planted.c kill_matrix_model.c kill_matrix_unit.c kill_matrix_keep.c) $(OBJECTS)
	$(LINK) $(LIBS)

$(BUILD)/pairs: $(call objects,pairs.c kill_matrix_model.c) $(OBJECTS)
	$(LINK) $(LIBS)

$(BUILD)/model_faults: $(call objects,model_faults.c) $(OBJECTS)
	$(LINK) $(LIBS)

# Correct engines in 54 cuts, and wrong ones: SMALL=1 takes a sample, ONLY=REGEX some ("tiny vllm right hidden"), MODELS=tiny,moe,
# DRAWN=7300-7309 other cuts, drawn with these seeds.
engines: $(BUILD)/etalon
	@[ -x $(BUILD)/engines/venv/bin/python ] || { python3 -m venv $(BUILD)/engines/venv && $(BUILD)/engines/venv/bin/pip install -q numpy ml_dtypes; }
	@PYTHONDONTWRITEBYTECODE=1 $(BUILD)/engines/venv/bin/python tests/engines/study.py $< $(BUILD)/engines $(if $(SMALL),--small) \
		$(if $(ONLY),--only '$(ONLY)') $(if $(MODELS),--models $(MODELS)) $(if $(DRAWN),--seeds $(DRAWN)) >$(BUILD)/engines.md; status=$$?; cat $(BUILD)/engines.md; exit $$status

# HOW=logits: from logits alone, the fault in all layers of its kind.
model-faults: $(BUILD)/model_faults
	$(BUILD)/model_faults 1 0 1000 $(HOW)

pairs: $(BUILD)/pairs
	$(BUILD)/pairs $(PAIRS)

# The reports stay in the build folder: only what is newer is made again.
audit: $(BUILD)/etalon
	ETALON=$(BUILD)/etalon docs/audit.sh $(BUILD)/audit docs/audit.md docs/audit.png

# ptxas' reports lie beside the objects.
PTXAS := $(CU:%.cu=$(BUILD)/%.cu.ptxas)
kernels check-kernels: $(CU:%.cu=$(BUILD)/%.cu.o)
kernels:
	docs/kernels.sh docs/kernels.md $(PTXAS) >$(BUILD)/kernels.md && cp $(BUILD)/kernels.md docs/
check-kernels:
	@$(if $(NVCC),docs/kernels.sh --check docs/kernels.md $(PTXAS),:)

check-recipe: $(BUILD)/etalon
	@ok=0; for op in $$($(BUILD)/etalon list ops | sed '1d; s/ .*//; /[.]backward$$/d'); do \
		[ -f ref/ops/$$op.op ] && needs="$$(ls fixtures/captures/$$op.* gpu/kernels/$$op.cu 2>/dev/null | grep -q . || echo gpu/kernels/$$op.cu)" || \
			needs="ref/ops/$$op.c gpu/kernels/$$op.cu tests/ref/ops/test_$$op.c docs/ops/$$op.md"; \
		for f in $$needs; do \
			[ "$$(find $${f%%/*} -name $${f##*/})" ] || { echo "check-recipe: the op $$op lacks $$f; see docs/adding-an-op.md" >&2; ok=1; }; \
		done; seen=1; \
	done; [ "$$seen" ] && exit $$ok

# MOST files in a folder.
MOST := 35
check-arrows:
	@sh tests/arrows.sh $(MOST)

# The sanitizers add variables of their own.
check-globals: $(BUILD)/etalon
	@$(if $(findstring -fsanitize,$(CFLAGS)),:,BUILD=$(BUILD) sh tests/globals.sh $(filter $(BUILD)/fixtures/% $(BUILD)/ref/% $(BUILD)/compare/%,$(OBJECTS)))

# Without the studies of made-up faults, suspects, profiles and variants, and the pages, and what takes a minute and more there: other tests run the same code.
ASAN_WITHOUT := test_invented_% test_profile test_variants test_suspects test_traces test_verdict_contracts test_verdict_forms test_rules_xray test_%_suspects \
	test_cli_ref test_cli_verdicts test_exact_points test_other_% test_ranks test_report test_model_engine test_layer_reading test_engines test_engine_parts test_sample test_check_strips test_told% \
	test_structure test_structure_budget test_structure_own test_structure_forms test_structure_iterated test_structure_loops test_structure_lots test_structure_many
asan:
	@echo "asan: without $(notdir $(filter $(ASAN_WITHOUT:%=$(BUILD)/tests/%),$(TESTS)))"
	+$(MAKE) BUILD=build/asan NVCC= CFLAGS='$(CFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=all' \
		WITHOUT='$(ASAN_WITHOUT)' test
asan: | $(AFTER)

# What the executor's faults change is built twice; the rest of etalon-faults is etalon's.
$(BUILD)/faults/%.o: %.c $(BUILD)/flags | $(AFTER)
	@mkdir -p $(@D); echo cc -DETALON_FAULTS $<
	@$(CC) $(CFLAGS) -DETALON_FAULTS -I. -I$(BUILD) -MMD -MP -c -o $@ $<
$(BUILD)/faults/%.cu.o: %.cu $(BUILD)/nvcc | $(AFTER)
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
	if [ $* = formula ]; then cp tests/ops/*.op $(BUILD)/corpus/formula; fi
	if [ $* = capture ]; then find fixtures/captures -name '*.safetensors' -size -$(SEED_SIZE) -exec cp {} $(BUILD)/corpus/capture \; ; fi
	if [ $* = model_config ]; then cp fixtures/models/*.json $(BUILD)/corpus/model_config; fi
	cd $(BUILD)/fuzz && ./$* -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 ../corpus/$*
$(foreach f,$(FUZZER_SOURCES),$(eval $(BUILD)/fuzz/$(patsubst fuzz_%.c,%,$(notdir $f)): $f))
# Of the readers of formulas and captures what they are made of is watched; the rest, which nothing reaches but through it, are the
# program's objects. So is what needs OpenMP, which clang may lack.
FUZZED_formula := $(filter ref/parse/%.c ref/use/%.c ref/formula/%.c,$(C))
FUZZED_capture := $(filter ref/call/call%.c,$(C))
SEED_SIZE := 9k
OMP_ALONE := $(call named,surroundings.c)
$(foreach f,formula capture,$(eval $(BUILD)/fuzz/$f: $(FUZZED_$f) $(patsubst %.c,$(BUILD)/%.o,$(OMP_ALONE) $(filter-out $(FUZZED_$f),$(filter ref/%.c,$(C)))) $(BUILD)/builtin_ops.h))
$(BUILD)/fuzz/formula $(BUILD)/fuzz/capture: private FUZZ_LIBS = -I$(BUILD) $(filter %.o,$^) -lgomp $(LIBS)
$(FUZZERS): $(filter-out $(OMP_ALONE),$(filter fixtures/%,$(FILES))) | $(AFTER)
	@mkdir -p $(@D); echo clang $(@F)
	@clang -std=gnu11 -O1 -g -ffp-contract=off -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
		-I. -o $@ $(filter %.c,$^) $(FUZZ_LIBS) -ljansson -lm

include package/install.mk
include package/ci.mk
include package/fuzz.mk

$(BUILD)/etalon $(BUILD)/etalon-faults $(BENCHES) $(BUILD)/bench-gpu $(BUILD)/rank_answers $(STUDIES) \
	$(patsubst %.c,$(BUILD)/tests/%,$(notdir $(TEST_SOURCES))) $(FAULT_TESTS) $(LIBRARY) $(BUILD)/libetalon.a $(BUILD)/beside/etalon $(BUILD)/beside/$(SONAME): $(BUILD)/links

DEVICE := build/device/etalon $(if $(NVCC),build/device/bench-gpu)
device: | $(AFTER)
	+$(MAKE) BUILD=build/device STATIC=1 $(DEVICE)
	@! ldd $(DEVICE) | grep -E 'openblas|mpfr|gmp|jansson|gomp|stdc' || { echo "device: not static" >&2; exit 1; }

# Rows into bench.tsv, the page from them; QUICK=1 tries small sizes, and writes no page into docs.
PERFORMANCE := performance
bench: $(BENCHES) $(BUILD)/etalon
	$(if $(QUICK),QUICK=1) bench/run.sh $(BENCHES) >$(BUILD)/bench.tsv
	$(if $(QUICK),QUICK=1) bench/verdicts.sh $(BUILD)/etalon $(BUILD)/bench-verdicts $(BUILD)/engines/venv/bin/python >>$(BUILD)/bench.tsv
	$(if $(MPI),$(if $(QUICK),QUICK=1) bench/ranks.sh $(BUILD)/etalon $(BUILD)/bench-ranks >>$(BUILD)/bench.tsv)
	awk -f bench/page.awk $(BUILD)/bench.tsv bench/performance.page | sed 's/performance\.png/$(PERFORMANCE).png/' >$(BUILD)/performance.md
	$(if $(QUICK),,cp $(BUILD)/performance.md docs/$(PERFORMANCE).md)
	gnuplot -e "table='$(BUILD)/bench.tsv'; picture='$(if $(QUICK),$(BUILD),docs)/$(PERFORMANCE).png'" plots/growth.gp
	@cat $(BUILD)/performance.md

bench-deps: DEBIAN := libflint-arb-dev libflint-dev libqd-dev python3-mpmath python3-numpy gnuplot-nox
bench-deps: deps

# Rivals: what python3 can import; a missing one is missing in the table.
bench-gpu: $(if $(NVCC),$(BUILD)/bench-gpu)
	@[ '$(NVCC)' ] || { echo "bench-gpu: needs nvcc" >&2; exit 2; }
	$(BUILD)/bench-gpu --selftest && $(BUILD)/bench-gpu --page $(BUILD)/performance-gpu.tsv
	+$(MAKE) -s BUILD=$(BUILD) bench-gpu-page
# Rows that bench-gpu wrote here or on another machine, as a page into docs.
PAGE := $(BUILD)/performance-gpu.tsv
# Needs Python with torch, safetensors and the libraries that are to be judged (docs/referee.md).
PYTHON := python3
REFEREE = PYTHONPATH=python $(PYTHON) -m referee
referee: $(BUILD)/etalon
	$(REFEREE).run $(BUILD)/etalon $(BUILD)/referee --only '$(ONLY)' $(if $(MORE),--more)
	$(REFEREE).table $(BUILD)/referee $(if $(MORE),--more)
	$(REFEREE).page
referee-page:
	$(REFEREE).page
check-referee: $(BUILD)/etalon
	$(REFEREE).page --check
	cd python && ETALON=$(abspath $(BUILD))/etalon $(PYTHON) -m unittest discover -s referee/tests -t .

bench-gpu-page:
	awk -f bench/page.awk $(PAGE) bench/works.page bench/performance-gpu.page >$(BUILD)/performance-gpu.md
	awk -f bench/page.awk $(PAGE) bench/works.page bench/ladder.page >$(BUILD)/gains.md
	awk -v gains=$(BUILD)/gains.md '/^<!-- \/bench-gpu/ { skip = 0 } !skip { print } \
		/^<!-- bench-gpu/ { skip = 1; while ((getline line < gains) > 0) print line }' docs/ladder.md >$(BUILD)/ladder.md
	cp $(BUILD)/performance-gpu.md $(BUILD)/ladder.md docs/

clean:
	rm -rf build

define HELP
make              $(BUILD)/etalon; with nvcc, its CUDA kernels too (NVCC= leaves them out)
make deps         installs what is missing from Debian; first among others: make deps gate
make gate         judges the captures in fixtures/captures
make test         all tests, and that every op has its files
make MPI=1        etalon whose check, ref and logits run as ranks of MPI, after make deps MPI=1 (docs/ranks.md); a BUILD= of its own
make test-mpi     the same bits on 1 to 4 ranks, checkpoints, ranks that are killed: builds that in build/mpi
make asan-mpi     two ranks under the address sanitizer, in build/asan-mpi
make asan         the same under the address and undefined-behaviour sanitizers
make faults       $(BUILD)/etalon-faults, whose executor has faults when told to, and their tests
make fuzz         the readers of files and of arguments on hostile input, FUZZ_SECONDS=$(FUZZ_SECONDS) each (needs clang)
make bench        dd against MPFR, Arb, QD and others, comparison against reading memory: docs/$(PERFORMANCE).md (PERFORMANCE=;
                  QUICK=1: small sizes, and no page in docs; MPI=1: ranks against threads too)
make bench-deps   installs what make bench compares with
make bench-gpu    all kernels against the hardware's limits and against PyTorch and flash-linear-attention: docs/performance-gpu.md (needs a GPU)
make referee      judges the public kernels that are installed (ONLY: a regular expression), into build/referee and docs/referee.md (needs a GPU); MORE=1: what its tables lack
make check-referee docs/referee.md is what python/referee/results/*.tsv say; the referee's tests that need no GPU
make bench-gpu-page PAGE=FILE: the page of the rows that `bench-gpu --page FILE` wrote on another machine, into docs
make device       build/device/etalon and bench-gpu: static libraries, for a GPU machine without them; cuBLAS is found when run
make check-recipe every op has its formula, and a kernel or a recorded capture; one in C its reference, kernel, test and page
make check-arrows no folder includes what stands below it (tests/arrows.txt), or has more than MOST=$(MOST) files
make check-globals no variable may change while etalon runs but those of tests/globals.txt
make kernels      docs/kernels.md: registers, shared memory and spills of every kernel, as nvcc says
make check-kernels no kernel spills that docs/kernels.md does not list
make docs         fills the generated blocks of the pages, and runs the commands that they show and writes the output (make test checks both)
make mutants      breaks each rule of the verdict in turn; a test must notice
make settled      two public issues about Mamba-3's and FlashAttention-4's errors, emulated: the tables of docs/ops; a minute (ONLY=mamba, attention)
make plots        the pictures of docs/newton-schulz.md and docs/quantize.md, and SVG in $(BUILD)/plots; a minute
make readback     reads back random structures of kernels, DRAWS=40 draws
make false-alarms judges correct model kernels with SEEDS=5 seeds each, some 15 minutes (ONLY: names of ops, contracts)
make pairs        two faults at once, PAIRS=50 random pairs for each op
make engines      judges correct engines in 54 cuts and wrong ones (ONLY=REGEX, SMALL=1, MODELS=tiny,mid,moe); Debian's python3-venv
make model-faults  plants each known fault in one layer of a tiny model and reads it back, some 15 minutes (HOW=logits)
make planted      judges recorded calls as they are and with each fault of their op, and writes docs/planted.md (ONLY: captures that begin so, no page; KEEP, KEPT as below)
make loosest      faults, gains and offsets that --contract auto passes, and the largest that pass: docs/loosest.md, some 20 minutes (SMALL=1, KEEP, KEPT, ONLY as below)
make kill-matrix  judges model kernels with each known fault, and clean ones, and writes docs/kill-matrix.md (MATRIX=kill-matrix-newer: that page, of the newer
                  ops; SMALL=1: less, no page; ONLY=OP,...: no page; KEEP=FILE: what is done stays there, for a run that is cut; KEPT=1: only that)
make strangers    judges kernels that the product has never seen, correct and with faults, and writes docs/strangers.md (SMALL=1: less, no page)
make audit        public tests, rebuilt, and the known faults that they pass: docs/audit.md, some 15 minutes
make install      the program, libetalon, etalon.h, man pages and completion into PREFIX=/usr/local, below DESTDIR=; make uninstall
make deb          a package for Debian 12, in $(BUILD); make wheel: a wheel for Python, in $(BUILD)/dist
make check-install compiles and runs docs/library.md against an installed copy; make test-python: the wheel, in an environment of its own
make analyze      clang-tidy over all C, by .clang-tidy (ONLY: folders); make valgrind: a gate of five small calls, no error and no leak
make format       spaces and indentation by .clang-format, line breaks as they are; make check-format: whether that is done
make fresh        make deps gate and test, the package and the wheel, each in an empty Debian 12 root (root; WHAT=gate test deb wheel)
make clean        removes build
endef
help:
	$(info $(HELP))
	@:
