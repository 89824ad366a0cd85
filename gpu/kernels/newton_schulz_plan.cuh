/* The parameters of the ops that run a Newton-Schulz iteration. Refused with E_PARAM: an unknown
 * algorithm or type, coefficients that are not rows of three finite numbers, restarts that cannot be. */
#ifndef ETALON_NEWTON_SCHULZ_PLAN_CUH
#define ETALON_NEWTON_SCHULZ_PLAN_CUH

#include <cmath>
#include <cstring>

#include "gpu/kernels/newton_schulz.cuh"

static inline enum algorithm algorithm_of(const capture &c)
{
	static const char *const names[] = { "standard", "gram_naive", "gram" };
	const char *given = capture_string(&c, "algorithm", "");

	for (int a = STANDARD; a <= GRAM; a++)
		if (strcmp(given, names[a]) == 0)
			return (enum algorithm)a;
	refuse(E_PARAM, "algorithm", "standard, gram_naive or gram, not '%s'", given);
}

static inline float coefficient(const json_t *row, size_t i, size_t t)
{
	const json_t *x = json_array_get(row, i);

	if (!json_is_number(x) || !std::isfinite((float)json_number_value(x)))
		refuse(E_PARAM, "coefficients", "row %zu is not three finite numbers", t);
	return (float)json_number_value(x);
}

static inline std::vector<polynomial> coefficients_of(const capture &c)
{
	const json_t *rows = json_object_get(c.params, "coefficients");
	std::vector<polynomial> list;

	if (json_array_size(rows) == 0)
		refuse(E_PARAM, "coefficients", "a list of [a,b,c], one for each iteration, must be given");
	for (size_t t = 0; t < json_array_size(rows); t++) {
		const json_t *row = json_array_get(rows, t);

		if (json_array_size(row) != 3)
			refuse(E_PARAM, "coefficients", "row %zu is not three finite numbers", t);
		list.push_back({ coefficient(row, 0, t), coefficient(row, 1, t), coefficient(row, 2, t) });
	}
	return list;
}

/* [K]; without the parameter: before the third iteration of gram, where there is one. */
static inline std::vector<bool> restarts_of(const capture &c, enum algorithm a, size_t K)
{
	const json_t *given = json_object_get(c.params, "restarts");
	std::vector<bool> restart(K);

	if (!given && a == GRAM && K > 2)
		restart[2] = true;
	if (given && !json_is_array(given))
		refuse(E_PARAM, "restarts", "a list of iterations, counted from 0");
	if (json_array_size(given) > 0 && a != GRAM)
		refuse(E_PARAM, "restarts", "the gram algorithm alone restarts");
	for (size_t i = 0; i < json_array_size(given); i++) {
		const json_t *t = json_array_get(given, i);

		if (!json_is_integer(t) || json_integer_value(t) < 1 || json_integer_value(t) >= (json_int_t)K)
			refuse(E_PARAM, "restarts", "element %zu is not an iteration from 1 to %zu", i, K - 1);
		restart[json_integer_value(t)] = true;
	}
	return restart;
}

/* Is the parameter the second of the two, of which the first is meant where it is absent? Others are refused. */
static inline bool is_second(const capture &c, const char *name, const char *first, const char *second)
{
	const char *given = capture_string(&c, name, first);

	if (strcmp(given, first) != 0 && strcmp(given, second) != 0)
		refuse(E_PARAM, name, "%s or %s, not '%s'", first, second, given);
	return strcmp(given, second) == 0;
}

static inline newton_schulz_plan plan_of(const capture &c)
{
	newton_schulz_plan plan = { algorithm_of(c), coefficients_of(c), {}, (float)capture_number(&c, "eps", 1e-7),
	                            is_second(c, "eps_kind", "sum", "max") };

	plan.restart = restarts_of(c, plan.algorithm, plan.coefficients.size());
	return plan;
}

/* Calls f with a zero of the iterates' type. */
template <class Call> void by_iterate(const capture &c, Call f)
{
	const char *type = capture_string(&c, "iterate_dtype", "F32");

	if (strcmp(type, "F16") == 0)
		return f(f16{});
	if (strcmp(type, "BF16") == 0)
		return f(bf16{});
	if (strcmp(type, "F32") == 0)
		return f(float{});
	refuse(E_PARAM, "iterate_dtype", "F16, BF16 or F32, not %s", type);
}

#endif
