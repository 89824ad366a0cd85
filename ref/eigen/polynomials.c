/* Coefficient lists and the exact scalar recurrence. */
#include "polynomials.h"

#include <string.h>

static const struct list {
	const char *name;
	size_t iterations, n;
	bool safety;
	struct polynomial at[8];
} lists[] = {
	/* Amsel, Persson, Musco and Gower 2025 (arXiv 2505.16932), algorithm 1: degree 5, l = 1e-3, no safety */
	{ "polar_express", 5, 8, true, {
		{ 8.28721201814563,   -23.595886519098837, 17.300387312530933 },
		{ 4.107059111542203,  -2.9478499167379106, 0.5448431082926601 },
		{ 3.9486908534822946, -2.908902115962949,  0.5518191394370137 },
		{ 3.3184196573706015, -2.488488024314874,  0.51004894012372 },
		{ 2.300652019954817,  -1.6689039845747493, 0.4188073119525673 },
		{ 1.891301407787398,  -1.2679958271945868, 0.37680408948524835 },
		{ 1.8750014808534479, -1.2500016453999487, 0.3750001645474248 },
		{ 1.875,              -1.25,               0.375 } } },
	/* Jiacheng You's; the same stand in the public captures */
	{ "you", 5, 5, false, {
		{ 4.0848, -6.8946, 2.9270 },
		{ 3.9505, -6.3029, 2.6377 },
		{ 3.7418, -5.5913, 2.3037 },
		{ 2.8769, -3.1427, 1.2046 },
		{ 2.8366, -3.0525, 1.2012 } } },
	/* Keller Jordan's, of the first Muon */
	{ "jordan", 5, 1, false, { { 3.4445, -4.7750, 2.0315 } } },
	/* p(1) = 1, p'(1) = p''(1) = 0 */
	{ "quintic", 10, 1, false, { { 15 / 8., -10 / 8., 3 / 8. } } },
};
enum { LISTS = sizeof lists / sizeof *lists };

bool schedule_json(struct schedule *s, const json_t *j, const char *item, struct error *e)
{
	static const char expected[] = "expected 1 to 63 triples of finite numbers, [[a,b,c], ...]";
	const json_t *row;
	size_t t;

	*s = (struct schedule){ .n = json_array_size(j) };
	if (!s->n || s->n > MAX_ITERATIONS) return error_set(e, E_PARAM, item, NO_OFFSET, "%s", expected);
	json_array_foreach(j, t, row) {
		double x[3] = { NAN, NAN, NAN };
		for (size_t i = 0; i < 3 && json_array_size(row) == 3; i++)
			if (json_is_number(json_array_get(row, i))) x[i] = json_number_value(json_array_get(row, i));
		if (!isfinite(x[0] + x[1] + x[2])) return error_set(e, E_PARAM, item, NO_OFFSET, "%s; not so in row %zu", expected, t);
		s->at[t] = (struct polynomial){ x[0], x[1], x[2] };
	}
	return true;
}

static bool from_file(struct schedule *s, const char *path, struct error *e)
{
	json_error_t why;
	json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (!j) {
		error_set(e, why.line < 0 ? E_UNKNOWN_NAME : E_FORMAT, path, NO_OFFSET,
			"expected polar_express, you, jordan, quintic or a JSON file: %s", why.text);
		return false;
	}
	bool ok = schedule_json(s, json_is_object(j) ? json_object_get(j, "coefficients") : j, path, e);
	json_decref(j);
	return ok;
}

static void from_list(struct schedule *s, const struct list *l, double safety)
{
	s->n = l->n;
	for (size_t t = 0; t < l->n; t++) {
		double d = l->safety && t + 1 < l->n ? safety : 1;
		s->at[t] = (struct polynomial){ l->at[t].a / d, l->at[t].b / pow(d, 3), l->at[t].c / pow(d, 5) };
	}
}

bool schedule_find(struct schedule *s, const char *name, size_t iterations, double safety, struct error *e)
{
	const struct list *l = lists;

	if (!(safety >= 1 && safety <= 2)) return error_set(e, E_VALUE, "safety", NO_OFFSET, "expected 1 to 2");
	if (iterations > MAX_ITERATIONS) return error_set(e, E_VALUE, "iterations", NO_OFFSET, "expected at most %d", MAX_ITERATIONS);
	while (l < lists + LISTS && strcmp(l->name, name)) l++;
	if (l < lists + LISTS) from_list(s, l, safety);
	else if (!from_file(s, name, e)) return false;
	size_t n = iterations ? iterations : l < lists + LISTS ? l->iterations : s->n;
	for (size_t t = s->n; t < n; t++) s->at[t] = s->at[s->n - 1];
	s->n = n;
	return true;
}

dd polynomial_h(const struct polynomial *p, dd r)
{
	return dd_add(dd_of(p->a), dd_mul(r, dd_add(dd_of(p->b), dd_mul(r, dd_of(p->c)))));
}

void recurrence(struct step *step, const struct schedule *s, uint64_t restarts, dd x, double p)
{
	dd r = dd_add(dd_mul(x, x), dd_of(p)), q = dd_of(1);

	step[0] = (struct step){ r, q, x };
	for (size_t t = 0; t < s->n; t++) {
		if (restarts >> t & 1) {
			x = dd_mul(q, x);
			r = dd_add(dd_mul(x, x), dd_of(p));
			q = dd_of(1);
		}
		dd z = polynomial_h(&s->at[t], r);
		q = dd_mul(q, z);
		r = dd_mul(r, dd_mul(z, z));
		step[t + 1] = (struct step){ r, q, dd_mul(q, x) };
	}
}
