#include "isolate_captures.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare/isolate/isolate_laws.h"
#include "compare/report/finding.h"

struct one {
	struct capture capture;
	struct isolation laws;
	struct named named;
	size_t tokens, wrong;
	double share;
	bool read, broken[LAWS];
};

/* The first law that is broken is told; the others are marked. */
static void broken(struct one *o, int law, const struct breach *b)
{
	o->broken[law] = true;
	law_broken(&o->laws, law, b);
}

/* Slots that no token writes are the same before and after, to the bit; NaN too. */
static bool hold_untouched(struct one *o, struct error *e)
{
	const struct capture *c = &o->capture;
	struct isolation *x = &o->laws;
	static const char *const pools[] = { "state_pool", "conv_pool" };
	const struct tensor *write = capture_in(c, "write_slot");
	size_t slots = capture_in(c, "state_pool")->shape[0], layers = capture_in(c, "state_pool")->shape[1];
	bool *written = calloc(slots, sizeof *written);

	if (!written) return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "%zu slots", slots);
	for (size_t t = 0; t < write->count; t++) {
		double slot;
		dtype_load(write->dtype, (const char *)write->data + t * dtype_info[write->dtype].size, 1, &slot);
		if (slot >= 0) written[(size_t)slot] = true;
	}
	x->law[LAW_UNTOUCHED].plays++;
	for (int i = 0; i < 2; i++) {
		const struct tensor *before = capture_in(c, pools[i]), *after = capture_out(c, pools[i]);
		size_t bytes = before->bytes / slots, at = 0;
		for (size_t s = 0; s < slots; s++) {
			const char *p = (const char *)before->data + s * bytes, *q = (const char *)after->data + s * bytes;
			if (written[s]) continue;
			x->law[LAW_UNTOUCHED].counted += i == 0;
			if (before->dtype == after->dtype && !memcmp(p, q, bytes)) continue;
			struct breach b = { "untouched", -1, -1, (int)s, -1, "", false };
			for (at = 0; before->dtype == after->dtype && p[at] == q[at];) at++;
			b.layer = (int)(at / (bytes / layers));
			snprintf(b.what, sizeof b.what, before->dtype == after->dtype ? "no token writes slot %zu, but its %s changed from byte %zu on"
				: "slot %zu of %s is stored in another type afterwards", s, i ? "inputs of the convolution" : "state", at);
			broken(o, LAW_UNTOUCHED, &b);
		}
	}
	free(written);
	return true;
}

/* Padding's y is zero. */
static void hold_padding(struct one *o)
{
	const struct capture *c = &o->capture;
	struct isolation *x = &o->laws;
	const struct tensor *y = capture_out(c, "y"), *cuts = capture_in(c, "cu_seqlens"), *kinds = capture_in(c, "kinds");
	size_t bytes = y->bytes / y->shape[0];

	x->law[LAW_PADDING].plays++;
	for (size_t r = 0; r < kinds->count; r++) {
		double kind, t;
		dtype_load(kinds->dtype, (const char *)kinds->data + r * dtype_info[kinds->dtype].size, 1, &kind);
		dtype_load(cuts->dtype, (const char *)cuts->data + r * dtype_info[cuts->dtype].size, 1, &t);
		if ((int)kind != ROW_PADDING) continue;
		x->law[LAW_PADDING].counted++;
		const char *at = (const char *)y->data + (size_t)t * bytes;
		for (size_t i = 0; i < bytes; i++) {
			struct breach b = { "padding", -1, -1, -1, -1, "", false };
			if (!at[i]) continue;
			snprintf(b.what, sizeof b.what, "y of row %zu, which pads, is not zero", r);
			broken(o, LAW_PADDING, &b);
			break;
		}
	}
}

static bool same(const struct capture *a, const struct capture *b, const char *prefix)
{
	for (size_t i = 0; i < a->tensors.n; i++) {
		const struct tensor *s = &a->tensors.item[i], *t;
		if (strncmp(s->name, prefix, strlen(prefix))) continue;
		t = tensors_find(&b->tensors, s->name);
		if (!t || s->dtype != t->dtype || s->bytes != t->bytes || (s->bytes && memcmp(s->data, t->data, s->bytes))) return false;
	}
	return true;
}

static bool same_inputs(const struct capture *a, const struct capture *b)
{
	return same(a, b, "in.") && same(b, a, "in.") && json_equal(a->params, b->params);
}

/* Against the first capture before it that has the same inputs and parameters. */
static void hold_repeat(struct one *all, size_t i, char **path)
{
	struct isolation *x = &all[i].laws;
	char text[256];

	for (size_t k = 0; k < i; k++) {
		struct breach b = { "repeat", -1, -1, -1, -1, "", false };
		if (!all[k].read || !same_inputs(&all[k].capture, &all[i].capture)) continue;
		x->law[LAW_REPEAT].plays++;
		x->law[LAW_REPEAT].counted += capture_in(&all[i].capture, "write_slot")->count;
		if (same(&all[k].capture, &all[i].capture, "out.")) return;
		snprintf(text, sizeof text, "the inputs of %.150s, other outputs", path[k]);
		copy_clean(b.what, sizeof b.what, text);
		broken(&all[i], LAW_REPEAT, &b);
		return;
	}
}

/* The laws that one capture can show, and, where one is broken, the fault if that is asked for. */
static bool hold_all(struct one *o, bool names, struct error *e)
{
	struct isolation *x = &o->laws;
	struct values v;
	struct call call;

	x->broken = -1;
	if (!call_bind(&call, &o->capture, true, e) || !hold_untouched(o, e)) return false;
	hold_padding(o);
	if (!values_of(&v, &o->capture, e)) return false;
	x->law[LAW_VALUES] = (struct outcome_of_law){ 1, v.tokens, 0, v.worst };
	o->tokens = v.tokens;
	o->wrong = v.wrong;
	o->share = v.share;
	if (v.breach.law) broken(o, LAW_VALUES, &v.breach);
	return x->broken < 0 || !names || values_name(&o->named, &o->capture, e);
}

bool isolate_capture(
	struct isolated *to, bool *breaks, bool names, const struct capture *c, struct error *e)
{
	struct one o = { .capture = *c };
	bool ok = hold_all(&o, names, e);

	*breaks = ok && o.laws.broken >= 0;
	*to = (struct isolated){ o.laws.breach, o.tokens, o.wrong, o.share, o.named };
	return ok;
}

static bool hold(struct one *o, const char *path, struct error *e)
{
	o->laws.broken = -1;
	if (!capture_read(&o->capture, path, e)) return false;
	o->read = true;
	const struct op *op = op_find(o->capture.op);
	if (!op || !op_in_slots(op)) {
		error_set(e, E_OP, o->capture.op, NO_OFFSET, "isolate takes captures of %s", op_of_slots()->name);
		return error_in_file(e, path);
	}
	return hold_all(o, true, e) || error_in_file(e, path);
}

static const int shown[] = { LAW_UNTOUCHED, LAW_PADDING, LAW_VALUES, LAW_REPEAT };
enum { SHOWN = sizeof shown / sizeof *shown };

static void print(const char *path, const struct one *o)
{
	const struct isolation *x = &o->laws;

	printf("%s\n", path);
	for (int i = 0; i < SHOWN; i++) {
		const struct outcome_of_law *l = &x->law[shown[i]];
		printf("  %-10s %8zu %-7s %s", laws[shown[i]].name, l->counted, laws[shown[i]].unit,
			o->broken[shown[i]] ? "BROKEN" : !l->plays ? "not tried: one capture of these inputs" : !l->counted ? "not identifiable here"
				: shown[i] == LAW_VALUES ? "" : "bit for bit");
		if (shown[i] == LAW_VALUES && !o->broken[LAW_VALUES] && l->counted) printf("within the expected error: %.3g sigma at most", l->worst);
		putchar('\n');
	}
	if (x->broken >= 0) {
		printf("  broken     %s: %s\n", x->breach.law, x->breach.what);
		if (x->breach.step >= 0) printf("  where      first wrong step %d, slot %d, layer %d\n", x->breach.step, x->breach.slot, x->breach.layer);
		if (o->named.fault)
			printf("  fault      %s: %s\n             explains %zu of %zu wrong tokens%s\n", o->named.fault->name, o->named.fault->what,
				o->named.explained, o->named.wrong, o->named.alone ? "; no other does" : ", but not alone");
	}
	puts(x->broken < 0 ? "PASS" : "FAIL");
}

static json_t *to_json(const char *path, const struct one *o)
{
	const struct isolation *x = &o->laws;
	json_t *list = json_array();
	char file[4096];

	copy_clean(file, sizeof file, path);
	for (int i = 0; i < SHOWN; i++)
		json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:b}", "law", laws[shown[i]].name, "plays", (json_int_t)x->law[shown[i]].plays,
			"counted", (json_int_t)x->law[shown[i]].counted, "broken", o->broken[shown[i]]));
	return json_pack("{s:s,s:s,s:o,s:s?,s:s?}", "file", file, "verdict", x->broken < 0 ? "pass" : "fail", "laws", list, "what",
		x->broken < 0 ? NULL : x->breach.what, "fault", o->named.fault ? o->named.fault->name : NULL);
}

int isolate_captures(char **path, size_t n, bool json)
{
	struct one *all = calloc(n, sizeof *all);
	json_t *list = json ? json_array() : NULL;
	int status = all ? EXIT_PASS : EXIT_MACHINE;

	for (size_t i = 0; all && i < n; i++) {
		struct error e;
		if (!hold(&all[i], path[i], &e)) {
			status = worse_exit(status, print_failure(&e));
			capture_free(&all[i].capture);
			all[i].read = false;
			continue;
		}
		hold_repeat(all, i, path);
		status = worse_exit(status, all[i].laws.broken < 0 ? EXIT_PASS : EXIT_FAIL);
		if (json) json_array_append_new(list, to_json(path[i], &all[i]));
		else print(path[i], &all[i]);
	}
	for (size_t i = 0; all && i < n; i++)
		if (all[i].read) capture_free(&all[i].capture);
	free(all);
	return json && json_print(list) != EXIT_PASS ? EXIT_MACHINE : status;
}
