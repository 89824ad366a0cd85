/* Calls in memory: made of tensors, read from a file, drawn from a case. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "fixtures/io/surroundings.h"
#include "ref/formula/formula.h"

struct reading { const char *path; const struct formula *formula; struct error *e; };
static void read_op(void *with)
{
	struct reading *r = with;
	const struct formula *f = formula_read(r->path, r->e);

	if (f && !op_add(formula_op(f))) error_set(r->e, E_MEMORY, r->path, NO_OFFSET, "an op");
	else r->formula = f;
}

const char *etalon_op(const char *path, struct etalon_error *error)
{
	struct error e;
	struct reading r = { path, NULL, &e };

	if (api_is_null(path, "the path", &e) || !api_run(read_op, &r, &e) || !r.formula) return api_error(error, &e), NULL;
	return formula_op(r.formula)->name;
}

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

	if (!op) op_unknown(name, e);
	return op;
}

etalon_call *etalon_call_new(const char *op, const char *params, struct etalon_error *error)
{
	struct surroundings host;
	struct error e;

	if (api_is_null(op, "the op's name", &e)) return api_error(error, &e), NULL;
	etalon_call *call = empty(error);
	if (!call) return NULL;
	struct capture *c = &call->capture;
	if (!known(op, &e)) return failed(call, &e, error);
	if (!meta_set(&c->tensors, "etalon.op", op) || !meta_set(&c->tensors, "etalon.params", params ? params : "{}"))
		return error_set(&e, E_MEMORY, op, NO_OFFSET, "a call"), failed(call, &e, error);
	surroundings_begin(&host);
	bool ok = capture_bind(c, &e);
	surroundings_end(&host);
	return ok ? call : failed(call, &e, error);
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

/* From a file, or the case of an op. */
struct making { struct capture *to; const char *path, *op, *name; uint64_t seed; bool ok; struct error *e; };
static void read_capture(void *with)
{
	struct making *m = with;
	struct capture c;

	if (!capture_read(&c, m->path, m->e)) return;
	m->ok = copy(&m->to->tensors, &c.tensors, m->e) && capture_bind(m->to, m->e);
	capture_free(&c);
}

static void make_case(void *with)
{
	struct making *m = with;
	const struct op *op = known(m->op, m->e);
	const struct test_case *k = op ? op_case(op, m->name) : NULL;

	if (op && !k) op_lacks(m->e, op, "cases", m->name);
	m->ok = k && case_make(m->to, k, m->seed, false, m->e);
}

static etalon_call *made(void (*make)(void *), struct making m, struct etalon_error *error)
{
	etalon_call *call = empty(error);
	struct error e;

	if (!call) return NULL;
	m.to = &call->capture;
	m.e = &e;
	return api_run(make, &m, &e) && m.ok ? call : failed(call, &e, error);
}

etalon_call *etalon_call_read(const char *path, struct etalon_error *error)
{
	struct error e;

	if (api_is_null(path, "the path", &e)) return api_error(error, &e), NULL;
	return made(read_capture, (struct making){ .path = path }, error);
}

etalon_call *etalon_call_case(const char *op, const char *name, uint64_t seed, struct etalon_error *error)
{
	struct error e;

	if (api_is_null(op, "the op's name", &e) || api_is_null(name, "the case's name", &e)) return api_error(error, &e), NULL;
	return made(make_case, (struct making){ .op = op, .name = name, .seed = seed }, error);
}

const char *etalon_call_params(const etalon_call *call) { return call ? meta_get(&call->capture.tensors, "etalon.params") : NULL; }

bool etalon_call_note(etalon_call *call, const char *key, const char *value, struct etalon_error *error)
{
	static const char *const keys[] = { "producer", "device", "contract" };
	struct surroundings host;
	char name[32];
	struct error e;
	size_t i = 0;

	if (!call || api_has_failed(call, error)) return false;
	if (api_is_null(key, "the key", &e) || api_is_null(value, key, &e)) return api_call_error(call, error, &e);
	while (i < sizeof keys / sizeof *keys && strcmp(keys[i], key)) i++;
	if (i == sizeof keys / sizeof *keys)
		return error_set(&e, E_UNKNOWN_NAME, key, NO_OFFSET, "expected producer, device or contract"), api_call_error(call, error, &e);
	snprintf(name, sizeof name, "etalon.%s", key);
	if (!meta_set(&call->capture.tensors, name, value)) return error_set(&e, E_MEMORY, key, NO_OFFSET, "a note"), api_call_error(call, error, &e);
	surroundings_begin(&host);
	bool ok = capture_bind(&call->capture, &e);
	surroundings_end(&host);
	return ok || api_call_error(call, error, &e);
}

bool etalon_call_write(const etalon_call *call, const char *path, struct etalon_error *error)
{
	struct error e;

	if (!call || api_has_failed(call, error)) return false;
	return (!api_is_null(path, "the path", &e) && tensors_write(&call->capture.tensors, path, &e)) || api_error(error, &e);
}
