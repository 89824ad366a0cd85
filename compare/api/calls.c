/* Calls in memory: made of tensors, read from a file, drawn from a case. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "compare/truth/answered.h"
#include "ref/formula/formula.h"

_Static_assert((int)ETALON_MAX_RANK == (int)MAX_RANK, "as a file's");

const char *etalon_op(const char *path, struct etalon_error *error)
{
	struct error e;
	const struct formula *f = formula_read(path, &e);

	if (!f || !(op_add(formula_op(f)) || error_set(&e, E_MEMORY, path, NO_OFFSET, "an op"))) return api_error(error, &e), NULL;
	return formula_op(f)->name;
}

/* ---- made and freed ---- */
static etalon_call *empty(struct etalon_error *error)
{
	etalon_call *call = calloc(1, sizeof *call);
	struct error e;

	if (!call) api_error(error, (error_set(&e, E_MEMORY, NULL, NO_OFFSET, "a call"), &e));
	return call;
}

void etalon_call_free(etalon_call *call)
{
	if (call) capture_free(&call->capture);
	free(call);
}

static etalon_call *failed(etalon_call *call, const struct error *e, struct etalon_error *error)
{
	etalon_call_free(call);
	api_error(error, e);
	return NULL;
}

static const struct op *known(const char *name, struct error *e)
{
	const struct op *op = op_find(name);

	if (!op) error_set(e, E_OP, name, NO_OFFSET, "see `etalon list ops`");
	return op;
}

etalon_call *etalon_call_new(const char *op, const char *params, struct etalon_error *error)
{
	etalon_call *call = empty(error);
	struct error e;

	if (!call) return NULL;
	struct capture *c = &call->capture;
	if (!known(op, &e)) return failed(call, &e, error);
	if (!meta_set(&c->tensors, "etalon.op", op) || !meta_set(&c->tensors, "etalon.params", params ? params : "{}"))
		return error_set(&e, E_MEMORY, op, NO_OFFSET, "a call"), failed(call, &e, error);
	return capture_bind(c, &e) ? call : failed(call, &e, error);
}

static bool copy(struct tensors *to, const struct tensors *from, struct error *e)
{
	bool ok = true;

	for (size_t i = 0; ok && i < from->n_meta; i++) ok = meta_set(to, from->meta[i].key, from->meta[i].value);
	for (size_t i = 0; ok && i < from->n; i++) {
		const struct tensor *x = &from->item[i];
		struct tensor *y = tensors_add(to, x->name, x->dtype, x->rank, x->shape);
		if (y && x->bytes) memcpy(y->data, x->data, x->bytes);
		ok = y;
	}
	return ok || error_set(e, E_MEMORY, NULL, NO_OFFSET, "a call");
}

etalon_call *etalon_call_read(const char *path, struct etalon_error *error)
{
	etalon_call *call = empty(error);
	struct capture c;
	struct error e;

	if (!call) return NULL;
	if (!capture_read(&c, path, &e)) return failed(call, &e, error);
	bool ok = copy(&call->capture.tensors, &c.tensors, &e) && capture_bind(&call->capture, &e);
	capture_free(&c);
	return ok ? call : failed(call, &e, error);
}

etalon_call *etalon_call_case(const char *op, const char *name, uint64_t seed, struct etalon_error *error)
{
	etalon_call *call = empty(error);
	struct error e;

	if (!call) return NULL;
	const struct op *o = known(op, &e);
	const struct test_case *k = o ? op_case(o, name) : NULL;
	if (o && !k) op_lacks(&e, o, "cases", name);
	return k && case_make(&call->capture, k, seed, false, &e) ? call : failed(call, &e, error);
}

/* ---- tensors ---- */

/* The part of x at `from` of axes a and on, row by row, to *to, which moves on. */
static void gather(const struct etalon_tensor *x, size_t size, int a, const char *from, char **to)
{
	if (a == x->rank) {
		memcpy(*to, from, size);
		*to += size;
		return;
	}
	if (a == x->rank - 1 && x->strides[a] == 1) {
		memcpy(*to, from, x->shape[a] * size);
		*to += x->shape[a] * size;
		return;
	}
	for (size_t i = 0; i < x->shape[a]; i++) gather(x, size, a + 1, from + (ptrdiff_t)i * x->strides[a] * (ptrdiff_t)size, to);
}

static void fill(struct tensor *to, const struct etalon_tensor *x)
{
	char *at = to->data;

	if (to->bytes && x->strides) gather(x, dtype_info[to->dtype].size, 0, x->data, &at);
	else if (to->bytes) memcpy(to->data, x->data, to->bytes);
}

/* A tensor of that name, type and shape, in the place of an older one. */
static struct tensor *place(struct tensors *t, const struct etalon_tensor *x, enum dtype d)
{
	struct tensor *old = tensors_find(t, x->name), *made = tensors_add(t, x->name, d, x->rank, x->shape);

	if (!made || !old) return made;
	old = tensors_find(t, x->name);         /* the list may have moved */
	struct tensor was = *old;
	*old = *made;
	t->n--;
	free(was.name);
	free(was.data);
	return old;
}

static bool is_sound(const struct etalon_tensor *x, enum dtype *d, struct error *e)
{
	size_t n = 1;

	if (!x->name || (strncmp(x->name, "in.", 3) && strncmp(x->name, "out.", 4)))
		return error_set(e, E_NAME, x->name ? x->name : "", NO_OFFSET, "expected in.NAME or out.NAME");
	if (!x->dtype || !dtype_by_name(x->dtype, d))
		return error_set(e, E_DTYPE, x->name, NO_OFFSET, "'%s'; expected F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I32, I64 or U8",
			x->dtype ? x->dtype : "");
	if (x->rank < 0 || x->rank > MAX_RANK)
		return error_set(e, E_RANK, x->name, NO_OFFSET, "%d; expected 0 to %d", x->rank, MAX_RANK);
	for (int i = 0; i < x->rank; i++) n *= x->shape[i] != 0;
	return !n || x->data || error_set(e, E_MISSING, x->name, NO_OFFSET, "its data is NULL");
}

bool etalon_call_set(etalon_call *call, const struct etalon_tensor *x, struct etalon_error *error)
{
	struct error e;
	enum dtype d;

	if (!call) return false;
	if (!is_sound(x, &d, &e)) return api_error(error, &e);
	struct tensor *to = place(&call->capture.tensors, x, d);
	if (!to) return error_set(&e, E_MEMORY, x->name, NO_OFFSET, "a tensor of this shape"), api_error(error, &e);
	fill(to, x);
	return true;
}

bool etalon_call_get(const etalon_call *call, size_t i, struct etalon_tensor *x)
{
	if (!call || i >= call->capture.tensors.n) return false;
	const struct tensor *t = &call->capture.tensors.item[i];
	*x = (struct etalon_tensor){ t->name, dtype_info[t->dtype].name, t->rank, { 0 }, NULL, t->data };
	memcpy(x->shape, t->shape, sizeof x->shape);
	return true;
}

const char *etalon_call_params(const etalon_call *call) { return call ? meta_get(&call->capture.tensors, "etalon.params") : NULL; }

bool etalon_call_note(etalon_call *call, const char *key, const char *value, struct etalon_error *error)
{
	static const char *const keys[] = { "producer", "device", "contract" };
	char name[32];
	struct error e;
	size_t i = 0;

	if (!call) return false;
	while (i < sizeof keys / sizeof *keys && strcmp(keys[i], key)) i++;
	if (i == sizeof keys / sizeof *keys)
		return error_set(&e, E_UNKNOWN_NAME, key, NO_OFFSET, "expected producer, device or contract"), api_error(error, &e);
	snprintf(name, sizeof name, "etalon.%s", key);
	if (!meta_set(&call->capture.tensors, name, value)) return error_set(&e, E_MEMORY, key, NO_OFFSET, "a note"), api_error(error, &e);
	return capture_bind(&call->capture, &e) || api_error(error, &e);
}

bool etalon_call_write(const etalon_call *call, const char *path, struct etalon_error *error)
{
	struct error e;

	return call && (tensors_write(&call->capture.tensors, path, &e) || api_error(error, &e));
}

/* ---- the reference's answer ---- */
static bool plan(struct plan *p, const struct op *op, const char *arithmetic, const char *fault, struct error *e)
{
	const struct arith *arith;
	int bits, at;

	if (!arith_by_name(arithmetic, &arith, &bits)) return error_set(e, E_UNKNOWN_NAME, arithmetic, NO_OFFSET, "see `etalon list arithmetics`");
	*p = plan_plain(arith, bits);
	if (!fault) return true;
	if ((at = op_fault(op, fault)) < 0) return op_lacks(e, op, "faults", fault);
	plan_fault(p, op, at);
	return true;
}

bool etalon_call_answer(etalon_call *call, const char *arithmetic, const char *fault, struct etalon_error *error)
{
	struct tensors t = { 0 };
	struct answer answer = { 0 };
	struct call bound;
	struct plan p;
	struct error e;
	char by[160];

	if (!call) return false;
	if (!arithmetic) arithmetic = "dd";
	snprintf(by, sizeof by, "etalon ref %s%s%s", arithmetic, fault ? " fault " : "", fault ? fault : "");
	bool ok = call_bind(&bound, &call->capture, false, &e) && plan(&p, bound.op, arithmetic, fault, &e) && ref_run(&bound, &p, &answer, &e)
		&& (answered(&t, &bound, &answer, by) || error_set(&e, E_MEMORY, NULL, NO_OFFSET, "the answer"));
	answer_free(&answer);
	if (!ok) {
		tensors_free(&t);
		return api_error(error, &e);
	}
	tensors_free(&call->capture.tensors);
	call->capture.tensors = t;
	return capture_bind(&call->capture, &e) || api_error(error, &e);
}
