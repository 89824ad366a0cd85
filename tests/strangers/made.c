/* Cases of the study's own. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "strangers.h"

static bool room(size_t used, size_t of)
{
	if (used + 1 >= of) abort();    /* the last one stays empty: it ends the list */
	return true;
}
#define ROOM(used, list) room(used, sizeof(list) / sizeof *(list))

void made_dim(struct made *m, const char *name, size_t size)
{
	if (ROOM(m->dims, m->dim)) m->dim[m->dims++] = (struct case_dim){ name, size };
}

void made_in(struct made *m, const char *name, const char *shape, enum dtype type, enum draw draw, double a, double b)
{
	if (ROOM(m->ins, m->in)) m->in[m->ins++] = (struct case_tensor){ name, shape, type, draw, a, b };
}

void made_out(struct made *m, const char *name, const char *shape, enum dtype type)
{
	if (ROOM(m->outs, m->out)) m->out[m->outs++] = (struct case_tensor){ name, shape, type, DRAW_NORMAL, 0, 0 };
}

/* The list's numbers lie in m, which may be copied: their pointer is set when the case is made. */
void made_list(struct made *m, const char *tensor, const int *x, size_t n)
{
	if (!ROOM(m->n_lists, m->lists) || m->used + n > sizeof m->list / sizeof *m->list) abort();
	m->lists[m->n_lists++] = (struct case_list){ tensor, NULL, n };
	for (size_t i = 0; i < n; i++) m->list[m->used++] = x[i];
}

void made_params(struct made *m, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	vsnprintf(m->params, sizeof m->params, format, list);
	va_end(list);
}

void made_sequences(struct made *m, const char *cuts, struct dice *d, size_t T, size_t N)
{
	int length[16];
	size_t left = T;

	for (size_t i = 0; i < N; i++) {
		size_t rest = N - 1 - i, n = rest ? between(d, 1, (left - rest) * 2 / (rest + 1)) : left;
		if (n > left - rest) n = left - rest;
		length[i] = (int)n;
		left -= n;
	}
	made_list(m, cuts, length, N);
	made_in(m, cuts, "N+1", DT_I32, DRAW_CUTS, 0, 0);
}

static struct case_dim *dim(const struct made *m, const char *name)
{
	for (size_t i = 0; i < m->dims; i++)
		if (!strcmp(m->dim[i].name, name)) return (struct case_dim *)(uintptr_t)&m->dim[i];
	return NULL;
}

size_t made_size(const struct made *m, const char *name) { return dim(m, name) ? dim(m, name)->size : 1; }
void made_resize(struct made *m, const char *name, size_t size) { dim(m, name)->size = size; }

static struct case_tensor *tensor(struct case_tensor *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name)) return &list[i];
	return NULL;
}

bool made_has(const struct made *m, const char *in)
{
	for (size_t i = 0; i < m->ins; i++)
		if (!strcmp(m->in[i].name, in)) return true;
	return false;
}

void made_type(struct made *m, const char *name, enum dtype type)
{
	struct case_tensor *in = tensor(m->in, m->ins, name), *out = tensor(m->out, m->outs, name);

	if (in) in->dtype = type;
	if (out) out->dtype = type;
}

void say(char *text, size_t size, const char *format, ...)
{
	size_t used = strlen(text);
	va_list list;

	va_start(list, format);
	vsnprintf(text + used, size - used, format, list);
	va_end(list);
}

void made_say(const struct made *m, char *text, size_t size)
{
	for (size_t i = 0; i < m->dims; i++) say(text, size, "%s%s %zu", i ? ", " : "", m->dim[i].name, m->dim[i].size);
	for (size_t i = 0; i < m->outs; i++)
		say(text, size, "%s%s %s", i ? ", " : "; ", m->out[i].name, dtype_info[m->out[i].dtype].name);
	if (m->note && *m->note) say(text, size, "; %s", m->note);
}

static const struct test_case *as_case(struct made *m, const char *op, const char *name)
{
	size_t at = 0;

	for (size_t i = 0; i < m->n_lists; at += m->lists[i++].n) m->lists[i].list = m->list + at;
	m->k = (struct test_case){ .op = op, .name = name, .params = m->params, .dims = m->dim, .in = m->in, .out = m->out,
		.lists = m->lists };
	return &m->k;
}

bool point_capture(const struct point *p, struct capture *c, struct error *e)
{
	struct made m = p->made;

	if (!case_make(c, as_case(&m, p->family->op, "stranger"), p->seed, true, e)) return false;
	floats_release(0);
	p->family->run(p, c);
	return true;
}

/* ---- points ---- */

const struct family *const families[] = {
	&delta_family, &rmsnorm_family, &rope_family, &conv_family, &newton_schulz_family, &muon_family, &mixed_family,
	&qk_family,
	&fp8_family, &product_family, NULL
};

/* No other seed of the repository is near. */
static const uint64_t right_seeds = UINT64_C(7310034283826791424), wrong_seeds = UINT64_C(7382091877864719360);

static uint64_t seed_of(const struct family *f, uint64_t from, int number)
{
	uint64_t i = 0;

	while (families[i] != f) i++;
	return from + i * 1000 + (uint64_t)number;
}

bool point_right(struct point *p, const struct family *f, int number)
{
	if (number < 1 || number > f->points) return false;
	*p = (struct point){ .family = f, .number = number, .seed = seed_of(f, right_seeds, number), .contract = "auto",
		.made.note = "" };
	f->draw(p, &(struct dice){ p->seed });
	return true;
}

bool point_wrong(struct point *p, const struct family *f, int fault)
{
	if (fault < 1 || !f->flaws || fault > 99) return false;
	for (int i = 0; i < fault; i++)
		if (!f->flaws[i].what) return false;
	const struct flaw *flaw = &f->flaws[fault - 1];
	*p = (struct point){ .family = f, .number = DRAWN_NUMBER, .fault = fault, .seed = seed_of(f, wrong_seeds, fault),
		.contract = flaw->contract ? flaw->contract : "auto", .made.note = "" };
	f->draw(p, &(struct dice){ p->seed });
	if (flaw->structure == SIMPLE) f->simple(p);
	if (flaw->structure == KNOWN) f->known(p);
	f->suit(p);
	return true;
}
