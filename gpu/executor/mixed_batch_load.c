/* What a capture of mixed_batch holds, for its play: sizes, types and tables that fit together. */
#include "gpu/executor/mixed_batch_private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const table_names[TABLES] = { "steps", "cu_seqlens", "kinds", "read_slot", "write_slot", "position" };

static const struct tensor *need(const struct capture *c, const char *name, int rank, struct error *e)
{
	const struct tensor *t = capture_in(c, name);

	if (!t) error_set(e, E_MISSING, name, NO_OFFSET, "mixed_batch reads this input");
	else if (t->rank != rank) error_set(e, E_RANK, name, NO_OFFSET, "expected %d axes, got %d", rank, t->rank);
	else return t;
	return NULL;
}

void *mixed_batch_room(size_t n, size_t each, struct error *e)
{
	void *p = calloc(n ? n : 1, each);

	if (!p) error_set(e, E_MEMORY, "mixed_batch", NO_OFFSET, "%zu elements of %zu bytes", n, each);
	return p;
}

/* As doubles; the caller frees. */
static double *numbers(const struct tensor *t, struct error *e)
{
	double *list = mixed_batch_room(t->count, sizeof *list, e);

	if (list) dtype_load(t->dtype, t->data, t->count, list);
	return list;
}

static bool load_table(struct play *p, const struct capture *c, int which, struct error *e)
{
	const struct tensor *t = need(c, table_names[which], 1, e);

	if (!t) return false;
	if (t->dtype != DT_I32 && t->dtype != DT_I64)
		return error_set(e, E_DTYPE, t->name, NO_OFFSET, "expected I32 or I64, got %s", dtype_info[t->dtype].name);
	double *list = numbers(t, e);
	int32_t *to = p->table[which] = list ? mixed_batch_room(t->count, sizeof *to, e) : NULL;
	bool ok = to != NULL;

	p->length[which] = t->count;
	for (size_t i = 0; ok && i < t->count; i++) {
		ok = list[i] >= -1 && list[i] <= INT32_MAX;
		if (ok) to[i] = (int32_t)list[i];
		else error_set(e, E_VALUE, t->name, NO_OFFSET, "element %zu is %.0f", i, list[i]);
	}
	free(list);
	return ok;
}

static bool load_weight(float **to, const struct capture *c, const char *name, int rank, struct error *e)
{
	const struct tensor *t = need(c, name, rank, e);
	double *list = t ? numbers(t, e) : NULL;

	*to = list ? mixed_batch_room(t->count, sizeof **to, e) : NULL;
	for (size_t i = 0; *to && i < t->count; i++) (*to)[i] = (float)list[i];
	free(list);
	return *to != NULL;
}

/* Ascends from 0 to `end`, n >= 1 steps up. */
static bool check_cuts(const struct play *p, int which, size_t end, struct error *e)
{
	const int32_t *cuts = p->table[which];
	size_t n = p->length[which];

	if (n < 2 || cuts[0] != 0 || (size_t)cuts[n - 1] != end)
		return error_set(e, E_VALUE, table_names[which], NO_OFFSET, "must begin with 0 and end with %zu", end);
	for (size_t i = 1; i < n; i++)
		if (cuts[i] <= cuts[i - 1])
			return error_set(e, E_VALUE, table_names[which], NO_OFFSET, "does not ascend after element %zu", i - 1);
	return true;
}

static bool check_tables(const struct play *p, struct error *e)
{
	size_t R = p->length[KINDS], T = p->length[WRITE_SLOT];
	const int32_t *cu = p->table[CU_SEQLENS], slots = (int32_t)p->shape.slots;

	if (p->length[CU_SEQLENS] != R + 1 || p->length[READ_SLOT] != R || p->length[POSITION] != R || p->given[X]->shape[0] != T)
		return error_set(e, E_SHAPE, "kinds", NO_OFFSET, "%zu rows, %zu tokens; other tables disagree", R, T);
	if (!check_cuts(p, STEPS, R, e) || !check_cuts(p, CU_SEQLENS, T, e)) return false;
	for (size_t r = 0; r < R; r++) {
		int32_t kind = p->table[KINDS][r];
		bool one = cu[r + 1] - cu[r] == 1, single = kind == ROW_DECODE || kind == ROW_PADDING;

		if (kind < ROW_DECODE || kind > ROW_PADDING || (single && !one))
			return error_set(e, E_VALUE, "kinds", NO_OFFSET, "row %zu: kind %d, %d tokens", r, kind, cu[r + 1] - cu[r]);
		if (p->table[READ_SLOT][r] >= slots || p->table[POSITION][r] < 0)
			return error_set(e, E_VALUE, "read_slot", NO_OFFSET, "row %zu reads slot %d of %d at position %d", r,
			                 p->table[READ_SLOT][r], slots, p->table[POSITION][r]);
	}
	for (size_t t = 0; t < T; t++)
		if (p->table[WRITE_SLOT][t] >= slots)
			return error_set(e, E_VALUE, "write_slot", NO_OFFSET, "token %zu writes slot %d of %d", t, p->table[WRITE_SLOT][t], slots);
	return true;
}

static bool check_params(const struct capture *c, int Dk, struct error *e)
{
	double usual = 1 / sqrt(Dk), scale = capture_number(c, "scale", usual);
	const char *layout = capture_string(c, "conv_layout", "ring");

	if ((float)scale != (float)usual)
		return error_set(e, E_PARAM, "scale", NO_OFFSET, "%g; the executor scales by Dk^-1/2 = %g", scale, usual);
	if (strcmp(layout, "ring") != 0)
		return error_set(e, E_PARAM, "conv_layout", NO_OFFSET, "%s; the executor keeps rings", layout);
	return true;
}

/* From the shapes of state_pool [P,L,Hv,Dk,Dv], conv_pool [P,L,C,W] and the tables. */
static bool find_shape(struct play *p, const struct capture *c, struct error *e)
{
	const size_t *s = p->states->shape, *r = p->rings->shape;
	size_t values = s[2] * s[4], keys = r[2] > values ? r[2] - values : 0, Hk = keys / (2 * s[3]);

	for (int i = 0; i < 5; i++)
		if (s[i] < 1 || s[i] > INT32_MAX || (i < 4 && r[i] > INT32_MAX))
			return error_set(e, E_DIM, "state_pool", NO_OFFSET, "axis %d is %zu", i, s[i]);
	if (Hk < 1 || keys % (2 * s[3]) || s[2] % Hk)
		return error_set(e, E_DIM, "conv_pool", NO_OFFSET, "%zu channels do not hold q, k and %zu heads of v", r[2], s[2]);
	p->shape = (struct executor_shape){
		.layers = (int)s[1], .Hk = (int)Hk, .Hv = (int)s[2], .Dk = (int)s[3], .Dv = (int)s[4], .W = (int)r[3], .slots = s[0],
		.state = p->states->dtype, .data = p->given[X]->dtype, .l2_eps = (float)capture_number(c, "l2_eps", 1e-6),
		.norm_eps = (float)capture_number(c, "norm_eps", 1e-6)
	};
	return check_params(c, p->shape.Dk, e) && check_tables(p, e);
}

static bool check_counts(const struct play *p, const struct capture *c, struct error *e)
{
	const struct executor_shape *s = &p->shape;
	size_t L = (size_t)s->layers, Hv = (size_t)s->Hv, Dv = (size_t)s->Dv, C = executor_channels(s), TL = p->length[WRITE_SLOT] * L;
	const struct { const struct tensor *t; size_t count; } list[] = {
		{ p->given[X], TL * C }, { p->given[Z], TL * Hv * Dv }, { p->given[A], TL * Hv }, { p->given[B], TL * Hv },
		{ p->given[Y], TL * Hv * Dv }, { p->final_states, p->states->count }, { p->final_rings, p->rings->count },
		{ p->rings, s->slots * L * C * (size_t)s->W }, { capture_in(c, "conv_weight"), L * C * (size_t)s->W },
		{ capture_in(c, "A_log"), L * Hv }, { capture_in(c, "dt_bias"), L * Hv }, { capture_in(c, "norm_weight"), L * Dv }
	};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (list[i].t->count != list[i].count)
			return error_set(e, E_SHAPE, list[i].t->name, NO_OFFSET, "expected %zu elements, got %zu", list[i].count, list[i].t->count);
	return true;
}

/* All that goes through as it is has the type that the backend stores. */
static bool check_types(const struct play *p, struct error *e)
{
	const struct { const struct tensor *t; enum dtype want; } list[] = {
		{ p->given[Z], p->shape.data }, { p->given[A], p->shape.data }, { p->given[B], p->shape.data }, { p->given[Y], p->shape.data },
		{ p->rings, p->shape.data }, { p->final_rings, p->shape.data }, { p->final_states, p->shape.state }
	};

	for (size_t i = 0; i < sizeof list / sizeof *list; i++)
		if (list[i].t->dtype != list[i].want)
			return error_set(e, E_DTYPE, list[i].t->name, NO_OFFSET, "%s; x, z, a, b, y and conv_pool are stored alike, and"
			                 " state_pool as it was given", dtype_info[list[i].t->dtype].name);
	if (p->shape.data != DT_F32 && p->shape.data != DT_BF16)
		return error_set(e, E_DTYPE, "x", NO_OFFSET, "expected F32 or BF16, got %s", dtype_info[p->shape.data].name);
	if (p->shape.state != DT_F32 && p->shape.state != DT_BF16)
		return error_set(e, E_DTYPE, "state_pool", NO_OFFSET, "expected F32 or BF16, got %s", dtype_info[p->shape.state].name);
	return true;
}

static bool find_tensors(struct play *p, const struct capture *c, struct error *e)
{
	static const struct { const char *name; int rank; } list[Y] = { { "x", 3 }, { "z", 4 }, { "a", 3 }, { "b", 3 } };

	for (int i = 0; i < Y; i++)
		if (!(p->given[i] = need(c, list[i].name, list[i].rank, e))) return false;
	p->given[Y] = capture_out(c, "y");
	p->final_states = capture_out(c, "state_pool");
	p->final_rings = capture_out(c, "conv_pool");
	if (!p->given[Y] || !p->final_states || !p->final_rings)
		return error_set(e, E_MISSING, "y", NO_OFFSET, "the kernel of mixed_batch writes y, state_pool and conv_pool");
	return (p->states = need(c, "state_pool", 5, e)) && (p->rings = need(c, "conv_pool", 4, e));
}

bool mixed_batch_load(struct play *p, const struct capture *c, struct error *e)
{
	if (!find_tensors(p, c, e)) return false;
	for (int i = 0; i < TABLES; i++)
		if (!load_table(p, c, i, e)) return false;
	return find_shape(p, c, e) && load_weight(&p->weights.conv, c, "conv_weight", 3, e) &&
	       load_weight(&p->weights.A_log, c, "A_log", 2, e) && load_weight(&p->weights.dt_bias, c, "dt_bias", 2, e) &&
	       load_weight(&p->weights.norm, c, "norm_weight", 2, e) && check_types(p, e) && check_counts(p, c, e);
}
