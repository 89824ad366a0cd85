/* Suspects of a whole model, from its logits alone. */
#include <math.h>
#include <stdlib.h>

#include "compare/truth/expected.h"
#include "model_reading.h"

/* A run takes no more multiply-adds than the first: it is of the first tokens alone where all would take more. Beyond the second,
 * runs go one after the other, each in parallel. */
#define MOST_WORK (UINT64_C(1) << 36)
#define LARGE_WORK (UINT64_C(1) << 31)

struct logits { const struct model *m; const size_t *ids; size_t n; const struct tensor *got; };

/* Σ of the squared distance of the engine's logits from the plan's, stored; negative: out of memory. */
static double square(const struct logits *x, const struct model_plan *p, bool store)
{
	struct values *hidden, y;
	double sum = 0;

	if (!model_run(x->m, p, x->ids, x->n, NULL, &hidden, NULL)) return -1;
	bool ok = model_logits(x->m, p, &hidden[x->m->config.layers], 0, x->n, &y, NULL);
	model_hidden_free(x->m, hidden);
	if (!ok) return -1;
	for (size_t i = 0; i < x->n * y.cols; i++) {
		double got, want = store ? stored_as(x->got->dtype, y.hi[i], 0) : y.hi[i];
		dtype_load(x->got->dtype, (const char *)x->got->data + i * dtype_info[x->got->dtype].size, 1, &got);
		if (got != want && !(isnan(got) && isnan(want))) sum += (got - want) * (got - want);
	}
	values_free(&y);
	return isfinite(sum) ? sum : INFINITY;
}

/* Of an error that is infinite, whatever leaves a finite rest explains all, and nothing else anything. */
static double share(double rest, double error) { return isfinite(rest) && error > 0 ? 1 - rest / error : error == 0; }

static int by_share(const void *a, const void *b)
{
	double x = ((const struct model_suspect *)a)->explained, y = ((const struct model_suspect *)b)->explained;

	return (x < y) - (x > y);
}

static bool has_kind(const struct model *m, enum layer_kind kind)
{
	for (size_t l = 0; l < m->config.layers; l++)
		if (m->config.kind[l] == kind) return true;
	return false;
}

int model_suspects(const struct model *m, const char *contract, const size_t *ids, size_t n, const struct tensor *logits,
	struct model_suspect *found, int most, double *alone, struct error *e)
{
	uint64_t first = MOST_WORK / model_work(m) + 1;
	struct logits x = { m, ids, first < n ? (size_t)first : n, logits };
	struct model_plan exact = model_plan_plain(&arith_f64, arith_f64.precision), emulation = exact;
	struct model_suspect all[2 * LAYER_KINDS * MAX_FAULT];
	int count = 0, kept = 0;
	bool ok = true;

	if (!model_plan_contract(&emulation, contract, e)) return -1;
	double error = square(&x, &exact, false), left = square(&x, &emulation, true);
	*alone = share(left, error);
	for (int kind = 0; kind < LAYER_KINDS; kind++)
		for (int i = 0; has_kind(m, (enum layer_kind)kind) && model_op(kind)->faults[i].name; i++)
			all[count++] = (struct model_suspect){ (enum layer_kind)kind, i, 0 };
	#pragma omp parallel for schedule(dynamic) if(model_work(m) * n <= LARGE_WORK)
	for (int i = 0; i < count; i++) {
		struct model_plan p = emulation;
		model_plan_fault(&p, all[i].kind, NOWHERE, all[i].fault);
		double rest = square(&x, &p, true);
		all[i].explained = share(rest, error);
		if (rest < 0) {
			#pragma omp atomic write
			ok = false;
		}
	}
	if (!ok || error < 0 || left < 0) return error_set(e, E_MEMORY, logits->name, NO_OFFSET, "%d suspects", count), -1;
	qsort(all, (size_t)count, sizeof *all, by_share);
	for (; kept < count && kept < most && 1 - all[kept].explained < (1 - *alone) / 2; kept++) found[kept] = all[kept];
	return kept;
}
