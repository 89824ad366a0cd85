/* Plans and runs a step: which slot each row reads and which its tokens write. A plan takes nothing: its fresh slots stay
 * on the stack, and all requests what they are, until the step has run. */
#include "gpu/executor/executor_private.h"

#include <limits.h>

struct demand { int decode, padding, rows, tokens; size_t fresh; };

static bool decodes(const struct request *r, const struct executor_work *w)
{
	return r->slot != NOWHERE && w->tokens == 1 && !w->speculative;
}

/* A request writes in place where nobody else needs its slot. */
static bool in_place(const struct executor *x, const struct request *r)
{
	return r->slot != NOWHERE && x->holders[r->slot] == 1;
}

static bool check_work(struct executor *x, const struct executor_work *w, struct error *e)
{
	struct request *r = request_of(x, w->request, e);

	if (!r) return false;
	if (r->plan == x->plans)
		return error_set(e, E_DUPLICATE, "work", NO_OFFSET, "request %d stands twice in a step", w->request);
	if (r->drafts)
		return error_set(e, E_VALUE, "work", NO_OFFSET, "the speculation of request %d is open", w->request);
	if (w->tokens < 1)
		return error_set(e, E_EMPTY, "work", NO_OFFSET, "request %d has %d tokens", w->request, w->tokens);
	if (w->tokens > INT32_MAX - r->position)
		return error_set(e, E_VALUE, "work", NO_OFFSET, "request %d would pass position 2^31 - 1", w->request);
	r->plan = x->plans;
	return true;
}

static bool check_all(struct executor *x, const struct executor_work *work, int n, int decode_rows, struct demand *d,
                      struct error *e)
{
	const struct executor_shape *s = &x->shape;

	if (n < 1) return error_set(e, E_EMPTY, "work", NO_OFFSET, "a step of %d pieces", n);
	if (n > s->max_rows) return error_set(e, E_DIM, "work", NO_OFFSET, "%d rows, at most %d", n, s->max_rows);
	for (int i = 0; i < n; i++) {
		const struct executor_work *w = &work[i];

		if (!check_work(x, w, e)) return false;
		const struct request *r = &x->request[w->request];
		if (w->tokens > s->max_tokens - d->tokens)
			return error_set(e, E_DIM, "work", NO_OFFSET, "more than %d tokens", s->max_tokens);
		d->tokens += w->tokens;
		d->decode += decodes(r, w);
		d->fresh += w->speculative ? (size_t)w->tokens : !in_place(x, r);
	}
	if (decode_rows && decode_rows < d->decode)
		return error_set(e, E_VALUE, "decode_rows", NO_OFFSET, "expected 0, or at least %d, got %d", d->decode, decode_rows);
	d->padding = decode_rows ? decode_rows - d->decode : 0;
	if (d->padding > s->max_rows - n || d->padding > s->max_tokens - d->tokens)
		return error_set(e, E_DIM, "decode_rows", NO_OFFSET, "%d rows and %d tokens of padding do not fit into %d and %d",
		                 d->padding, d->padding, s->max_rows - n, s->max_tokens - d->tokens);
	if (d->fresh > x->n_free)
		return error_set(e, E_MEMORY, "slots", NO_OFFSET, "the step needs %zu more, %zu are free", d->fresh, x->n_free);
	return true;
}

static int32_t next_fresh(struct executor *x) { return x->free[x->n_free - ++x->fresh]; }

/* The next row of the step; w NULL: padding. */
static void put_row(struct executor *x, const struct executor_work *w)
{
	struct executor_step *s = &x->step;
	struct tables *t = &x->tables;
	const struct request *r = w ? &x->request[w->request] : NULL;
	int row = s->rows++, tokens = w ? w->tokens : 1;

	x->row_request[row] = w ? w->request : NOWHERE;
	t->kinds[row] = !w ? ROW_PADDING : w->speculative ? ROW_SPECULATIVE : decodes(r, w) ? ROW_DECODE : ROW_PREFILL;
	t->read_slot[row] = r ? r->slot : NOWHERE;
	t->position[row] = r ? r->position : 0;
	for (int i = 0; i < tokens; i++) {
		bool writes = w && (w->speculative || i == tokens - 1);

		t->write_slot[s->tokens++] = !writes ? NOWHERE : !w->speculative && in_place(x, r) ? r->slot : next_fresh(x);
	}
	t->cu_seqlens[row + 1] = s->tokens;
}

bool executor_plan(struct executor *x, const struct executor_work *work, int n, int decode_rows, struct executor_step *step,
                   int *order, struct error *e)
{
	const struct tables *t = &x->tables;
	struct demand d = { 0 };

	x->planned = false;
	x->plans++;
	if (!check_all(x, work, n, decode_rows, &d, e)) return false;
	x->step = (struct executor_step){
		.decode_rows = d.decode + d.padding, .kinds = t->kinds, .cu_seqlens = t->cu_seqlens, .read_slot = t->read_slot,
		.write_slot = t->write_slot, .ring_read = t->read_slot, .ring_write = t->write_slot, .position = t->position
	};
	x->fresh = 0;
	for (int decoding = 1; decoding >= 0; decoding--) {
		for (int i = 0; i < n; i++)
			if (decodes(&x->request[work[i].request], &work[i]) == decoding) {
				order[x->step.rows] = i;
				put_row(x, &work[i]);
			}
		for (int i = 0; decoding && i < d.padding; i++) {
			order[x->step.rows] = -1;
			put_row(x, NULL);
		}
	}
	x->planned = true;
	*step = x->step;
	return true;
}

/* The step has run: row's request moves on. */
static void move_on(struct executor *x, int row)
{
	struct request *r = &x->request[x->row_request[row]];
	const int32_t *write = &x->tables.write_slot[x->tables.cu_seqlens[row]];
	int tokens = x->tables.cu_seqlens[row + 1] - x->tables.cu_seqlens[row];
	int32_t before = r->slot;

	if (x->tables.kinds[row] == ROW_SPECULATIVE) {
		r->drafts = tokens;
		r->first_draft = write[0];
		for (int i = 0; i < tokens; i++) {
			x->holders[write[i]] = 1;
			x->next_draft[write[i]] = i + 1 < tokens ? write[i + 1] : NOWHERE;
		}
		return;
	}
	r->position += tokens;
	r->slot = write[tokens - 1];
	if (r->slot == before) return;
	x->holders[r->slot] = 1;
	slot_drop(x, before);
}

bool executor_run(struct executor *x, const struct executor_data *data, bool replay, struct error *e)
{
	if (!x->planned) return error_set(e, E_USAGE, "step", NO_OFFSET, "none is planned, or requests changed since it was");
	x->planned = false;
#ifdef ETALON_FAULTS
	if (!faults_run(x, data, replay, e)) return false;
#else
	if (!x->backend->run(x->pools, &x->step, data, replay, e)) return false;
#endif
	x->n_free -= x->fresh;
	for (int row = 0; row < x->step.rows; row++)
		if (x->row_request[row] != NOWHERE) move_on(x, row);
	return true;
}
