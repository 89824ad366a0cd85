/* What people got wrong with slots: what each fault makes of the tables; see docs/ops/mixed_batch.md. */
#include "mixed_batch.h"

static struct row *rows_of(const struct tables *t, size_t k, struct row **end)
{
	*end = t->row + t->step[k + 1];
	return t->row + t->step[k];
}

#define EACH_STEP(t, k) for (size_t k = 0; k < (t)->steps; k++)
#define EACH_ROW_OF(t, k, r) for (struct row *end_, *r = rows_of(t, k, &end_); r < end_; r++)
#define EACH_ROW(t, r) for (struct row *r = (t)->row; r < (t)->row + (t)->rows; r++)

static void read_from(struct row *r, int64_t slot) { r->read = r->read_inputs = slot; }
static void write_to(struct tables *t, size_t token, int64_t slot) { t->write[token] = t->write_inputs[token] = slot; }
static int64_t last_write(const struct tables *t, const struct row *r) { return t->write[r->last - 1]; }

/* The decode row after r in step k, the first after the last. */
static const struct row *next_decode(const struct tables *t, size_t k, const struct row *r)
{
	size_t n = t->step[k + 1] - t->step[k], at = (size_t)(r - t->row) - t->step[k];

	do at = (at + 1) % n;
	while (t->row[t->step[k] + at].kind != DECODE);
	return &t->row[t->step[k] + at];
}

static void all_tokens_use_first_slot(calc *c, struct tables *t)
{
	(void)c;
	EACH_STEP(t, k) {
		const struct row *before = NULL;
		int64_t slot = -1;
		EACH_ROW_OF(t, k, r) {
			if (r->kind == PADDING) continue;
			r->goes_on = before;
			if (before) r->position = before->position + (int64_t)(before->last - before->first);
			else slot = last_write(t, r);
			for (size_t i = r->first; i < r->last; i++) write_to(t, i, -1);
			before = r;
		}
		if (before) write_to(t, before->last - 1, slot);
	}
}

static void prefill_overwrites_decode_slot(calc *c, struct tables *t)
{
	(void)c;
	EACH_STEP(t, k) {
		const struct row *first = NULL;
		EACH_ROW_OF(t, k, r)
			if (!first && r->kind == DECODE) first = r;
		EACH_ROW_OF(t, k, r)
			if (first && r->kind == PREFILL) write_to(t, r->last - 1, last_write(t, first));
	}
}

static void read_slot_is_not_write_slot(calc *c, struct tables *t)
{
	int64_t *next = c_bytes(c, t->tokens * sizeof *next);

	EACH_STEP(t, k) {
		EACH_ROW_OF(t, k, r)
			if (r->kind == DECODE) next[r->first] = last_write(t, next_decode(t, k, r));
		EACH_ROW_OF(t, k, r)
			if (r->kind == DECODE) write_to(t, r->first, next[r->first]);
	}
}

static void pad_minus_one_hits_slot_zero(calc *c, struct tables *t)
{
	(void)c;
	EACH_ROW(t, r) {
		if (r->kind != PADDING) continue;
		r->kind = DECODE;
		read_from(r, 0);
		write_to(t, r->first, 0);
	}
}

static void slot_zero_means_pad(calc *c, struct tables *t)
{
	(void)c;
	EACH_ROW(t, r)
		if (last_write(t, r) == 0) r->kind = PADDING;
}

static void fresh_reads(struct tables *t, bool one_token_only)
{
	EACH_ROW(t, r) {
		if (r->kind == PADDING || r->read >= 0) continue;
		if (one_token_only && (r->kind != PREFILL || r->last - r->first != 1)) continue;
		read_from(r, r->kind == SPECULATIVE ? t->write[r->first] : last_write(t, r));
	}
}

static void slot_not_zeroed_on_reuse(calc *c, struct tables *t) { (void)c; fresh_reads(t, false); }
static void one_token_prefill_taken_for_decode(calc *c, struct tables *t) { (void)c; fresh_reads(t, true); }

static void state_written_to_a_copy(calc *c, struct tables *t)
{
	(void)c;
	EACH_ROW(t, r)
		if (r->kind == DECODE) write_to(t, r->first, -1);
}

/* Row i of the decode part of step k, or NULL. */
static struct row *decode_part(const struct tables *t, size_t k, size_t i)
{
	EACH_ROW_OF(t, k, r)
		if ((r->kind == DECODE || r->kind == PADDING) && !i--) return r;
	return NULL;
}

static size_t decode_rows(const struct tables *t, size_t k)
{
	size_t n = 0;

	EACH_ROW_OF(t, k, r) n += r->kind == DECODE || r->kind == PADDING;
	return n;
}

static void stale_slot_table_in_graph(calc *c, struct tables *t)
{
	(void)c;
	EACH_STEP(t, k) {
		size_t n = decode_rows(t, k), captured = 0;
		while (decode_rows(t, captured) != n) captured++;
		for (size_t i = 0; i < n; i++) {
			const struct row *old = decode_part(t, captured, i);
			struct row *r = decode_part(t, k, i);
			read_from(r, old->read);
			write_to(t, r->first, t->write[old->first]);
		}
	}
}

static void checkpoint_shared_not_copied(calc *c, struct tables *t)
{
	int64_t *led = c_bytes(c, t->slots * sizeof *led);      /* where the memory meant for a slot is */

	for (size_t s = 0; s < t->slots; s++) led[s] = (int64_t)s;
	EACH_ROW(t, r) {
		int64_t read = r->read, write = last_write(t, r);
		if (read >= 0) read_from(r, led[read]);
		for (size_t i = r->first; i < r->last && r->kind == SPECULATIVE; i++)
			if (t->write[i] >= 0) led[t->write[i]] = t->write[i];
		if (r->kind == SPECULATIVE || write < 0) continue;
		if (read < 0) led[write] = write;
		else if (read != write) led[write] = led[read];
		write_to(t, r->last - 1, led[write]);
	}
}

static bool writes(const struct tables *t, const struct row *r, int64_t slot)
{
	for (size_t i = r->first; i < r->last; i++)
		if (t->write[i] == slot) return true;
	return false;
}

/* The slot of the draft token of r that a later row goes on from; -1: none stands. */
static int64_t standing(const struct tables *t, const struct row *r)
{
	for (size_t i = r->first; i < r->last; i++)
		for (const struct row *s = r + 1; t->write[i] >= 0 && s < t->row + t->rows; s++) {
			if (s->read == t->write[i]) return s->read;
			if (writes(t, s, t->write[i])) break;
		}
	return -1;
}

static void checkpoint_at_wrong_boundary(calc *c, struct tables *t)
{
	int64_t *later = c_bytes(c, t->slots * sizeof *later);  /* 1 + the slot of the memory one step later; 0: none */

	EACH_ROW(t, r) {
		int64_t read = r->read, write = r->kind == SPECULATIVE ? standing(t, r) : last_write(t, r);
		if (read >= 0 && later[read]) read_from(r, later[read] - 1);
		else if (read >= 0 && write >= 0) later[read] = 1 + write;
		for (size_t i = r->first; i < r->last; i++)
			if (t->write[i] >= 0) later[t->write[i]] = 0;
	}
}

static void accepted_row_off_by_one(calc *c, struct tables *t)
{
	int64_t *next = c_bytes(c, t->slots * sizeof *next);    /* 1 + the slot of the next draft token; 0: none */
	int64_t *first = c_bytes(c, t->slots * sizeof *first);  /* the same of the first one, where none stood; told once */

	EACH_ROW(t, r) {
		int64_t read = r->read, drafted = read < 0 ? 0 : first[read] ? first[read] : next[read];
		if (drafted) read_from(r, drafted - 1);
		if (read >= 0) first[read] = r->kind == SPECULATIVE && standing(t, r) < 0 ? 1 + t->write[r->first] : 0;
		for (size_t i = r->first; i < r->last; i++) {
			bool drafts = r->kind == SPECULATIVE && i + 1 < r->last;
			if (t->write[i] < 0) continue;
			next[t->write[i]] = drafts ? 1 + t->write[i + 1] : 0;
			first[t->write[i]] = 0;
		}
	}
}

static void conv_and_state_slots_differ(calc *c, struct tables *t)
{
	(void)c;
	EACH_STEP(t, k)
		EACH_ROW_OF(t, k, r) {
			if (r->kind != DECODE) continue;
			const struct row *next = next_decode(t, k, r);
			r->read_inputs = next->read;
			t->write_inputs[r->first] = last_write(t, next);
		}
}

static void (*const turns[])(calc *c, struct tables *t) = {
	[ALL_TOKENS_USE_FIRST_SLOT] = all_tokens_use_first_slot,
	[PREFILL_OVERWRITES_DECODE_SLOT] = prefill_overwrites_decode_slot,
	[READ_SLOT_IS_NOT_WRITE_SLOT] = read_slot_is_not_write_slot,
	[PAD_MINUS_ONE_HITS_SLOT_ZERO] = pad_minus_one_hits_slot_zero,
	[SLOT_ZERO_MEANS_PAD] = slot_zero_means_pad,
	[SLOT_NOT_ZEROED_ON_REUSE] = slot_not_zeroed_on_reuse,
	[ONE_TOKEN_PREFILL_TAKEN_FOR_DECODE] = one_token_prefill_taken_for_decode,
	[STATE_WRITTEN_TO_A_COPY] = state_written_to_a_copy,
	[STALE_SLOT_TABLE_IN_GRAPH] = stale_slot_table_in_graph,
	[CHECKPOINT_SHARED_NOT_COPIED] = checkpoint_shared_not_copied,
	[CHECKPOINT_AT_WRONG_BOUNDARY] = checkpoint_at_wrong_boundary,
	[ACCEPTED_ROW_OFF_BY_ONE] = accepted_row_off_by_one,
	[CONV_AND_STATE_SLOTS_DIFFER] = conv_and_state_slots_differ,
};

void mixed_faults(calc *c, struct tables *t)
{
	for (size_t i = 0; i < sizeof turns / sizeof *turns; i++)
		if (c_fault(c, (int)i)) turns[i](c, t);
}

#define TABLES(name, what, seen) { name, what, seen, 0, 0, 0, 0 }
const struct fault_spec mixed_fault_specs[] = {
	[ALL_TOKENS_USE_FIRST_SLOT] = TABLES("all_tokens_use_first_slot",
		"a step's rows run as one sequence, from and to the first row's slot", ""),
	[PREFILL_OVERWRITES_DECODE_SLOT] = TABLES("prefill_overwrites_decode_slot",
		"a prefill's memory goes to the slot of its step's first decode row", ""),
	[READ_SLOT_IS_NOT_WRITE_SLOT] = TABLES("read_slot_is_not_write_slot",
		"a decode row's memory goes to the next decode row's slot", ""),
	[PAD_MINUS_ONE_HITS_SLOT_ZERO] = TABLES("pad_minus_one_hits_slot_zero",
		"padding rows decode, from and to slot 0", "tokenspeed#700"),
	[SLOT_ZERO_MEANS_PAD] = TABLES("slot_zero_means_pad",
		"rows that write slot 0 are taken for padding", "vLLM-2080Ti#93"),
	[SLOT_NOT_ZEROED_ON_REUSE] = TABLES("slot_not_zeroed_on_reuse",
		"a fresh request starts from what its slot held", ""),
	[ONE_TOKEN_PREFILL_TAKEN_FOR_DECODE] = TABLES("one_token_prefill_taken_for_decode",
		"a fresh request of one token starts from what its slot held", "vllm#32118"),
	[STATE_WRITTEN_TO_A_COPY] = TABLES("state_written_to_a_copy",
		"a decode row's memory goes nowhere", "flashinfer#3490"),
	[STALE_SLOT_TABLE_IN_GRAPH] = TABLES("stale_slot_table_in_graph",
		"decode rows use the slots of the first step with as many, padding included", ""),
	[CHECKPOINT_SHARED_NOT_COPIED] = TABLES("checkpoint_shared_not_copied",
		"who reads a shared slot writes it too", ""),
	[CHECKPOINT_AT_WRONG_BOUNDARY] = TABLES("checkpoint_at_wrong_boundary",
		"a checkpoint is read as it was a step later", "sglang#37836"),
	[ACCEPTED_ROW_OFF_BY_ONE] = TABLES("accepted_row_off_by_one",
		"after a speculation the memory of one draft token too many", "vllm#40738"),
	[CONV_AND_STATE_SLOTS_DIFFER] = TABLES("conv_and_state_slots_differ",
		"a decode row's convolution uses the next decode row's slot", ""),
	{ 0 }
};
