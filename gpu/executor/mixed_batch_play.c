/* Plays a capture of mixed_batch on a backend: the pools are filled, the steps run, the pools are read. */
#include "gpu/executor/mixed_batch_private.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/host/backend.h"

/* ---- a step ---- */

static size_t bytes_per_token(const struct tensor *t)
{
	return t->shape[0] ? t->count / t->shape[0] * dtype_info[t->dtype].size : 0;
}

/* Tokens [from, from+n) of the capture and [at, at+n) of the step: to the step, or y back. */
static void move_tokens(struct play *p, size_t from, size_t at, size_t n, bool back)
{
	for (int i = 0; i < TOKEN_DATA; i++) {
		size_t each = bytes_per_token(p->given[i]);
		char *whole = (char *)p->given[i]->data + from * each, *part = p->part[i] + at * each;

		if (back && i == Y) memcpy(whole, part, n * each);
		if (!back) memcpy(part, whole, n * each);
	}
}

/* Rows [first, last) of the capture, decode and padding before the others; back: y of the step to the capture. */
static struct executor_step gather(struct play *p, int first, int last, bool back)
{
	int R = p->shape.max_rows;
	int32_t *kinds = p->lists, *read = kinds + R, *position = read + R, *cu = position + R, *write = cu + R + 1;
	struct executor_step s = {
		.kinds = kinds, .cu_seqlens = cu, .read_slot = read, .write_slot = write, .ring_read = read, .ring_write = write,
		.position = position
	};

	cu[0] = 0;
	for (int decoding = 1; decoding >= 0; decoding--) {
		for (int r = first; r < last; r++) {
			int32_t kind = p->table[KINDS][r], from = p->table[CU_SEQLENS][r], n = p->table[CU_SEQLENS][r + 1] - from;

			if ((kind == ROW_DECODE || kind == ROW_PADDING) != decoding) continue;
			kinds[s.rows] = kind;
			read[s.rows] = p->table[READ_SLOT][r];
			position[s.rows] = p->table[POSITION][r];
			memcpy(write + s.tokens, p->table[WRITE_SLOT] + from, (size_t)n * sizeof *write);
			move_tokens(p, (size_t)from, (size_t)s.tokens, (size_t)n, back);
			s.tokens += n;
			cu[++s.rows] = s.tokens;
		}
		if (decoding) s.decode_rows = s.rows;
	}
	return s;
}

static bool run_step(struct play *p, int first, int last, struct error *e)
{
	struct executor_step s = gather(p, first, last, false);
	struct executor_data data = { p->part[X], p->part[Z], p->part[A], p->part[B], p->part[Y] };

	if (!p->backend->run(p->pools, &s, &data, p->replay, e)) return false;
	gather(p, first, last, true);
	return true;
}

/* ---- the whole ---- */

/* Room for the widest step. */
static bool make_room(struct play *p, struct error *e)
{
	const int32_t *steps = p->table[STEPS], *cu = p->table[CU_SEQLENS];

	for (size_t k = 0; k + 1 < p->length[STEPS]; k++) {
		int rows = steps[k + 1] - steps[k], tokens = cu[steps[k + 1]] - cu[steps[k]];

		if (rows > p->shape.max_rows) p->shape.max_rows = rows;
		if (tokens > p->shape.max_tokens) p->shape.max_tokens = tokens;
	}
	size_t R = (size_t)p->shape.max_rows, T = (size_t)p->shape.max_tokens;
	for (int i = 0; i < TOKEN_DATA; i++)
		if (!(p->part[i] = mixed_batch_room(T, bytes_per_token(p->given[i]), e))) return false;
	return (p->lists = mixed_batch_room(4 * R + 1 + T, sizeof *p->lists, e)) != NULL;
}

/* Every slot, to the backend's pools or from them. */
static bool move_pools(struct play *p, bool up, struct error *e)
{
	size_t state = executor_state_bytes(&p->shape), ring = executor_ring_bytes(&p->shape);

	for (size_t i = 0; i < p->shape.slots; i++)
		if (!(up ? p->backend->write(p->pools, i, (char *)p->states->data + i * state, (char *)p->rings->data + i * ring, e)
		         : p->backend->read(p->pools, i, (char *)p->final_states->data + i * state,
		                            (char *)p->final_rings->data + i * ring, e)))
			return false;
	return true;
}

static bool play(struct play *p, struct capture *c, struct error *e)
{
	if (!mixed_batch_load(p, c, e) || !make_room(p, e)) return false;
	struct executor_weights w = { p->weights.conv, p->weights.A_log, p->weights.dt_bias, p->weights.norm };

	if (!(p->pools = p->backend->open(&p->shape, &w, e)) || !move_pools(p, true, e)) return false;
	memset(p->given[Y]->data, 0, p->given[Y]->bytes);
	for (size_t k = 0; k + 1 < p->length[STEPS]; k++)
		if (!run_step(p, p->table[STEPS][k], p->table[STEPS][k + 1], e)) return false;
	return p->backend->guards(p->pools, e) && move_pools(p, false, e);
}

bool mixed_batch_play(const struct executor_backend *backend, bool replay, struct capture *c, struct error *e)
{
	struct play p = { .backend = backend, .replay = replay };
	bool ok = play(&p, c, e);

	backend->close(p.pools);
	for (int i = 0; i < TABLES; i++) free(p.table[i]);
	for (int i = 0; i < TOKEN_DATA; i++) free(p.part[i]);
	free(p.lists);
	free(p.weights.conv);
	free(p.weights.A_log);
	free(p.weights.dt_bias);
	free(p.weights.norm);
	return ok;
}

bool mixed_batch_cpu(struct capture *c, struct error *e)
{
	if (strcmp(c->op, "mixed_batch") != 0)
		return error_set(e, E_OP, c->op, NO_OFFSET, "the backend cpu knows mixed_batch only");
	return mixed_batch_play(&executor_cpu, false, c, e) && backend_stamp(c, "etalon mixed_batch, plain C", "CPU", NULL, e);
}
