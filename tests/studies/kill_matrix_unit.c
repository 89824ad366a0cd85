/* One model on one case: every fault judged, and clean calls. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "kill_matrix.h"

const char fate_letter[FATES + 1] = "-.RAWUM";
const char *const fate_name[FATES] = { "not possible", "not identifiable", "named right", "named by an alias", "named wrong", "not named", "missed" };

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const struct suspect *first_detected(const struct verdict *v, int *n)
{
	const struct suspect *first = NULL;

	*n = 0;
	for (int i = 0; v->examined && i < v->x.n; i++)
		if (v->x.suspect[i].state == DETECTED && !(*n)++) first = &v->x.suspect[i];
	return first;
}

/* *same: the model stores the same numbers with either, and infinities or NaN in the same places. */
static bool same_infinities(const struct model *m, const struct fault *f, const struct fault *other, const struct call *call, bool *same, struct error *e)
{
	struct plan p = model_plan(m, f), q = model_plan(m, other);
	struct answer a, b;

	if (!ref_run(call, &p, &a, e)) return false;
	bool ok = ref_run(call, &q, &b, e);
	*same = ok;
	for (int i = 0; ok && i < MAX_OUT; i++)
		for (size_t j = 0; j < call->out_count[i]; j++) {
			float x = (float)a.hi[i][j], y = (float)b.hi[i][j];
			*same = *same && (x == y || (!isfinite(x) && !isfinite(y)));
		}
	answer_free(&a);
	if (ok) answer_free(&b);
	return ok;
}

/* Does the suspect give the same answer as the fault, within float32's noise? */
static bool same_answer(const struct model *m, const struct fault *f, const struct suspect *s, const struct call *call, const struct cell *c, bool *same, struct error *e)
{
	struct fault other = { s->name, s->site < 0 ? op_fault(m->op, s->name) : -1, s->site, s->value };
	struct xray x;
	double size;

	*same = false;
	if (s->site >= 0 && (s->format != FMT_BF16 || s->rounding != ROUND_NEAREST_EVEN)) return true;
	if (!model_xray(&x, m, f, call, e)) return false;
	bool ok = fault_size(&x, m, &other, &size);
	*same = size < above_noise;
	xray_free(&x);
	return ok && (*same || !isinf(c->size) || same_infinities(m, f, &other, call, same, e));
}

/* Does the report say of the fault that the one it names, s, stands for it? */
static bool stands_for(const struct verdict *v, const struct suspect *s, const struct fault *f)
{
	for (int i = 0; i < v->x.n; i++) {
		const struct suspect *other = &v->x.suspect[i];
		const char *of = other->alike ? other->alike : other->as_well;
		if (of && !strcmp(of, s->name) && !strcmp(other->name, f->name)) return true;
	}
	return false;
}

static bool name_cell(const struct unit *u, const struct fault *f, const struct call *call, const struct verdict *v, struct cell *c, struct error *e)
{
	const struct suspect *s = first_detected(v, &c->detected);
	bool same;

	c->left = v->examined ? v->x.left : (double)NAN;
	snprintf(c->reason, sizeof c->reason, "%.*s", (int)sizeof c->reason - 1, v->n_reason ? v->reason[0] : "");
	c->fate = v->outcome != FAIL ? MISSED : UNNAMED;
	if (!s) return true;
	snprintf(c->first, sizeof c->first, "%s", s->name);
	c->coefficient = s->coefficient;
	c->error = s->error;
	if (!strcmp(s->name, f->name) && (!s->parameter || (s->value <= f->value && f->value <= s->last))) {
		c->fate = RIGHT;
		return true;
	}
	if (!same_answer(&u->model, f, s, call, c, &same, e)) return false;
	c->fate = same || stands_for(v, s, f) ? ALIAS : WRONG;
	return true;
}

static bool judge_model(const struct unit *u, const struct call *call, struct yardstick *y, struct verdict *v, struct error *e)
{
	const struct judging how = { .contract = u->model.contract->name };

	/* What is anchored has a truth of its own for each output. */
	return call->anchored ? judge(call->capture, &how, v, e) : judge_by(y, call->capture, &how, v, e);
}

/* The outputs' bytes as one number. */
static uint64_t fingerprint(const struct call *call)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; call->out_count[i] && j < call->out[i]->bytes; j++)
			h = (h ^ ((const unsigned char *)call->out[i]->data)[j]) * UINT64_C(0x100000001b3);
	return h;
}

/* A fault of float32's size, or one that changes no bit of what is stored, cannot be seen. */
static bool judge_fault(const struct unit *u, const struct fault *f, const struct call *call, struct yardstick *y, uint64_t clean,
	struct cell *c, struct error *e)
{
	struct plan p = model_plan(&u->model, f);
	struct verdict v;

	c->fate = UNSEEN;
	if (!(c->size >= above_noise)) return true;
	if (!model_answer(call, &p, e)) return false;
	if (fingerprint(call) == clean) {
		c->size = 0;
		return true;
	}
	return judge_model(u, call, y, &v, e) && name_cell(u, f, call, &v, c, e);
}

bool unit_faults(struct unit *u, int part, int parts, const struct call *call, struct yardstick *y, struct error *e)
{
	struct plan p = model_plan(&u->model, NULL);
	struct xray x;
	bool ok = true;

	if (!model_answer(call, &p, e)) return false;
	uint64_t clean = fingerprint(call);
	if (!model_xray(&x, &u->model, NULL, call, e)) return false;
	for (int i = part; ok && i < u->n_fault; i += parts) {
		struct cell *cell = &u->cell[i];
		struct fault f = fault_drawn(&u->model, &u->fault[i], call);
		double start = seconds();
		if (fault_is_foreign(&u->model, &f, call)) continue;
		ok = (!call->anchored || model_answer(call, &p, e)) && fault_size(&x, &u->model, &f, &cell->size)
			&& judge_fault(u, &f, call, y, clean, cell, e);
		cell->seconds = seconds() - start;
	}
	xray_free(&x);
	return ok;
}

static bool judge_clean(struct unit *u, const struct call *call, struct yardstick *y, uint64_t seed, struct error *e)
{
	struct plan p = model_plan(&u->model, NULL);
	struct verdict v;

	if (!model_answer(call, &p, e) || !judge_model(u, call, y, &v, e)) return false;
	u->clean++;
	if (v.outcome == PASS) return true;
	if (!u->alarms++)
		snprintf(u->alarm, sizeof u->alarm, "seed %llu: %.*s", (unsigned long long)seed, (int)sizeof u->alarm - 40, v.reason[0]);
	return true;
}

bool unit_run(struct unit *u, int part, struct error *e)
{
	double start = seconds();
	bool ok = true;

	for (int seed = 1; ok && seed <= u->seeds; seed++) {
		bool clean = seed % PARTS == part;
		if (!clean && seed > 1) continue;
		struct yardstick y = { .tick = NULL };
		struct capture c;
		struct call call;
		if (!model_case(&u->model, u->kase, (uint64_t)seed, &c, &call, e)) return false;
		ok = yardstick_make(&y, &call, &(struct yardstick_of){ .truth = NULL }, NULL, e) && (!clean || judge_clean(u, &call, &y, (uint64_t)seed, e))
			&& (seed > 1 || unit_faults(u, part, PARTS, &call, &y, e));
		yardstick_free(&y);
		capture_free(&c);
	}
	u->seconds = seconds() - start;
	return ok;
}
