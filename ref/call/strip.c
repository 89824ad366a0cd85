/* A call cut into strips, and what a piece that is cut carries over from one to the next. */
#include <stdlib.h>
#include <string.h>

#include "ref/arith/calc_private.h"
#include "op.h"

static span same(const struct call *call, span along) { (void)call; return along; }
static span row(const struct call *call, int out, span along) { (void)call; (void)out; return along; }
static size_t nothing(const struct call *call) { (void)call; return 0; }
const struct cut cut_rows = { same, row, nothing };

size_t call_strips(const struct call *call, size_t whole, size_t most)
{
	size_t n = 0, least = call->op->cut ? 2 * call->op->cut->carried(call) : SIZE_MAX;

	for (int i = 0; i < MAX_OUT; i++) n += call->out_count[i];
	if (n <= whole || n <= least) return 1;
	n /= most > least ? most : least;
	return n < 1 ? 1 : n < call->dim[0] ? n : call->dim[0];
}

struct strip call_strip(const struct call *call, size_t i, size_t n)
{
	size_t T = call->dim[0], most = T / n, more = T % n;    /* the first `more` strips have one more */
	struct strip s = { .along = { i * most + (i < more ? i : more), (i + 1) * most + (i + 1 < more ? i + 1 : more) } };

	for (int o = 0; o < MAX_OUT; o++) {
		size_t shape[MAX_RANK];
		if (!call->out_count[o]) continue;
		call_out_shape(call, o, shape);
		span rows = call->op->cut ? call->op->cut->rows(call, o, s.along) : (span){ 0, shape[0] };
		s.first[o] = rows.first * (call->out_count[o] / shape[0]);
		s.count[o] = (rows.last - rows.first) * (call->out_count[o] / shape[0]);
	}
	return s;
}

void call_room(const struct call *call, size_t first, size_t end, size_t n, size_t room[MAX_OUT])
{
	memset(room, 0, MAX_OUT * sizeof *room);
	for (size_t s = first; s < end; s++) {
		const struct strip strip = call_strip(call, s, n);
		for (int i = 0; i < MAX_OUT; i++) room[i] = strip.count[i] > room[i] ? strip.count[i] : room[i];
	}
}

span c_strip(const calc *c) { return c->strip->along; }

/* A vector's bytes, then, where they lie apart, those of its low parts. */
static size_t bytes_of(const calc *c, vec x) { return x.n * c->element; }

bool c_resume(calc *c, vec x, size_t *at)
{
	const struct carried_state *h = c->from;
	size_t n = bytes_of(c, x);

	if (!h || !h->kept || c->piece < h->pieces.first || c->piece >= h->pieces.last) return false;
	const struct kept *k = &h->kept[c->piece - h->pieces.first];
	if (!k->bytes) return false;
	memcpy(x.at, k->bytes, n);
	if (c->arith->split) memcpy(calc_low(c, x.at), k->bytes + n, n);
	if (c->arith->moved) c->arith->moved(c, x.at, x.n);
	*at = k->at;
	c->noise = k->noise;
	return true;
}

void c_suspend(calc *c, vec x, size_t at)
{
	struct kept *k = &c->to->kept[c->piece - c->to->pieces.first];
	size_t n = bytes_of(c, x);

	if (!k->bytes) k->bytes = malloc(2 * n);
	if (!k->bytes) longjmp(c->no_memory, 1);
	memcpy(k->bytes, x.at, n);
	if (c->arith->split) memcpy(k->bytes + n, calc_low(c, x.at), n);
	k->at = at;
	k->noise = c->noise;
}
