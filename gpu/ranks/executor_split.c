/* Heads that are split over ranks. */
#include "executor_split.h"

#include <stdlib.h>
#include <string.h>

bool split_make(struct split *s, const struct executor_shape *whole, int ranks, struct error *e)
{
	int group = whole->Hv / whole->Hk, per = whole->Hv / ranks;

	*s = (struct split){ ranks, *whole, *whole };
	if (whole->Hv % ranks || (per % group && group % per))
		return error_set(e, E_DIM, "ranks", NO_OFFSET,
			"%d key and %d value heads over %d ranks", whole->Hk, whole->Hv, ranks);
	s->part.Hv = per;
	s->part.Hk = per > group ? per / group : 1;
	return true;
}

/* n bytes at `first` of all, at `at` of part. */
static void copy(void *all, size_t first, void *part, size_t at, size_t n, bool back)
{
	if (back) memcpy((char *)all + first, (char *)part + at, n);
	else memcpy((char *)part + at, (char *)all + first, n);
}

/* [n,Hv] of `size` bytes each. */
static void heads(
	const struct split *s, int r, size_t n, size_t size, void *all, void *part, bool back)
{
	size_t Hv = (size_t)s->whole.Hv, mine = (size_t)s->part.Hv;

	for (size_t i = 0; i < n; i++)
		copy(all, (i * Hv + (size_t)r * mine) * size, part, i * mine * size, mine * size,
			back);
}

/* [n,C] of `size` bytes each, in the order q, k, v. */
static void channels(
	const struct split *s, int r, size_t n, size_t size, void *all, void *part, bool back)
{
	size_t Dk = (size_t)s->whole.Dk, Dv = (size_t)s->whole.Dv, C = executor_channels(&s->whole),
	       own = executor_channels(&s->part);
	size_t keys = (size_t)s->whole.Hk * Dk, mine = (size_t)s->part.Hk * Dk,
	       values = (size_t)s->part.Hv * Dv;
	size_t key = (size_t)r * (size_t)s->part.Hv / (size_t)(s->whole.Hv / s->whole.Hk) * Dk;

	for (size_t i = 0; i < n; i++) {
		copy(all, (i * C + key) * size, part, i * own * size, mine * size, back);
		copy(all, (i * C + keys + key) * size, part, (i * own + mine) * size, mine * size,
			back);
		copy(all, (i * C + 2 * keys + (size_t)r * values) * size, part,
			(i * own + 2 * mine) * size, values * size, back);
	}
}

void split_memory(const struct split *s, int r, void *all, void *part, bool back)
{
	const struct executor_shape *w = &s->whole;
	size_t layers = (size_t)w->layers, ring = (size_t)w->W * dtype_info[w->data].size;

	heads(s, r, layers, (size_t)w->Dk * (size_t)w->Dv * dtype_info[w->state].size, all, part,
		back);
	channels(s, r, layers, ring, (char *)all + executor_state_bytes(w),
		(char *)part + executor_state_bytes(&s->part), back);
}

/* ---- weights ---- */

void split_weights_close(struct executor_weights *mine)
{
	free((void *)mine->conv);
	free((void *)mine->A_log);
	free((void *)mine->dt_bias);
}

bool split_weights(const struct split *s, int r, const struct executor_weights *all,
	struct executor_weights *mine, struct error *e)
{
	size_t layers = (size_t)s->whole.layers, n = layers * (size_t)s->part.Hv,
	       window = (size_t)s->whole.W * sizeof(float);
	float *conv = malloc(layers * executor_channels(&s->part) * window),
	      *A_log = malloc(n * sizeof *A_log), *bias = malloc(n * sizeof *bias);

	*mine = (struct executor_weights){ conv, A_log, bias, all->norm };
	if (!conv || !A_log || !bias) {
		split_weights_close(mine);
		return error_set(e, E_MEMORY, "executor", NO_OFFSET, "the weights of a rank");
	}
	channels(s, r, layers, window, (void *)(uintptr_t)all->conv, conv, false);
	heads(s, r, layers, sizeof(float), (void *)(uintptr_t)all->A_log, A_log, false);
	heads(s, r, layers, sizeof(float), (void *)(uintptr_t)all->dt_bias, bias, false);
	return true;
}

/* ---- steps ---- */

bool step_part_open(struct step_part *p, const struct executor_shape *s, struct error *e)
{
	size_t R = (size_t)s->max_rows, T = (size_t)s->max_tokens;

	p->table = malloc((5 * R + 1 + 2 * T) * sizeof *p->table);
	p->token = malloc(T * sizeof *p->token);
	return (p->table && p->token)
		|| error_set(e, E_MEMORY, "executor", NO_OFFSET,
			"tables of %zu rows and %zu tokens", R, T);
}

void step_part_close(struct step_part *p)
{
	free(p->table);
	free(p->token);
}

void step_part_take(struct step_part *p, const struct executor_step *of, bool prefill)
{
	int R = of->rows, rows = 0, tokens = 0, decode_rows = 0;
	int32_t *kinds = p->table, *read = kinds + R, *ring_read = read + R,
		*position = ring_read + R, *cuts = position + R;
	int32_t *write = cuts + R + 1, *ring_write = write + of->tokens;

	cuts[0] = 0;
	for (int r = 0; r < R; r++) {
		bool decodes = r < of->decode_rows;
		if ((!decodes && of->kinds[r] == ROW_PREFILL) != prefill) continue;
		for (int t = of->cu_seqlens[r]; t < of->cu_seqlens[r + 1]; t++, tokens++) {
			p->token[tokens] = t;
			write[tokens] = of->write_slot[t];
			ring_write[tokens] = of->ring_write[t];
		}
		kinds[rows] = of->kinds[r];
		read[rows] = of->read_slot[r];
		ring_read[rows] = of->ring_read[r];
		position[rows] = of->position[r];
		cuts[++rows] = tokens;
		decode_rows += decodes;
	}
	p->now = (struct executor_step){ rows, tokens, decode_rows, kinds, cuts, read, write,
		ring_read, ring_write, position };
}

/* ---- data ---- */

enum { X, Z, A, B, Y, ARRAYS };

void split_data_close(struct executor_data *mine)
{
	free((void *)mine->x);
	free((void *)mine->z);
	free((void *)mine->a);
	free((void *)mine->b);
	free(mine->y);
}

bool split_data_open(struct executor_data *mine, const struct executor_shape *s, struct error *e)
{
	size_t n = (size_t)s->max_tokens * (size_t)s->layers * dtype_info[s->data].size,
	       Hv = (size_t)s->Hv, values = Hv * (size_t)s->Dv;

	*mine = (struct executor_data){ malloc(n * executor_channels(s)), malloc(n * values),
		malloc(n * Hv), malloc(n * Hv), malloc(n * values) };
	return (mine->x && mine->z && mine->a && mine->b && mine->y)
		|| error_set(
			e, E_MEMORY, "executor", NO_OFFSET, "the data of %d tokens", s->max_tokens);
}

void split_data(const struct split *s, int r, const struct step_part *p,
	const struct executor_data *all, struct executor_data *mine, bool back)
{
	const void *const from[ARRAYS] = { all->x, all->z, all->a, all->b, all->y },
			  *const to[ARRAYS] = { mine->x, mine->z, mine->a, mine->b, mine->y };
	size_t layers = (size_t)s->whole.layers, size = dtype_info[s->whole.data].size,
	       Dv = (size_t)s->whole.Dv;

	for (int t = 0; t < p->now.tokens; t++)
		for (int i = back ? Y : X; i < ARRAYS; i++) {
			bool gates = i == A || i == B;
			size_t whole = i == X ? executor_channels(&s->whole)
					      : (size_t)s->whole.Hv * (gates ? 1 : Dv);
			size_t part = i == X ? executor_channels(&s->part)
					     : (size_t)s->part.Hv * (gates ? 1 : Dv);
			char *at = (char *)(uintptr_t)from[i]
				+ (size_t)p->token[t] * layers * whole * size;
			char *own = (char *)(uintptr_t)to[i] + (size_t)t * layers * part * size;
			if (i == X) channels(s, r, layers, size, at, own, back);
			else heads(s, r, layers, (gates ? 1 : Dv) * size, at, own, back);
		}
}
