/* Calls whose gradients are asked for: of etalon's ops, of tests/ops and of what has every rule of the language. */
#ifndef ETALON_TEST_BACKWARD_H
#define ETALON_TEST_BACKWARD_H

#include <math.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/witness.h"

enum { TEXT = 2048 };

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

#endif
