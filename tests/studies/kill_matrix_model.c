/* Model kernels and what can be wrong with them. */
#include <math.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "kill_matrix.h"

static const double per_token = 300, per_state = 10, per_product = 75;

/* The product of the case's dimensions among those named, "T Hv " say. */
static double product(const struct test_case *k, const char *names)
{
	double x = 1;

	for (const struct case_dim *d = k->dims; d->name; d++) {
		char name[8];
		snprintf(name, sizeof name, "%s ", d->name);
		if (strstr(names, name)) x *= (double)d->size;
	}
	return x;
}

double case_cost(const struct test_case *k)
{
	if (op_find(k->op)->iterates) return per_product * (product(k, "S M K ") + product(k, "N M "));
	if (product(k, "P ") > 1) return product(k, "T L Hv Dk Dv ") + per_token * product(k, "T L Hv ") + per_state * product(k, "P L Hv Dk Dv ");
	return product(k, "T Hv Dk Dv R H D C W ") + per_token * product(k, "T Hv ") + per_state * product(k, "N Hv Dk Dv ");
}

int faults_of(const struct op *op, struct fault *list)
{
	int n = 0;

	for (int m = 0; op->faults[m].name; m++) list[n++] = (struct fault){ op->faults[m].name, m, -1, 0 };
	for (int s = 0; op->sites[s].name; s++) {
		bool known = false;
		for (int m = 0; op->faults[m].name; m++)
			known = known || (op->faults[m].is_rounding && op->faults[m].site == s && op->faults[m].format == FMT_BF16);
		if (!known) list[n++] = (struct fault){ op->sites[s].name, -1, s, 0 };
	}
	return n;
}

const char *model_name(const struct model *m)
{
	static char name[16][64];
	static int last;
	const struct structure *known = m->contract->structures;

	if (!known) return m->contract->name;
	snprintf(name[last = (last + 1) % 16], sizeof *name, "%s %s", m->contract->name, known[m->structure].name);
	return name[last];
}

struct fault fault_drawn(const struct model *m, const struct fault *f, const struct call *call)
{
	size_t n = f->fault >= 0 ? fault_values(call, f->fault) : 0;
	uint64_t seed = (uint64_t)m->structure;
	struct fault drawn = *f;

	for (const char *s = call->capture->case_name; n && s && *s; s++) seed = random_at(seed + (unsigned char)*s);
	for (const char *s = m->contract->name; n && *s; s++) seed = random_at(seed + (unsigned char)*s);
	if (n) drawn.value = fault_value(call, f->fault, random_at(seed) % n);
	return drawn;
}

struct plan model_plan(const struct model *m, const struct fault *f)
{
	struct plan p = plan_plain(&arith_f32, 24);

	plan_structure(&p, m->contract, m->structure);
	if (f && f->fault >= 0) plan_fault_at(&p, m->op, f->fault, f->value);
	else if (f) p.round[f->site] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	return p;
}

bool fault_is_foreign(const struct model *m, const struct fault *f, const struct call *call)
{
	const struct fault_spec *spec = f->fault >= 0 ? &m->op->faults[f->fault] : NULL;
	int site = !spec ? f->site : spec->is_rounding ? spec->site : -1;

	if (spec && spec->form >= 0 && spec->form != m->contract->form) return true;
	if (site < 0) return false;
	return !site_in_form(m->op, site, m->contract->form) || m->contract->site[site].on || is_store(call, site, &(struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN });
}

static bool records(const struct op *op, const struct test_case *k)
{
	for (int i = 0; op->out[i].name; i++)
		for (int j = 0; k->out[j].name; j++)
			if (op->out[i].flags & TRACE && !strcmp(op->out[i].name, k->out[j].name)) return true;
	return false;
}

bool model_fits(const struct model *m, const struct test_case *k)
{
	const char *asked = k->contract ? k->contract : "lower_f32", *name = m->contract->name;
	size_t lower = strlen("lower_");

	if (!m->op->iterates) return true;
	if (m->contract->site[op_site(m->op, "gram")].on && !records(m->op, k)) return false;
	return !strcmp(name + (strncmp(name, "lower_", lower) ? 0 : lower), asked + (strncmp(asked, "lower_", lower) ? 0 : lower));
}

/* Memory that one call hands to the next, and a scale that others multiply by. */
static bool keeps_type(const char *name) { return !strcmp(name, "final_state") || !strcmp(name, "lse") || !strcmp(name, "scale") || strstr(name, "_pool"); }

/* Activations come in the model's type; memory, a scale and a trace keep their own. */
enum dtype model_out_type(const struct model *m, const struct case_tensor *t)
{
	for (int i = 0; m->op->out[i].name; i++)
		if (!strcmp(m->op->out[i].name, t->name) && m->op->out[i].flags & TRACE) return t->dtype;
	return !m->narrow ? DT_F32 : keeps_type(t->name) ? t->dtype : DT_BF16;
}

bool model_case(const struct model *m, const struct test_case *k, uint64_t seed, struct capture *c, struct call *call, struct error *e)
{
	struct case_tensor out[MAX_OUT + 1] = { 0 };
	struct test_case typed = *k;

	for (int i = 0; k->out[i].name; i++) {
		out[i] = k->out[i];
		out[i].dtype = model_out_type(m, &k->out[i]);
	}
	typed.out = out;
	if (!case_make(c, &typed, seed, true, e)) return false;
	if (call_bind(call, c, true, e)) return true;
	capture_free(c);
	return false;
}

bool model_answer(const struct call *call, const struct plan *p, struct error *e)
{
	struct call free_running;
	struct answer a;

	if (!call_bind(&free_running, call->capture, false, e) || !ref_run(&free_running, p, &a, e)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (call->out_count[i]) dtype_store(call->out[i]->dtype, a.hi[i], call->out_count[i], call->out[i]->data);
	answer_free(&a);
	return true;
}

static struct plan emulation_of(const struct model *m, const struct fault *f)
{
	struct plan p = model_plan(m, f);

	p.arith = &arith_f64;
	p.bits = arith_f64.precision;
	return p;
}

bool model_xray(struct xray *x, const struct model *m, const struct fault *f, const struct call *call, struct error *e)
{
	if (!xray_make(x, call, NULL, e)) return false;
	x->emulation = emulation_of(m, f);
	if (xray_refresh(x)) return true;
	xray_free(x);
	return false;
}

bool fault_size(struct xray *x, const struct model *m, const struct fault *f, double *size)
{
	struct plan p = emulation_of(m, f);
	struct look look = look_of(&p);

	if (!xray_look(x, &look, 1, LOOK_SIZE)) return false;
	*size = look.overflows ? INFINITY : look.size;
	return true;
}

uint64_t outputs_fingerprint(const struct call *call)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);

	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; call->out_count[i] && j < call->out[i]->bytes; j++)
			h = (h ^ ((const unsigned char *)call->out[i]->data)[j]) * UINT64_C(0x100000001b3);
	return h;
}
