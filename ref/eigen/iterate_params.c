/* The iteration that a capture asks for. */
#include <string.h>

#include "iterate.h"

static bool choice(const struct capture *c, const char *param, const char *absent, const char *const *names, int *which,
	struct error *e)
{
	const char *text = capture_string(c, param, absent);

	for (*which = 0; names[*which]; ++*which)
		if (!strcmp(names[*which], text)) return true;
	return error_set(e, E_PARAM, param, NO_OFFSET, "'%s' is none of %s, %s%s%s", text, names[0], names[1], names[2] ? ", " : "",
		names[2] ? names[2] : "");
}

static bool restarts_of(struct iteration *how, const json_t *j, struct error *e)
{
	const json_t *step;
	size_t i, K = how->polynomials.n;

	if (!j) {
		how->restarts = how->algorithm == NS_GRAM && K > 2 ? 1 << 2 : 0;
		return true;
	}
	if (!json_is_array(j)) return error_set(e, E_PARAM, "restarts", NO_OFFSET, "expected a list of steps");
	json_array_foreach(j, i, step) {
		json_int_t t = json_integer_value(step);
		if (!json_is_integer(step) || t < 1 || t >= (json_int_t)K)
			return error_set(e, E_PARAM, "restarts", NO_OFFSET, "expected steps from 1 to %zu", K - 1);
		how->restarts |= UINT64_C(1) << t;
	}
	return true;
}

bool iteration_asked(struct iteration *how, const struct capture *c, struct error *e)
{
	static const char *const dtypes[] = { "F16", "BF16", "F32", NULL };
	static const enum format formats[] = { FMT_F16, FMT_BF16, FMT_F32 };
	const json_t *eps = json_object_get(c->params, "eps");
	int which;

	*how = (struct iteration){ 0 };
	if (!choice(c, "algorithm", "", ns_algorithm_name, &which, e)) return false;
	how->algorithm = (enum ns_algorithm)which;
	if (!choice(c, "iterate_dtype", "F32", dtypes, &which, e)) return false;
	how->iterate = formats[which];
	if (eps && !(json_is_number(eps) && json_number_value(eps) >= 0))
		return error_set(e, E_PARAM, "eps", NO_OFFSET, "expected a number, 0 or more");
	how->eps = capture_number(c, "eps", 1e-7);
	if (!choice(c, "eps_kind", "sum", ns_eps_name, &how->eps_kind, e)) return false;
	return schedule_json(&how->polynomials, json_object_get(c->params, "coefficients"), "coefficients", e)
		&& restarts_of(how, json_object_get(c->params, "restarts"), e);
}
