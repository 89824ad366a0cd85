# The fuzzers of baselines and of arguments. What reads these is watched; the rest is the program's
# objects. fixtures/ is watched in each fuzzer but for OMP_ALONE, if there is any.
FUZZED_baseline := $(filter compare/report/%.c compare/print/%.c,$(C))
FUZZED_arguments := $(filter compare/cli/%.c compare/gate/%.c,$(C)) $(FUZZED_baseline)
WATCHED = $(FUZZED_$1) $(filter-out $(OMP_ALONE),$(filter fixtures/%.c,$(C)))
BESIDE_WATCHED = $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(WATCHED),$(C))) $(CU:%.cu=$(BUILD)/%.cu.o)
$(foreach f,baseline arguments,$(eval $(BUILD)/fuzz/$f: $(FUZZED_$f) $(call BESIDE_WATCHED,$f)))
# gcc's omp.h where clang has none.
$(BUILD)/fuzz/baseline $(BUILD)/fuzz/arguments: private FUZZ_LIBS = -I$(BUILD) \
	-idirafter $(shell $(CC) -print-file-name=include) $(filter %.o,$^) $(CUDALIBS) -lgomp $(LIBS)

# What ends a command, writes or leaves the folder goes through tests/compare/cli/fuzz_arguments.c.
WRAPPED := argp_parse argp_error exit open fopen fts_open mkdir mkdtemp freopen rename unlink rmdir \
	dlopen fork
$(BUILD)/fuzz/arguments: private FUZZ_LIBS += $(WRAPPED:%=-Wl,--wrap=%)

# Beside it lie a capture, a baseline, a shard and the names of all options. A command that comes
# back from the middle frees nothing, so memory grows.
$(BUILD)/fuzz/arguments.dict: $(BUILD)/etalon
	@mkdir -p $(@D); cp tests/corpus/baseline/two $(@D)/b.json
	@cp fixtures/captures/newton_schulz.one_row.etalon.safetensors $(@D)/a.safetensors
	@cd $(@D) && $(abspath $<) gate --quick --shard 1/1 --output s.json a.safetensors >/dev/null
	@for c in $(COMMANDS); do echo $$c; \
		$< $$c --help | grep -oE -- '(--[a-z-]+|-[A-Za-z],)' | tr -d ,; \
	done | sort -u | sed 's/.*/"&"/' >$@
fuzz-arguments: $(BUILD)/fuzz/arguments $(BUILD)/fuzz/arguments.dict
	mkdir -p $(BUILD)/corpus/arguments && cp -r tests/corpus/arguments/. $(BUILD)/corpus/arguments
	cd $(BUILD)/fuzz && ./arguments -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
		-dict=arguments.dict -rss_limit_mb=0 -close_fd_mask=3 -timeout=60 -max_len=400 \
		../corpus/arguments </dev/null
