/* Fuzz target: whatever the bytes, a baseline is refused with its file's name, or it compares with
 * a finding, and every entry of it makes a record of a capture that is gone. */
#include <stdio.h>

#include "compare/report/baseline.h"
#include "tests/fixtures/fuzz.h"

/* A pass of a call with one output, as the corpus' entry has it. */
static void finding_make(struct finding *f)
{
	const struct op *op = op_find("rope");

	require(op && op->out[0].name && op->contracts[0].name);
	*f = (struct finding){ .judged = true, .op = "rope", .call = "0", .name = "a",
		.root = "folder" };
	f->verdict.op = op;
	f->verdict.contract = &op->contracts[0];
	f->verdict.n_out = 1;
	f->verdict.out[0].freedom = 100;
	f->verdict.out[0].rule[RULE_RMS].value = 0.5;
}

/* A reason is given where, and only where, the outcome changed. */
static void compare(const json_t *captures)
{
	static struct finding f;

	finding_make(&f);
	baseline_compare(captures, "b.json", &f, 1);
	require((f.verdict.outcome == FAIL) == (f.verdict.n_reason > 0));
	require((f.verdict.outcome == FAIL) == (f.baseline != NULL));
	if (!json_object_get(captures, "a")) require(f.verdict.outcome == FAIL);
	json_decref(report_json(&f));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static char folder[] = "folder", *folders[] = { folder };
	struct error e = { .code = E_NONE };
	json_t *captures = baseline_parse((const char *)bytes, n, "b.json", &e), *entry;
	const char *name;

	if (!captures) {
		require(e.code > E_NONE && e.code < E_COUNT && !strcmp(e.file, "b.json"));
		return 0;
	}
	compare(captures);
	json_object_foreach(captures, name, entry) {
		json_t *gone = baseline_gone(captures, "b.json", name, folders, 1);
		require(json_integer_value(json_object_get(gone, "exit")) == EXIT_FAIL);
		json_decref(gone);
	}
	json_decref(captures);
	return 0;
}
