#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "figures.h"
#include "gpu/backend.h"

const char *const outcome_name[] = { "pass", "fail", "undecided" };

int outcome_exit(enum outcome o)
{
	return (const int[]){ EXIT_PASS, EXIT_FAIL, EXIT_UNDECIDED }[o];
}

/* Element operations, counted by the reference: MPFR does some 25 million a second and core. */
static const uint64_t mpfr_work = UINT64_C(1) << 29, noisy_work = UINT64_C(1) << 31;
enum { MIN_RUNS = 16, MAX_RUNS = 64 };

/* The truth may be off by this share of sigma, no more. */
static const double truth_share = 0.1;

/* Truths from the quickest to the most exact. The one below is each one's second opinion. */
static const char *const ladder[] = { "f64up", "f64", "mpfr:128", "mpfr:256", "mpfr:512" };
enum { LADDER = sizeof ladder / sizeof *ladder, LADDER_F64 = 1, LADDER_MPFR = 2 };

const char *index_text(const struct call *call, int i, size_t index, char *text, size_t size)
{
	size_t shape[MAX_RANK], at[MAX_RANK], used = 0;
	int rank = call_out_shape(call, i, shape);

	for (int r = rank; r-- > 0; index /= shape[r]) at[r] = index % shape[r];
	for (int r = 0; r < rank && used < size; r++)
		used += (size_t)snprintf(text + used, size - used, "%s%zu%s", r ? "," : "[", at[r], r + 1 < rank ? "" : "]");
	return text;
}

static void reason(struct verdict *v, enum outcome o, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void reason(struct verdict *v, enum outcome o, const char *format, ...)
{
	va_list args;

	if (v->outcome == PASS || o == FAIL) v->outcome = o;
	if (v->n_reason == MAX_REASON) return;
	va_start(args, format);
	vsnprintf(v->reason[v->n_reason++], sizeof v->reason[0], format, args);
	va_end(args);
}

void verdict_fail(struct verdict *v, const char *format, ...)
{
	char text[sizeof v->reason[0]];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	reason(v, FAIL, "%s", text);
}

static bool run_plain(const struct call *call, const char *spec, const struct judging *how, struct answer *a, struct error *e)
{
	const struct arith *arith;
	int bits;

	if (!arith_by_name(spec, &arith, &bits)) return error_set(e, E_USAGE, spec, NO_OFFSET, "expected f64 or mpfr:BITS");
	if (how->tick) how->tick(spec, 0, 1);
	struct plan p = plan_plain(arith, bits);
	return ref_run(call, &p, a, e);
}

struct truth { struct answer first, second; char name[32], other[32]; int rung; };

static void truth_free(struct truth *t)
{
	answer_free(&t->first);
	answer_free(&t->second);
}

/* A named truth of P bits has its second opinion at half of them, but f64's is f64up's. */
static bool named_truth(const struct call *call, const struct judging *how, struct truth *t, struct error *e)
{
	const struct arith *a;
	int bits;

	if (!arith_by_name(how->truth, &a, &bits) || (a != &arith_f64 && a != &arith_mpfr))
		return error_set(e, E_USAGE, how->truth, NO_OFFSET, "expected f64 or mpfr:BITS for the truth");
	snprintf(t->name, sizeof t->name, "%s", how->truth);
	if (a == &arith_f64) snprintf(t->other, sizeof t->other, "f64up");
	else if (bits < 192) snprintf(t->other, sizeof t->other, "f64");
	else snprintf(t->other, sizeof t->other, "mpfr:%d", bits / 2);
	t->rung = LADDER - 1;
	return run_plain(call, t->name, how, &t->first, e) && run_plain(call, t->other, how, &t->second, e);
}

static bool find_truth(const struct call *call, const struct judging *how, struct truth *t, struct error *e)
{
	*t = (struct truth){ .rung = LADDER_F64 };
	if (how->truth) return named_truth(call, how, t, e);
	if (!run_plain(call, ladder[LADDER_F64], how, &t->second, e)) return false;
	if (t->second.work <= mpfr_work) {
		t->rung = LADDER_MPFR;
		if (!run_plain(call, ladder[LADDER_MPFR], how, &t->first, e)) return false;
	} else {
		t->first = t->second;
		t->second = (struct answer){ 0 };
		if (!run_plain(call, ladder[LADDER_F64 - 1], how, &t->second, e)) return false;
	}
	snprintf(t->name, sizeof t->name, "%s", ladder[t->rung]);
	snprintf(t->other, sizeof t->other, "%s", ladder[t->rung - 1]);
	return true;
}

/* One rung up, where the work allows; *climbed says whether. */
static bool climb(const struct call *call, const struct judging *how, struct truth *t, bool *climbed, struct error *e)
{
	*climbed = t->rung >= LADDER_MPFR && t->rung + 1 < LADDER && t->first.work <= mpfr_work;
	if (!*climbed) return true;
	answer_free(&t->second);
	t->second = t->first;
	t->first = (struct answer){ 0 };
	snprintf(t->other, sizeof t->other, "%s", t->name);
	snprintf(t->name, sizeof t->name, "%s", ladder[++t->rung]);
	return run_plain(call, t->name, how, &t->first, e);
}

static void finite_truth(const struct call *call, const struct answer *a, struct verdict *v)
{
	char text[128];

	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; j < call->out_count[i]; j++) {
			if (isfinite(a->hi[i][j])) continue;
			reason(v, UNDECIDED, "out.%s: the reference is %g at %s", call->op->out[i].name, a->hi[i][j],
				index_text(call, i, j, text, sizeof text));
			break;
		}
}

static void decide(const struct call *call, struct verdict *v, struct output_verdict *o)
{
	const char *name = call->op->out[o->out].name;
	char text[128];

	index_text(call, o->out, o->worst.index, o->worst_at, sizeof o->worst_at);
	if (o->not_finite)
		reason(v, FAIL, "out.%s: %zu of %zu elements are not finite; the first at %s is %g, expected %.9g", name, o->not_finite,
			o->count, index_text(call, o->out, o->first_not_finite.index, text, sizeof text), o->first_not_finite.got,
			o->first_not_finite.expected);
	index_text(call, o->out, o->beyond.index, o->beyond_at, sizeof o->beyond_at);
	for (int r = 0; r < RULE_COUNT; r++) {
		const struct element *at = r == RULE_EXCESS ? &o->beyond : &o->worst;
		if (o->rule[r].value <= o->rule[r].limit) continue;
		if (r == RULE_WORST || r == RULE_EXCESS)
			reason(v, FAIL, "out.%s: %s is %.9g, expected %.9g: %.4g sigma, %.4g ulp; %s %.4g, at most %.3g", name,
				r == RULE_EXCESS ? o->beyond_at : o->worst_at, at->got, at->expected, at->sigma, at->ulp, rule_name[r],
				o->rule[r].value, o->rule[r].limit);
		else
			reason(v, FAIL, "out.%s: %s error %.4g sigma, at most %.3g", name, rule_name[r], o->rule[r].value, o->rule[r].limit);
	}
	if (!(o->truth_error <= truth_share))
		reason(v, UNDECIDED, "out.%s: the truth is only known to %.3g sigma (%s against %s)", name, o->truth_error, v->truth, v->second);
}

static int runs_for(uint64_t work)
{
	uint64_t runs = work ? noisy_work / work : MAX_RUNS;

	return runs < MIN_RUNS ? MIN_RUNS : runs > MAX_RUNS ? MAX_RUNS : (int)runs;
}

static struct { void (*tick)(const char *, size_t, size_t); const char *stage; } noisy_stage;
static void noisy_tick(size_t done, size_t total) { noisy_stage.tick(noisy_stage.stage, done, total); }

static bool judge_under(const struct call *call, const struct contract *k, const struct truth *t, const struct judging *how,
	struct verdict *v, struct error *e)
{
	struct plan model = plan_plain(&arith_noisy, arith_noisy.precision);
	struct expected x;
	bool ok = true;

	*v = (struct verdict){ .op = call->op, .contract = k, .runs = runs_for(t->first.work) };
	snprintf(v->truth, sizeof v->truth, "%s", t->name);
	snprintf(v->second, sizeof v->second, "%s", t->other);
	finite_truth(call, &t->first, v);
	if (v->outcome != PASS) return true;
	noisy_stage.tick = how->tick;
	noisy_stage.stage = k->name;
	plan_contract(&model, k);
	model.random = true;
	model.tick = how->tick ? noisy_tick : NULL;
	if (!expected_make(&x, call, &model, &t->first, v->runs, e)) return false;
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (call->out_count[i]) ok = figures(&v->out[v->n_out++], call, i, &t->first, &t->second, &x, e);
	for (int i = 0; ok && i < v->n_out; i++) decide(call, v, &v->out[i]);
	if (!v->n_out) reason(v, UNDECIDED, "nothing was compared");
	expected_free(&x);
	return ok;
}

/* How far the worst-kept rule is from its limit. */
static double excess(const struct verdict *v)
{
	double worst = 0;

	for (int i = 0; i < v->n_out; i++)
		for (int r = 0; r < RULE_COUNT; r++) {
			double x = v->out[i].rule[r].value / v->out[i].rule[r].limit;
			if (!(x <= worst)) worst = isnan(x) ? INFINITY : x;
		}
	return worst;
}

/* The tightest of contracts first .. last whose rules hold, else the one that comes nearest. In the second
 * case, and always when x is there, those that do not allow what the kernel was seen to round are left out,
 * so long as one remains. */
static bool judge_with(const struct call *call, struct truth *t, const struct judging *how, int first, int last,
	const struct examination *x, struct verdict *v, struct error *e)
{
	bool any = false, allowed = false;

	for (int i = first; i <= last; i++) allowed = allowed || (x && profile_within(&x->profile, call, &call->op->contracts[i]));
	for (int i = first; i <= last && !(any && v->outcome == PASS); i++) {
		const struct contract *k = &call->op->contracts[i];
		struct verdict w;
		bool again = true;
		if (allowed && !profile_within(&x->profile, call, k)) continue;
		while (again) {
			if (!judge_under(call, k, t, how, &w, e)) return false;
			again = false;
			if (w.outcome == UNDECIDED && w.n_out && !climb(call, how, t, &again, e)) return false;
		}
		if (!any || w.outcome < v->outcome || (w.outcome == v->outcome && excess(&w) < excess(v))) *v = w;
		any = true;
	}
	return true;
}

static void convict(struct verdict *v, const struct suspect *s)
{
	if (s->site >= 0)
		reason(v, FAIL, "rounds %s to %s, which the contract does not allow (%s): coefficient %.3f ± %.3f", v->op->sites[s->site].name,
			rounding_name(s->format, s->rounding), s->name, s->coefficient, s->error);
	else
		reason(v, FAIL, "makes the mistake %s: %s; coefficient %.3f ± %.3f", s->name, s->what, s->coefficient, s->error);
}

/* What the x-ray found goes before the figures that it explains. */
static void add_examination(const struct call *call, struct verdict *v, const struct examination *x)
{
	struct verdict found = *v;

	found.x = *x;
	found.examined = true;
	found.n_reason = 0;
	examine_under(&found.x, call, v->contract);
	for (int i = 0; i < found.x.n; i++)
		if (found.x.suspect[i].state == CONVICTED) convict(&found, &found.x.suspect[i]);
	if (!found.x.explained)
		reason(&found, FAIL, "no rounding and no known mistake explains what is left, %.3g times float32's noise: %s",
			sqrt(found.x.left), found.x.where);
	for (int i = 0; i < v->n_reason && found.n_reason < MAX_REASON; i++)
		memcpy(found.reason[found.n_reason++], v->reason[i], sizeof v->reason[i]);
	*v = found;
}

static bool judge_all(const struct call *call, const struct judging *how, int first, int last, struct verdict *v, struct error *e)
{
	static _Thread_local struct examination x;
	struct truth t = { 0 };
	bool choose = first < last, ok = true;

	if (choose && !how->quick) ok = examine(&x, call, NULL, how->tick, e);
	ok = ok && find_truth(call, how, &t, e) && judge_with(call, &t, how, first, last, choose && !how->quick ? &x : NULL, v, e);
	truth_free(&t);
	if (!ok || how->quick || v->outcome == UNDECIDED) return ok;
	if (!choose && !examine(&x, call, v->contract, how->tick, e)) return false;
	add_examination(call, v, &x);
	return true;
}

bool judge(const struct capture *c, const struct judging *how, struct verdict *v, struct error *e)
{
	struct call call;
	const char *name = how->contract ? how->contract : c->contract;
	int first = 0, last = 0;

	if (!call_bind(&call, c, true, e)) return false;
	if (name && !strcmp(name, "auto")) {
		while (call.op->contracts[last + 1].name) last++;
	} else if (name) {
		first = last = op_contract(call.op, name);
		if (first < 0) return error_set(e, E_UNKNOWN_NAME, name, NO_OFFSET, "expected a contract of %s: see `etalon list contracts`", call.op->name);
	}
	return judge_all(&call, how, first, last, v, e);
}

void judge_stale(const struct capture *c, struct verdict *v)
{
	const char *today = gpu_source_sha256(c->op);

	if (!c->sha256 || strncmp(c->producer, "etalon ", 7) || (today && !strcmp(today, c->sha256))) return;
	reason(v, FAIL, "stale: recorded from sources %.12s..., the kernel is now %.12s...; record it again", c->sha256, today ? today : "gone");
}
