/* All pieces of a derivative. Where several add to the same element, as rows do to the gradient of a weight, each of at most BLOCKS runs of
 * pieces adds up its own, and these are added in their order: the sum does not depend on threads, nor on the ranks that share them out. */
#include <string.h>

#include "grad_private.h"
#include "ref/call/share.h"

enum { BLOCKS = 64, SEGMENT = 4096 };
/* Bytes for the gradients of the blocks that run beside each other. */
static const size_t ROOM = (size_t)1 << 28;

struct pieces {
	struct program *p;
	size_t pieces, blocks, first;   /* the block that is the first of those that run now */
	bool parted;                    /* blocks are shared out among ranks */
	field total[MAX_OUT];
	field *own;                     /* of each block that runs now, [MAX_OUT] */
};

static size_t count(const struct pieces *q, int i) { return q->p->call->out_count[i]; }

static void one(struct pieces *q, calc *c, size_t piece, const field *into)
{
	size_t mark = c_mark(c);
	struct frame f;

	run_begin(&f, q->p, c, piece);
	const struct program *p = f.p;
	struct sweep w = { &f, p->grad, c_bytes(c, (size_t)p->n_reg * sizeof(vec) + 1), into };
	for (int i = 0; i < p->n_reg; i++)
		if (p->grad->active[i]) w.adjoint[i] = c_vec(c, most(p, i));
	grad_steps(&w, p->step);
	c_release(c, mark);
}

static void block(calc *c, size_t i, void *with)
{
	struct pieces *q = with;
	size_t at = q->first + i;
	field into[MAX_OUT] = { 0 };

	if (q->parted && !share_part(at)) return;
	for (int o = 0; o < MAX_OUT; o++) into[o] = q->p->grad->shared[o] ? q->own[i * MAX_OUT + (size_t)o] : q->total[o];
	for (size_t k = at * q->pieces / q->blocks; k < (at + 1) * q->pieces / q->blocks; k++) one(q, c, k, into);
}

static void add(calc *c, field to, field x, size_t n)
{
	for (size_t at = 0, m; at < n; at += m) {
		size_t mark = c_mark(c);
		m = n - at < SEGMENT ? n - at : SEGMENT;
		vec a = c_vec(c, m), b = c_vec(c, m);
		c_get(c, a, to, at, 1);
		c_get(c, b, x, at, 1);
		c_add(c, a, a, b);
		c_put(c, to, at, 1, a);
		c_release(c, mark);
	}
}

static void store(calc *c, int out, field x, size_t n)
{
	for (size_t at = 0, m; at < n; at += m) {
		size_t mark = c_mark(c);
		m = n - at < SEGMENT ? n - at : SEGMENT;
		vec a = c_vec(c, m);
		c_get(c, a, x, at, 1);
		c_site(c, c_program(c)->grad->of->store[out], a);
		c_store(c, out, at, 1, a);
		c_release(c, mark);
	}
}

/* How many blocks may run beside each other. */
static size_t beside(const struct pieces *q, size_t shared)
{
	size_t most = shared ? ROOM / (2 * sizeof(double) * shared) : BLOCKS;

	return most < 1 ? 1 : most < q->blocks ? most : q->blocks;
}

void grad_pieces(calc *c, size_t piece)
{
	struct program *p = c_program(c);
	struct pieces q = { .p = p, .parted = share_parts(c) };
	size_t shared = 0;

	(void)piece;
	for (const struct program *x = p; x; x = x->next) q.pieces += x->pieces;
	q.blocks = q.pieces < BLOCKS ? q.pieces : BLOCKS;
	for (int o = 0; o < MAX_OUT && p->call->op->out[o].name; o++) {
		q.total[o] = c_field(c, 1, count(&q, o));
		if (p->grad->shared[o]) shared += count(&q, o);
	}
	size_t step = beside(&q, shared);
	q.own = c_bytes(c, step * MAX_OUT * sizeof *q.own);
	for (size_t i = 0; i < step * MAX_OUT; i++)
		if (p->grad->shared[i % MAX_OUT]) q.own[i] = c_field(c, 1, count(&q, (int)(i % MAX_OUT)));
	for (q.first = 0; q.first < q.blocks; q.first += step) {
		size_t n = q.blocks - q.first < step ? q.blocks - q.first : step;
		uint64_t before = c->work;
		c_stage(c, n, block, &q);
		if (q.parted) share_parts_end(c, q.total, MAX_OUT, before), share_parts_end(c, q.own, n * MAX_OUT, c->work);
		for (size_t i = 0; i < n * MAX_OUT; i++) {
			size_t bytes = count(&q, (int)(i % MAX_OUT)) * sizeof(double);
			if (!p->grad->shared[i % MAX_OUT] || !bytes) continue;
			add(c, q.total[i % MAX_OUT], q.own[i], count(&q, (int)(i % MAX_OUT)));
			memset(q.own[i].hi, 0, bytes);
			if (q.own[i].lo) memset(q.own[i].lo, 0, bytes);
		}
	}
	for (int o = 0; o < MAX_OUT && p->call->op->out[o].name; o++) store(c, o, q.total[o], count(&q, o));
}

bool grad_finish(struct program *p, const struct strip *s, const struct plan *plan, bool ok, struct error *e)
{
	(void)s, (void)plan;
	for (const struct program *x = p; x && ok; x = x->next) {
		if (!x->failed) continue;
		if (e) *e = x->error;
		ok = false;
	}
	program_free(p);
	return ok;
}
