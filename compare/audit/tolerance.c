#include "tolerance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/truth/expected.h"

/* One output. number: the rule's. */
struct compared { const double *got, *want; size_t n; enum format format; };

/* inf - inf is no difference where both have the same sign; NaN is one that nothing is above or equal to. */
static double apart(double g, double w) { return g == w ? 0 : fabs(g - w); }

static bool allclose(const struct compared *c, const double *number)
{
	size_t n = 0;

	while (n < c->n && apart(c->got[n], c->want[n]) <= number[1] + number[0] * fabs(c->want[n])) n++;
	return n == c->n;
}

static bool match(const struct compared *c, const double *number)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (!isfinite(c->got[i]) && isfinite(c->want[i])) return false;
		n += apart(c->got[i], c->want[i]) <= fmax(number[2], number[1] * fabs(c->want[i]));
	}
	return (double)n >= number[0] * (double)c->n;
}

struct sums { double gg, gw, ww, dd, worst; };
static struct sums sums_of(const struct compared *c)
{
	struct sums s = { 0 };

	for (size_t i = 0; i < c->n; i++) {
		double g = c->got[i], w = c->want[i], d = apart(g, w);
		s.gg += g * g;
		s.gw += g * w;
		s.ww += w * w;
		s.dd += d * d;
		if (!(d <= s.worst) && !isnan(s.worst)) s.worst = d;
	}
	return s;
}

static bool cosine(const struct compared *c, const double *number)
{
	struct sums s = sums_of(c);

	return s.gw / sqrt(s.gg * s.ww) >= number[0];
}

static bool rms_ratio(const struct compared *c, const double *number)
{
	struct sums s = sums_of(c);

	return (isfinite(s.ww) && sqrt(s.dd) <= number[0] * sqrt(s.ww)) || s.worst <= number[1];
}

static bool nmse(const struct compared *c, const double *number)
{
	struct sums s = sums_of(c);

	return isfinite(s.ww) && s.dd <= number[0] * s.ww;
}

static bool ulp(const struct compared *c, const double *number)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++)
		n += c->got[i] == c->want[i]
			|| (isfinite(c->want[i]) && apart(c->got[i], c->want[i]) <= number[0] * format_ulp(c->format, c->want[i]));
	return n == c->n;
}

static bool quantile(const struct compared *c, const double *number)
{
	size_t n = 0, held = 0;

	for (size_t i = 0; i < c->n; i++) {
		if (!isfinite(c->got[i]) && isfinite(c->want[i])) return false;
		if (!(fabs(c->want[i]) >= number[2])) continue;
		n++;
		held += apart(c->got[i], c->want[i]) <= number[1] * fabs(c->want[i]);
	}
	return n && (double)held >= number[0] * (double)n;
}

/* The least numbers that are to be given, and the most; those left out are -1, which nothing is at or below. The first is from `from` to `to`:
 * beyond, a rule would pass everything or nothing. */
static const struct {
	const char *name, *numbers;
	int least, most;
	bool (*holds)(const struct compared *c, const double *number);
	double from, to;
	const char *range;
} kinds[] = {
	{ "allclose", "rtol,atol", 2, 2, allclose, 0, INFINITY, "" }, { "cosine", "x", 1, 1, cosine, -1, 1, ", x from -1 to 1" },
	{ "rms_ratio", "x[,atol]", 1, 2, rms_ratio, 0, INFINITY, "" }, { "nmse", "x", 1, 1, nmse, 0, INFINITY, "" },
	{ "match", "share,rtol,atol", 3, 3, match, 0, 1, ", a share of at most 1" }, { "ulp", "n", 1, 1, ulp, 0, INFINITY, "" },
	{ "quantile", "share,x,least", 3, 3, quantile, 0, 1, ", a share of at most 1" }
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static bool wrong(const char *text, struct error *e)
{
	return error_set(e, E_USAGE, text, NO_OFFSET, "expected allclose:rtol,atol cosine:x rms_ratio:x[,atol] nmse:x match:share,rtol,atol "
		"ulp:n or quantile:share,x,least, or OUTPUT=RULE;...");
}

static bool numbers(struct part *p, const char *text, const char *end)
{
	int n = 0;

	for (int i = 0; i < MAX_NUMBER; i++) p->number[i] = -1;
	while (n < kinds[p->kind].most) {
		char *after;
		p->number[n] = strtod(text, &after);
		if (after == text || after > end || !isfinite(p->number[n])) return false;
		if (n ? p->number[n] < 0 : p->number[0] < kinds[p->kind].from || p->number[0] > kinds[p->kind].to) return false;
		n++;
		text = after;
		if (text == end) break;
		if (*text++ != ',') return false;
	}
	return text == end && n >= kinds[p->kind].least;
}

static int output_named(const struct op *op, const char *name, size_t n)
{
	int i = 0;

	while (op->out[i].name && (strlen(op->out[i].name) != n || strncmp(op->out[i].name, name, n))) i++;
	return op->out[i].name ? i : -1;
}

/* [OUTPUT=]KIND:NUMBERS up to `end` */
static bool part_of(struct tolerance *t, const char *text, const char *end, const struct op *op, struct error *e)
{
	const char *equals = memchr(text, '=', (size_t)(end - text)), *kind = equals ? equals + 1 : text;
	const char *colon = memchr(kind, ':', (size_t)(end - kind));
	struct part *p = &t->part[t->n++];

	p->out = equals ? output_named(op, text, (size_t)(equals - text)) : -1;
	if (equals && p->out < 0) return error_set(e, E_UNKNOWN_NAME, t->text, NO_OFFSET, "%.*s is no output of %s; see `etalon list tensors %s`",
		(int)(equals - text), text, op->name, op->name);
	for (int i = 0; i < t->n - 1; i++)
		if (t->part[i].out == p->out) return error_set(e, E_USAGE, t->text, NO_OFFSET, "%s has two rules", p->out < 0 ? "every output" : op->out[p->out].name);
	if (!colon) return wrong(t->text, e);
	for (p->kind = 0; p->kind < KINDS; p->kind++)
		if (strlen(kinds[p->kind].name) == (size_t)(colon - kind) && !strncmp(kinds[p->kind].name, kind, (size_t)(colon - kind))) break;
	if (p->kind == KINDS) return wrong(t->text, e);
	if (numbers(p, colon + 1, end)) return true;
	return error_set(e, E_USAGE, t->text, NO_OFFSET, "expected %s:%s, numbers%s%s", kinds[p->kind].name, kinds[p->kind].numbers,
		kinds[p->kind].from < 0 ? "" : " of 0 or more", kinds[p->kind].range);
}

bool tolerance_parse(struct tolerance *t, const char *text, const struct op *op, struct error *e)
{
	*t = (struct tolerance){ .text = text };
	for (;; text++) {
		const char *end = text + strcspn(text, ";");
		if (t->n == MAX_PART) return error_set(e, E_USAGE, t->text, NO_OFFSET, "expected at most %d outputs", MAX_PART);
		if (!part_of(t, text, end, op, e)) return false;
		text = end;
		if (!*text) return true;
	}
}

bool tolerance_holds(const struct tolerance *t, const struct call *call, double *const *got, double *const *want)
{
	bool looked = false;

	for (int p = 0; p < t->n; p++)
		for (int i = 0; i < MAX_OUT; i++) {
			struct compared c = { got[i], want[i], call->out_count[i], dtype_info[out_dtype(call, i)].format };
			if (!c.n || (t->part[p].out >= 0 && t->part[p].out != i)) continue;
			looked = true;
			if (!kinds[t->part[p].kind].holds(&c, t->part[p].number)) return false;
		}
	return looked;
}
