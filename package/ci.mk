# What CI asks beyond the tests: static analysis, valgrind, and the README's commands where nothing is installed.
# Clang 14 does not know the processors that these ask for; without MPI its header is not there.
NOT_CLANG := $(call named,kl_plain.c scan_plain.c dd_plain.c dd_avx2.c dd_avx512.c $(if $(MPI),,ranks_mpi.c))
# ONLY: folders, as in CI: those that read what others wrote.
ANALYZED := $(patsubst %.c,$(BUILD)/analyzed/%.ok,$(filter-out $(NOT_CLANG),$(filter $(patsubst %,%/%.c,$(or $(ONLY),fixtures ref compare gpu)),$(FILES))))
analyze: $(ANALYZED)
	@echo "analyze: $(words $(ANALYZED)) files, nothing found"
$(BUILD)/analyzed/%.ok: %.c .clang-tidy $(filter %.h,$(FILES)) $(addprefix $(BUILD)/,gpu_sources.h logits_gp.h builtin_ops.h) | $(AFTER)
	@mkdir -p $(@D); clang-tidy --quiet $< -- -std=gnu11 -fopenmp -I. -I$(BUILD) >$@.new 2>$@.err || { cat $@.new; grep -v 'warnings\? generated\|^Suppressed\|^Use -' $@.err; exit 1; }
	@mv $@.new $@

# gpu/ is not formatted: captures carry the hash of its text (gpu/sources.sh).
CLANG_FORMAT := clang-format
FORMATTED = $(sort $(wildcard bench/*.[ch]) $(filter-out gpu/%,$(filter %.c %.h,$(FILES))))
format check-format: | $(AFTER)
	@python3 package/format.py $(CLANG_FORMAT) $(if $(filter check-%,$@),--check) $(FORMATTED)

# Small calls, one thread: some ten seconds of one processor.
VALGRIND_CAPTURES := newton_schulz.one_row newton_schulz.tiny_f32 causal_conv1d.bias_f32 rmsnorm_fp8.tiny_rows rope.full
valgrind: $(BUILD)/etalon | $(AFTER)
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 valgrind -q --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
		--error-exitcode=9 $(BUILD)/etalon gate $(VALGRIND_CAPTURES:%=fixtures/captures/%.etalon.safetensors)

# WHAT: which of them; each in a root of its own.
WHAT := gate test deb wheel
fresh:
	sh package/fresh.sh $(BUILD)/fresh $(WHAT)
