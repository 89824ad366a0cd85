/* Derivatives against central finite differences of the formula itself, in MPFR with 256 bits. Of Σ d_k out_k at x + h e, the six values at
 * ±h, ±2h, ±3h give the derivative to h^6/140 times the seventh one (Fornberg 1988, table 1): 2^-91 at h = 2^-14; answers are read to
 * 2^-106, which is 2^-92 of a difference. */
#include <math.h>
#include <mpfr.h>
#include <omp.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "ref/grad/grad.h"
#include "tests/witness.h"

#define STEP 0x1p-14
#define CLOSE 1e-20
enum { SAMPLES = 7, TEXT = 2048 };

/* Two steps of rows that decode, pad and prefill, from slots and to them. */
#define MIXED(H) "in.x F64 6,1,10 ~0,1; in.z F64 6,1,2,2 ~0,1; in.a F64 6,1,2 ~0,1; in.b F64 6,1,2 ~0,1; in.conv_weight F64 1,10,3 ~0,1;" \
	"in.A_log F64 1,2 ~-1,0.5; in.dt_bias F64 1,2 ~-1,1; in.norm_weight F64 1,2 ~1,0.2; in.state_pool F64 4,1,2,3,2 ~0,1;" \
	"in.conv_pool F64 4,1,10," H " ~0,1; in.steps I32 3 =0,3,5; in.cu_seqlens I32 6 =0,1,2,4,5,6; in.kinds I32 5 =0,3,1,0,0;" \
	"in.read_slot I32 5 =0,-1,-1,1,0; in.write_slot I32 6 =0,-1,-1,1,2,0; in.dy F64 6,1,2,2 ~0,1; in.dstate_pool F64 4,1,2,3,2 ~0,1;" \
	"in.dconv_pool F64 4,1,10," H " ~0,1"

/* A call: what must be given, what may be, and gradients of outputs. Each set of what may be given is tried that `where` allows, `sets` in all;
 * `usual` is one of them. */
static const struct shown { const char *op, *params, *tensors, *optional[4]; int sets; unsigned usual; } calls[] = {
	{ "rmsnorm", "{\"weight_offset\": 1, \"eps\": 1e-3}", "in.x F64 5,7 ~0.2,1; in.weight F64 7 ~0.1,0.3; in.dy F64 5,7 ~0,1",
		{ "in.residual F64 5,7 ~0,1; in.dresidual_out F64 5,7 ~0,1" }, 2, 1 },
	{ "rmsnorm", "{\"weight_offset\": 0, \"gate\": \"silu\"}", "in.x F64 67,4 ~0,1; in.weight F64 4 ~1,0.3; in.gate F64 67,4 ~0,2; in.dy F64 67,4 ~0,1",
		{ "in.residual F64 67,4 ~0,1; in.dresidual_out F64 67,4 ~0,1" }, 2, 1 },
	{ "rmsnorm_fp8", "{\"weight_offset\": 0}", "in.x F64 3,6 ~0,2; in.weight F64 6 ~1,0.3; in.dy F64 3,6 ~0,0.01; in.dscale F64 3 ~0,9",
		{ "in.residual F64 3,6 ~0,1; in.dresidual_out F64 3,6 ~0,1" }, 2, 1 },
	{ "gated_product", "{}", "in.x F64 4,5 ~0,1; in.dy F64 4,5 ~0,1", { "in.gate F64 4,5 ~0,1", "in.hidden F64 4,3 ~0,1; in.gate_weight F64 3 ~0,1",
		"in.addend F64 4,5 ~0,1" }, 4, 6 },
	{ "gated_product", "{}", "in.x F64 4,5 ~0,1; in.gate F64 4,1 ~0,1; in.dy F64 4,5 ~0,1", { "in.addend F64 4,5 ~0,1" }, 2, 1 },
	{ "l2norm", "{}", "in.x F64 5,7 ~0,1; in.dy F64 5,7 ~0,1", { NULL }, 1, 0 },
	{ "layer_norm", "{}", "in.x F64 5,7 ~0.5,2; in.weight F64 7 ~1,0.3; in.dy F64 5,7 ~0,1", { "in.bias F64 7 ~0,1" }, 2, 1 },
	{ "gelu", "{}", "in.x F64 3,9 ~0,2; in.dy F64 3,9 ~0,1", { NULL }, 1, 0 },
	{ "gelu", "{\"approximate\": \"tanh\"}", "in.x F64 3,9 ~0,2; in.dy F64 3,9 ~0,1", { NULL }, 1, 0 },
	{ "cross_entropy", "{\"z\": 0.25}", "in.x F64 4,9 ~0,3; in.target I32 4 =8,0,3,3", { "in.dloss F64 4 ~0,1", "in.dlogsumexp F64 4 ~0,1" }, 3, 3 },
	{ "scores", "{}", "in.q F64 4,6,5 ~0,1; in.k F64 6,2,5 ~0,1; in.dp F64 6,4,6 ~0,1", { NULL }, 1, 0 },
	{ "scores", "{\"causal\": false}", "in.q F64 4,6,5 ~0,1; in.k F64 6,2,5 ~0,1; in.dp F64 6,4,6 ~0,1", { NULL }, 1, 0 },
	{ "delta_rule", "{}", "in.q F64 11,2,3 ~0,0.5; in.k F64 11,2,3 ~0,0.5; in.v F64 11,4,2 ~0,1; in.g F64 11,4 ~-0.3,0.1; in.beta F64 11,4 ~0.5,0.2",
		{ "in.initial_state F64 1,4,3,2 ~0,1", "in.do F64 11,4,2 ~0,1", "in.dfinal_state F64 1,4,3,2 ~0,1" }, 6, 7 },
	{ "delta_rule", "{\"qk_l2norm\": true}", "in.q F64 11,2,3 ~0,1; in.k F64 11,2,3 ~0,1; in.v F64 11,2,2 ~0,1; in.g F64 11,2 ~-0.3,0.1; "
		"in.beta F64 11,2 ~0.5,0.2; in.initial_state F64 3,2,3,2 ~0,1; in.cu_seqlens I32 4 =0,4,5,11; in.do F64 11,2,2 ~0,1; in.dfinal_state F64 3,2,3,2 ~0,1",
		{ NULL }, 1, 0 },
	{ "gated_delta_rule", "{\"qk_l2norm\": true}", "in.q F64 11,2,3 ~0,0.5; in.k F64 11,2,3 ~0,0.5; in.v F64 11,4,2 ~0,1; in.a F64 11,4 ~0,1; in.A_log F64 4 ~-2,0.3; "
		"in.dt_bias F64 4 ~0,1; in.b F64 11,4 ~0,1; in.do F64 11,4,2 ~0,1", { "in.initial_state F64 1,4,3,2 ~0,1; in.dfinal_state F64 1,4,3,2 ~0,1" }, 2, 1 },
	{ "gated_delta_rule", "{}", "in.q F64 11,2,3 ~0,0.5; in.k F64 11,2,3 ~0,0.5; in.v F64 11,4,2 ~0,1; in.g F64 11,4 ~-0.3,0.1; in.beta F64 11,4 ~0.5,0.2; "
		"in.initial_state F64 2,4,3,2 ~0,1; in.cu_seqlens I32 3 =0,5,11; in.do F64 11,4,2 ~0,1; in.dfinal_state F64 2,4,3,2 ~0,1", { NULL }, 1, 0 },
	{ "rope", "{\"rotary_dim\": 4, \"theta\": 100}", "in.x F64 5,2,6 ~0,1; in.positions I32 5 =0,1,2,7,9; in.dy F64 5,2,6 ~0,1", { NULL }, 1, 0 },
	{ "qk_norm_rope", "{\"rotary_dim\": 4, \"theta\": 100}", "in.qg F64 3,2,12 ~0,1; in.k F64 3,1,6 ~0,1; in.q_weight F64 6 ~0,0.3; in.k_weight F64 6 ~0,0.3; "
		"in.positions I32 3 =0,3,7; in.dq F64 3,2,6 ~0,1; in.dk F64 3,1,6 ~0,1; in.dgate F64 3,2,6 ~0,1", { NULL }, 1, 0 },
	{ "causal_conv1d", "{\"activation\": \"silu\"}", "in.x F64 9,3 ~0,1; in.weight F64 3,4 ~0,1; in.dy F64 9,3 ~0,1", { "in.bias F64 3 ~0,1",
		"in.initial_state F64 1,3,3 ~0,1" }, 4, 3 },
	{ "newton_schulz", "{\"algorithm\": \"gram\", \"coefficients\": [[2, -1.5, 0.5], [2, -1.5, 0.5]], \"restarts\": [1]}",
		"in.x F64 2,3 ~0,1; in.dy F64 2,3 ~0,1", { NULL }, 1, 0 },
	{ "muon_step", "{\"algorithm\": \"standard\", \"coefficients\": [[2, -1.5, 0.5]], \"lr\": 0.5, \"momentum\": 0.5, \"weight_decay\": 0.25, "
		"\"scale\": \"0.2*sqrt(max(n,m))\", \"split\": [1, 3]}", "in.weight F64 4,2 ~0,1; in.grad F64 4,2 ~0,1; in.momentum F64 4,2 ~0,1; "
		"in.dweight F64 4,2 ~0,1; in.dmomentum F64 4,2 ~0,1", { NULL }, 1, 0 },
	{ "attention", "{\"causal\": true, \"softcap\": 2, \"window\": 6}", "in.q F64 3,4,3 ~0,1; in.k F64 9,2,3 ~0,1; in.v F64 9,2,2 ~0,1; in.do F64 3,4,2 ~0,1",
		{ "in.dlse F64 4,3 ~0,1", "in.sinks F64 4 ~0,1", "in.q_descale F64 2 ~1,0.1; in.k_descale F64 2 ~1,0.1; in.v_descale F64 2 ~1,0.2" }, 8, 7 },
	{ "attention", "{\"keys\": 10, \"page\": 2}", "in.q F64 3,2,3 ~0,1; in.k F64 12,2,3 ~0,1; in.v F64 12,2,2 ~0,1; in.pages I32 5 =4,0,5,2,1; "
		"in.do F64 3,2,2 ~0,1; in.dlse F64 2,3 ~0,1", { NULL }, 1, 0 },
	{ "mixed_batch", "{\"l2_eps\": 0.5, \"norm_eps\": 0.5}", MIXED("3") "; in.position I32 5 =4,0,0,2,5", { NULL }, 1, 0 },
	{ "mixed_batch", "{\"conv_layout\": \"window\", \"l2_eps\": 0.5, \"norm_eps\": 0.5}", MIXED("2"), { NULL }, 1, 0 },
	{ "everything", "{}", "in.x F64 5,4 ~0,0.7; in.w F64 4 ~1,0.2; in.s F64 5 ~1,0.2; in.dy F64 5,4 ~0,1; in.dz F64 5,5 ~0,1; in.dl F64 5,4 ~0,1; in.df F64 4 ~0,1",
		{ NULL }, 1, 0 },
	{ "parts", "{}", "in.x F64 70,3 ~0,1; in.w F64 3 ~1,0.5; in.table F64 6,3 ~0,1; in.pick I32 70 =0,5,2,2; in.dy F64 70,3 ~0,1", { NULL }, 1, 0 },
};
enum { CALLS = sizeof calls / sizeof *calls };

static const char everything[] = "op everything\nin x [T, D]  w [D]  s [T]\nout y [T, D]  z [T, T]  l [T, D]  f [D]\n"
	"X = inverse(I + tril(x x', -1) * 0.1)\n"
	"p = X x + s w'\n"
	"q = where(iota(T) >= iota(D)', p, 0.5) * exp2(x) - cumsum(p) / (2 + cos(x))\n"
	"r = w' x' + (x w)' * sin(s)' + s' X\n"
	"n = (x' s) * (1 + w)^1.5 + (s' x)' * w^-1 - last(q)' + w^s[0] * 0 + sqrt(w) * log(w)\n"
	"y[:, :] = q * n' + diag(max(p)) x + maximum(x, p) * abs(p) + erf(x) * tanh(x) - diag(sum(p)) x * softplus(x) + x (x' p)\n"
	"z[:, :] = p p' X' + r + mean(q) + sigmoid(X) * silu(X)\n"
	"for i in T, S from w to f[:]\n"
	"  for j in 0:3, R from S\n"
	"    R = tanh(R * w) + S * i / 4\n"
	"    S = S * 0.9 + R * 0.1\n"
	"  S = S + R * x[i]\n"
	"  l[i] = S * x[i] if i mod 2 == 0 else S + 1\n";
static const char parts[] = "op parts\nin x [T, D]  w [D]  table [V, D]  pick [T] integer\nout y [T, D]\neach t in T\n"
	"v = table[pick[t]] * x[t]\ny[t] = v * w + sum(table[0]) * x[t]\nfault without_w: y[t] = v\n";

/* Is the gradient of an output given? */
static bool text_of(char text[TEXT], const struct shown *s, unsigned set)
{
	snprintf(text, TEXT, "%s", s->tensors);
	for (int k = 0; k < 4 && s->optional[k]; k++)
		if (set >> k & 1) snprintf(text + strlen(text), TEXT - strlen(text), "; %s", s->optional[k]);
	return strstr(text, "in.d") != NULL;
}

/* An output that is stored only where it is asked for. */
static bool is_asked_for(const struct op *op, const char *name)
{
	for (int i = 0; op->out[i].name; i++)
		if (!strcmp(op->out[i].name, name)) return op->out[i].flags & OPTIONAL;
	return false;
}

/* The tensors of `text` that the op takes, with in.x of few bits: x + 3h has no rounding. What has a gradient there is asked for. */
static void make(struct capture *c, const char *op, const char *params, const char *text)
{
	char mine[TEXT] = "", all[TEXT], *save = NULL;

	snprintf(all, sizeof all, "%s", text);
	for (char *one = strtok_r(all, ";", &save); one; one = strtok_r(NULL, ";", &save)) {
		char name[64], type[8], shape[32];
		const struct tensor_spec *in = op_find(op)->in;
		assert_int_equal(sscanf(one, " in.%63s %7s %31s", name, type, shape), 3);
		while (in->name && strcmp(in->name, name)) in++;
		if (in->name) snprintf(mine + strlen(mine), sizeof mine - strlen(mine), "%s%s", mine[0] ? ";" : "", one);
		else if (is_asked_for(op_find(op), name + 1)) snprintf(mine + strlen(mine), sizeof mine - strlen(mine), "; out.%s %s %s", name + 1, type, shape);
	}
	made(c, &(struct sample){ op, params, mine }, 5);
	for (size_t i = 0; i < c->tensors.n; i++) {
		struct tensor *t = &c->tensors.item[i];
		for (size_t k = 0; k < t->count && t->dtype == DT_F64; k++) ((double *)t->data)[k] = rint(((double *)t->data)[k] * 0x1p20) * 0x1p-20;
	}
}

static struct plan plan_of(const char *arith, int form, size_t chunk)
{
	struct plan p = plan_in(arith);

	p.form = form;
	p.chunk = chunk;
	return p;
}

/* to += factor Σ d_k out_k */
static void add_outputs(mpfr_t to, const struct call *call, const struct capture *given, const struct plan *p, double factor)
{
	struct answer a;
	struct error e;
	mpfr_t one;

	if (!ref_run(call, p, &a, &e)) fail_msg("%s: %s", e.file, e.detail);
	mpfr_init2(one, 256);
	for (int i = 0; call->op->out[i].name; i++) {
		char name[64];
		snprintf(name, sizeof name, "in.d%s", call->op->out[i].name);
		if (!tensors_find(&given->tensors, name)) continue;
		for (size_t k = 0; k < call->out_count[i]; k++) {
			mpfr_set_d(one, a.hi[i][k], MPFR_RNDN);
			mpfr_add_d(one, one, a.lo[i][k], MPFR_RNDN);
			mpfr_mul_d(one, one, at(given, name, k) * factor, MPFR_RNDN);
			mpfr_add(to, to, one, MPFR_RNDN);
		}
	}
	mpfr_clear(one);
	answer_free(&a);
}

static double difference(struct capture *c, const struct call *call, const struct capture *given, const struct plan *p, const char *name, size_t k,
	double hi, double lo)
{
	static const double weight[] = { 0, 45, -9, 1 };
	double x = at(c, name, k);
	mpfr_t sum;

	mpfr_init2(sum, 256);
	mpfr_set_zero(sum, 1);
	for (int i = -3; i <= 3; i++) {
		if (!i) continue;
		put(c, name, k, x + i * STEP);
		add_outputs(sum, call, given, p, i < 0 ? -weight[-i] : weight[i]);
	}
	put(c, name, k, x);
	mpfr_div_d(sum, sum, 60 * STEP, MPFR_RNDN);
	mpfr_sub_d(sum, sum, hi, MPFR_RNDN);
	mpfr_sub_d(sum, sum, lo, MPFR_RNDN);
	double apart = fabs(mpfr_get_d(sum, MPFR_RNDN));
	mpfr_clear(sum);
	return apart;
}

/* The largest distance of the gradients from finite differences, over the gradient of each input's rms; -1: `where` forbids the call. */
static double compared(const struct shown *s, const char *text, int form, size_t chunk, const char *fault)
{
	char back[64];
	struct capture forward, backward;
	struct call call;
	struct outcome r;
	struct plan dd = plan_of("dd", form, chunk), wide = plan_of("mpfr:256", form, chunk);
	struct error e;
	double worst = -1;

	snprintf(back, sizeof back, "%s.backward", s->op);
	make(&forward, s->op, s->params, text);
	make(&backward, back, s->params, text);
	if (call_bind(&call, &forward, false, &e)) {
		if (fault) plan_fault(&dd, op_find(back), op_fault(op_find(back), fault)), plan_fault(&wide, call.op, op_fault(call.op, fault));
		run_plan(&r, &backward, &dd);
		worst = 0;
		for (int i = 0; r.call.op->out[i].name; i++) {
			char name[64];
			double rms = 0;
			size_t n = r.call.out_count[i];
			snprintf(name, sizeof name, "in.%s", r.call.op->out[i].name + 1);
			for (size_t k = 0; k < n; k++) rms += r.a.hi[i][k] * r.a.hi[i][k] / (double)n;
			for (size_t k = 0; k < n; k += n < SAMPLES ? 1 : n / SAMPLES) {
				double d = difference(&forward, &call, &backward, &wide, name, k, r.a.hi[i][k], r.a.lo[i][k]) / (rms > 0 ? sqrt(rms) : 1);
				if (!(d <= CLOSE)) print_message("%s %s [%zu]: %g of %g\n", back, name, k, d, sqrt(rms));
				worst = fmax(worst, isnan(d) ? (double)INFINITY : d);
			}
		}
		outcome_free(&r);
	}
	capture_free(&forward);
	capture_free(&backward);
	return worst;
}

static void they_are_the_limits_of_differences(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		const struct shown *s = &calls[i];
		const struct form *form = op_find(s->op)->forms;
		int sets = 0, n = 0;
		double worst = 0;
		while (n < 4 && s->optional[n]) n++;
		for (unsigned set = 0; set < 1u << n; set++) {
			char text[TEXT];
			bool given = text_of(text, s, set);
			for (int f = 0; given && f < MAX_FORM && form[f].name; f++) {
				double d = compared(s, text, f, form[f].chunked ? 4 : 0, NULL);
				sets += d >= 0 && !f;
				worst = fmax(worst, d);
			}
		}
		print_message("%s %s: %d sets, %.2g\n", s->op, s->params, sets, worst);
		assert_int_equal(sets, s->sets);
		assert_true(worst <= CLOSE);
	}
}

/* A fault that is no rounding makes another formula, whose gradients these are. */
static void so_they_are_of_faults(void **state)
{
	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		const struct shown *s = &calls[i];
		char name[64], text[TEXT];
		snprintf(name, sizeof name, "%s.backward", s->op);
		text_of(text, s, s->usual);
		if (i && !strcmp(s->op, calls[i - 1].op)) continue;
		for (const struct fault_spec *m = op_find(name)->faults; m->name; m++) {
			double d = m->is_rounding ? 0 : compared(s, text, m->form < 0 ? 0 : m->form, 0, m->name);
			if (!(d >= 0 && d <= CLOSE)) fail_msg("%s %s: %g", name, m->name, d);
		}
	}
}

/* In every arithmetic, as far as it goes. */
static void arithmetics_agree(void **state)
{
	static const struct { const char *name; double close; } all[] = {
		{ "mpfr:200", 1e-27 }, { "f64", 1e-12 }, { "f64up", 1e-12 }, { "f32", 1e-3 }, { "f32_fma", 1e-3 }, { "f32_tree", 1e-3 }, { "noisy", 1e-3 },
		{ "mma:hopper", 1e-2 }
	};

	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		char back[64], text[TEXT];
		struct capture c;
		struct outcome dd, r;
		snprintf(back, sizeof back, "%s.backward", calls[i].op);
		text_of(text, &calls[i], calls[i].usual);
		make(&c, back, calls[i].params, text);
		run_in(&dd, &c, "dd");
		for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
			run_in(&r, &c, all[k].name);
			double d = distance(&dd, &r);
			if (!(d <= all[k].close)) fail_msg("%s in %s: %g", back, all[k].name, d);
			outcome_free(&r);
		}
		outcome_free(&dd);
		capture_free(&c);
	}
}

/* Sums over pieces have an order of their own. */
static void threads_do_not_matter(void **state)
{
	static const char *const in[] = { "dd", "f32", "noisy" };

	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		for (size_t k = 0; k < 3; k++) {
			char back[64], text[TEXT];
			struct capture c;
			struct outcome one, more;
			snprintf(back, sizeof back, "%s.backward", calls[i].op);
			text_of(text, &calls[i], calls[i].usual);
			make(&c, back, calls[i].params, text);
			run_in(&one, &c, in[k]);
			omp_set_num_threads(3);
			run_in(&more, &c, in[k]);
			omp_set_num_threads(1);
			assert_true(same_outcome(&one, &more));
			outcome_free(&one);
			outcome_free(&more);
			capture_free(&c);
		}
}

/* Ties of a largest element share its gradient. */
static void ties_share(void **state)
{
	struct capture c;
	struct outcome r;

	(void)state;
	made(&c, &(struct sample){ "cross_entropy.backward", "{}", "in.x F64 1,4 =1,2,2,0; in.target I32 1 =0; in.dlogsumexp F64 1 =1" }, 1);
	run_in(&r, &c, "f64");
	double sum = 2 * exp(2) + exp(1) + 1, e[] = { exp(1) / sum, exp(2) / sum, exp(2) / sum, 1 / sum };
	for (int i = 0; i < 4; i++) assert_true(fabs(r.a.hi[0][i] - e[i]) < 1e-15);
	outcome_free(&r);
	capture_free(&c);
}

/* Sites are rounded on the way forward and on the way back; faults are those of the formula. */
static void sites_and_faults(void **state)
{
	static const char text[] = "in.x F32 9,5 ~0,1; in.weight F32 5 ~1,0.3; in.gate F32 9,5 ~0,1; in.dy F32 9,5 ~0,1";
	static const char *const params = "{\"weight_offset\": 0, \"gate\": \"silu\"}";
	const struct op *op = op_find("rmsnorm.backward");
	struct capture c;
	struct outcome plain, r;

	(void)state;
	assert_ptr_equal(op, op_find("rmsnorm_backward"));
	assert_ptr_equal(grad_of(op), op_find("rmsnorm"));
	assert_int_equal(op_site(op, "y"), -1);
	assert_int_equal(op->sites[op_site(op, "dweight")].store, 2);
	assert_int_equal(op_fault(op, "variance_with_stray_lanes"), -1);
	made(&c, &(struct sample){ "rmsnorm.backward", params, text }, 1);
	run_in(&plain, &c, "dd");
	for (int i = 0; op->sites[i].name; i++) {
		struct plan p = plan_in("dd");
		p.round[i] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		run_plan(&r, &c, &p);
		bool there = strstr("dresidual dscale", op->sites[i].name) == NULL;
		if (there && !(distance(&plain, &r) > 1e-6)) fail_msg("%s rounds nothing", op->sites[i].name);
		outcome_free(&r);
	}
	struct plan p = plan_in("dd");
	plan_fault(&p, op, op_fault(op, "zero_centred_for_plain"));
	run_plan(&r, &c, &p);
	assert_true(distance(&plain, &r) > 0.1);
	outcome_free(&r);
	outcome_free(&plain);
	capture_free(&c);
}

static void what_has_no_derivative_is_an_error(void **state)
{
	static const struct { const char *text, *at, *said; } none[] = {
		{ "op none\nin x [R]\nout y [R]\ns = max(x)\np = power_of_two(s)\ny[:] = x / p\n", "none.op:5:1", "power_of_two has none" },
		{ "op none\nin x [R]\nout y [R]\ny[:] = x + memory(x, 0, R)\n", "none.op:4:1", "memory has none" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		struct error e;
		struct capture c;
		struct call call;
		struct formula *f = formula_of_text("none.op", none[i].text, strlen(none[i].text), &e);
		if (!f) fail_msg("%s: %s", e.file, e.detail);
		const struct op *back = grad_make(formula_op(f));
		op_add(formula_op(f));
		made(&c, &(struct sample){ "none.backward", "{}", "in.x F32 5; in.dy F32 5" }, 1);
		assert_false(call_bind(&call, &c, false, &e));
		assert_string_equal(e.file, none[i].at);
		assert_non_null(strstr(e.detail, none[i].said));
		grad_end(back);
		capture_free(&c);
	}
}

static void gradients_are_asked_for_what_is_there(void **state)
{
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	made(&c, &(struct sample){ "rmsnorm.backward", "{\"weight_offset\": 0}", "in.x F32 5,2; in.weight F32 2" }, 1);
	assert_false(call_bind(&call, &c, false, &e));
	assert_non_null(strstr(e.detail, "expected the gradient of an output"));
	capture_free(&c);
	made(&c, &(struct sample){ "rmsnorm.backward", "{\"weight_offset\": 0}", "in.x F32 5,2; in.weight F32 2; in.dresidual_out F32 5,2" }, 1);
	assert_false(call_bind(&call, &c, false, &e));
	assert_non_null(strstr(e.detail, "only with in.residual"));
	capture_free(&c);
	assert_null(op_find("rmsnorm.backward.backward"));
	assert_null(op_find("rope2.backward"));
}

static void add_op(struct formula *f, const struct error *e)
{
	if (!f) fail_msg("%s: %s", e->file, e->detail);
	op_add(formula_op(f));
}

static int load(void **state)
{
	static const char *const files[] = { "l2norm", "layer_norm", "gelu", "cross_entropy", "scores", "delta_rule" };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		char path[64];
		snprintf(path, sizeof path, "tests/ops/%s.op", files[i]);
		add_op(formula_read(path, &e), &e);
	}
	add_op(formula_of_text("everything.op", everything, sizeof everything - 1, &e), &e);
	add_op(formula_of_text("parts.op", parts, sizeof parts - 1, &e), &e);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_are_the_limits_of_differences), cmocka_unit_test(so_they_are_of_faults), cmocka_unit_test(arithmetics_agree), cmocka_unit_test(threads_do_not_matter),
		cmocka_unit_test(ties_share), cmocka_unit_test(sites_and_faults), cmocka_unit_test(what_has_no_derivative_is_an_error),
		cmocka_unit_test(gradients_are_asked_for_what_is_there)
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
