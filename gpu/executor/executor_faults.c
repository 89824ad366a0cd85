/* Faults on purpose: their names, and which of them is injected. The tables that executor_plan publishes stay the intended
 * ones: what goes wrong is what the backend is handed (executor_faults_run.c), or the backend itself. */
#include "gpu/executor/executor_faults.h"

#include <string.h>

#ifdef ETALON_FAULTS

const struct executor_fault executor_faults[] = {
	{ "all_tokens_use_first_slot", "all tokens run as one sequence, from the first row's memory into the first row's slot", "" },
	{ "prefill_overwrites_decode_slot", "a prefill's memory goes to the slot of the step's first decode row", "" },
	{ "read_slot_is_not_write_slot", "a decode row writes to the slot of the next decode row", "" },
	{ "pad_minus_one_hits_slot_zero", "padding rows run as decode rows on slot 0", "tokenspeed#700" },
	{ "slot_zero_means_pad", "a row that writes to slot 0 is taken for padding", "vLLM-2080Ti#93" },
	{ "slot_not_zeroed_on_reuse", "a fresh request starts from what its slot held before", "" },
	{ "one_token_prefill_taken_for_decode", "a fresh request of one token starts from what its slot held before", "vllm#32118" },
	{ "state_written_to_a_copy", "decode rows write their memory nowhere", "flashinfer#3490" },
	{ "int32_slot_offset", "a slot's offset, slot * stride, is a wrapped 32-bit number (in the backend)", "flashinfer#3230" },
	{ "stale_slot_table_in_graph", "a replayed decode part uses the slots of the first step with as many decode rows", "" },
	{ "checkpoint_shared_not_copied", "who continues from a shared slot writes into it", "" },
	{ "checkpoint_at_wrong_boundary", "a checkpoint is its request's memory after the request's next step", "sglang#37836" },
	{ "accepted_row_off_by_one", "accepting k drafts goes on from draft k+1", "vllm#40738" },
	{ "conv_and_state_slots_differ", "a decode row's ring is in the slot of the next decode row", "" },
	{ "workspace_overflow", "the convolution's scratch has Hv Dv channels for C (in the backend)", "" },
	{ "missing_barrier", "a token's recurrence may begin before its convolution has ended (in the backend)", "flashinfer#3439" },
	{ "heads_rank_for_rank",
		"a rank takes a memory's heads from the rank of its number (in the backend)", "" },
	{ 0 }
};

static const char *injected;

bool executor_inject(const char *name)
{
	const struct executor_fault *f = executor_faults;

	while (name && f->name && strcmp(f->name, name)) f++;
	if (name && !f->name) return false;
	injected = name ? f->name : NULL;
	return true;
}

bool executor_fault_is(const char *name) { return injected && strcmp(injected, name) == 0; }

#else

const struct executor_fault executor_faults[] = {{ 0 }};

bool executor_inject(const char *name) { return !name; }

#endif
