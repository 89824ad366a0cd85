/* Faults of a step's tables, one function each. */
#ifdef ETALON_FAULTS
#include "gpu/executor/executor_faults_private.h"

/* The next decode row, the first after the last; row itself where it is the only one. */
static int next_decode(const struct executor_step *s, int row)
{
	do row = (row + 1) % s->decode_rows;
	while (s->kinds[row] != ROW_DECODE);
	return row;
}

static bool not_padding(const struct executor_step *s, int row) { return s->kinds[row] != ROW_PADDING; }

static bool decodes_or_slot_not_0(const struct executor_step *s, int row)
{
	return row < s->decode_rows || row_writes(s, row) != 0;
}


/* The backend is handed these rows only. */
static void keep_rows(struct faults *f, const struct executor_step *planned, bool keep(const struct executor_step *, int))
{
	struct tables *t = &f->tables;
	int rows = 0, tokens = 0;

	for (int r = 0; r < planned->rows; r++) {
		if (!keep(planned, r)) continue;
		t->kinds[rows] = t->kinds[r];
		t->position[rows] = planned->position[r];
		read_from(f, rows, t->read_slot[r]);
		for (int i = planned->cu_seqlens[r]; i < planned->cu_seqlens[r + 1]; i++) {
			f->token[tokens] = i;
			write_to(f, tokens++, t->write_slot[i]);
		}
		t->cu_seqlens[++rows] = tokens;
	}
	f->step.rows = rows;
	f->step.tokens = f->tokens = tokens;
}

static void all_tokens_use_first_slot(struct faults *f, const struct executor_step *planned)
{
	int row = 0;

	while (!not_padding(planned, row)) row++;
	keep_rows(f, planned, not_padding);
	f->step.rows = 1;
	f->step.decode_rows = 0;
	f->tables.kinds[0] = ROW_PREFILL;
	f->tables.cu_seqlens[1] = f->tokens;
	for (int t = 0; t < f->tokens; t++) write_to(f, t, t == f->tokens - 1 ? row_writes(planned, row) : NOWHERE);
}

static void prefill_overwrites_decode_slot(struct faults *f, const struct executor_step *s)
{
	if (s->decode_rows == 0 || s->kinds[0] != ROW_DECODE) return;
	for (int r = s->decode_rows; r < s->rows; r++)
		if (s->kinds[r] == ROW_PREFILL) write_to(f, last_token(s, r), s->write_slot[0]);
}

static void read_slot_is_not_write_slot(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->decode_rows; r++)
		if (s->kinds[r] == ROW_DECODE) write_to(f, r, s->write_slot[next_decode(s, r)]);
}

static void pad_minus_one_hits_slot_zero(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->decode_rows; r++) {
		if (s->kinds[r] != ROW_PADDING) continue;
		f->tables.kinds[r] = ROW_DECODE;
		read_from(f, r, 0);
		write_to(f, r, 0);
	}
}

static void slot_zero_means_pad(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->decode_rows; r++) {
		if (s->write_slot[r] != 0) continue;
		f->tables.kinds[r] = ROW_PADDING;
		read_from(f, r, NOWHERE);
		write_to(f, r, NOWHERE);
	}
	keep_rows(f, s, decodes_or_slot_not_0);
}

/* A fresh row's own slot, before it writes there. */
static void read_own(struct faults *f, const struct executor_step *s, int r)
{
	if (s->kinds[r] == ROW_PADDING || s->read_slot[r] != NOWHERE) return;
	read_from(f, r, s->kinds[r] == ROW_SPECULATIVE ? s->write_slot[s->cu_seqlens[r]] : row_writes(s, r));
}

static void slot_not_zeroed_on_reuse(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->rows; r++) read_own(f, s, r);
}

static void one_token_prefill_taken_for_decode(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->rows; r++)
		if (s->kinds[r] == ROW_PREFILL && s->cu_seqlens[r + 1] - s->cu_seqlens[r] == 1) read_own(f, s, r);
}

static void state_written_to_a_copy(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->decode_rows; r++) write_to(f, r, NOWHERE);
}

static void conv_and_state_slots_differ(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->decode_rows; r++) {
		if (s->kinds[r] != ROW_DECODE) continue;
		f->tables.ring_read[r] = s->read_slot[next_decode(s, r)];
		f->tables.ring_write[r] = s->write_slot[next_decode(s, r)];
	}
}

/* Who should copy on write does not: the slot that it should write to has its home where it read. */
static void checkpoint_shared_not_copied(struct faults *f, const struct executor_step *s)
{
	for (int r = 0; r < s->rows; r++) {
		int32_t read = s->read_slot[r], to = row_writes(s, r);

		if (read != NOWHERE) read_from(f, r, f->home[read]);
		if (s->kinds[r] == ROW_SPECULATIVE) {
			for (int t = s->cu_seqlens[r]; t <= last_token(s, r); t++) f->home[s->write_slot[t]] = s->write_slot[t];
		} else if (to != NOWHERE) {
			f->home[to] = read == NOWHERE ? to : f->home[read];
			write_to(f, last_token(s, r), f->home[to]);
		}
	}
}

static const struct { const char *fault; void (*corrupt)(struct faults *, const struct executor_step *); } corruptions[] = {
	{ "all_tokens_use_first_slot", all_tokens_use_first_slot },
	{ "prefill_overwrites_decode_slot", prefill_overwrites_decode_slot },
	{ "read_slot_is_not_write_slot", read_slot_is_not_write_slot },
	{ "pad_minus_one_hits_slot_zero", pad_minus_one_hits_slot_zero },
	{ "slot_zero_means_pad", slot_zero_means_pad },
	{ "slot_not_zeroed_on_reuse", slot_not_zeroed_on_reuse },
	{ "one_token_prefill_taken_for_decode", one_token_prefill_taken_for_decode },
	{ "state_written_to_a_copy", state_written_to_a_copy },
	{ "conv_and_state_slots_differ", conv_and_state_slots_differ },
	{ "checkpoint_shared_not_copied", checkpoint_shared_not_copied },
};

void faults_corrupt(struct faults *f, const struct executor_step *planned)
{
	for (size_t i = 0; i < sizeof corruptions / sizeof *corruptions; i++)
		if (executor_fault_is(corruptions[i].fault)) corruptions[i].corrupt(f, planned);
}

#endif
