/* etalon profile: which intermediates a kernel rounds, and to what, read from its outputs. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cli_op.h"
#include "compare/attribute/profile.h"
#include "compare/limits/limits.h"
#include "compare/structure/structure.h"

enum { MAX_BRIEF = 64, MAX_SAID = 128, MAX_FROM = 8 };

/* from: calls of the same kernel that are read first */
struct arguments { const char *path, *table, *captures[MAX_BRIEF], *from[MAX_FROM]; int n, n_from; bool json, brief, verbose; struct structure_search search; };

static const char *type_name(const struct reading *r) { return rounding_name(r->format, r->rounding); }

static const char *said_of(const struct call *call, const struct profile *p, int m, char text[MAX_SAID])
{
	fault_said(call->op, m, fault_value_in(call, m, p->emulation.value[m]), text, MAX_SAID);
	return text;
}

/* structure: NULL where the op's form cannot be read so */
static json_t *json_profile(const struct arguments *a, const struct call *call, const struct profile *p, const struct structure_reading *structure)
{
	json_t *sites = json_array(), *outputs = json_array(), *faults = json_array(), *sums = json_object();
	char said[MAX_SAID];

	for (int j = 0; j < p->n; j++) {
		const struct reading *r = &p->reading[j];
		json_array_append_new(sites, json_pack("{s:s, s:s, s:o, s:o, s:s}", "site", call->op->sites[r->site].name, "type", type_name(r),
			"coefficient", json_figure(r->coefficient), "error", json_figure(r->error), "state", reading_name[r->state]));
	}
	for (int i = 0; i < MAX_OUT; i++)
		if (call->out_count[i])
			json_array_append_new(outputs, json_pack("{s:s, s:I, s:o, s:o, s:o}", "name", call->op->out[i].name,
				"elements", (json_int_t)call->out_count[i], "explained", json_figure(p->out[i].explained),
				"bit_equal", json_figure(p->out[i].bit_equal), "rms", json_figure(p->out[i].rms)));
	for (int m = 0; call->op->faults[m].name; m++)
		if (p->identified && p->emulation.faults >> m & 1) json_array_append_new(faults, json_string(said_of(call, p, m, said)));
	for (int i = 0; i < ACCUMULATORS; i++)
		json_object_set_new(sums, accumulator_name(&p->sums, i), json_figure(p->sums.equal[i]));
	return json_pack("{s:s, s:o, s:s, s:b, s:s, s:I, s:s, s:o, s:o, s:o, s:o}", "capture", a->path, "structure", structure ? structure_json(structure, call) : json_null(), "op", call->op->name, "identified", p->identified,
		"form", call->op->forms[p->emulation.form].name, "chunk", (json_int_t)p->emulation.chunk, "sums",
		accumulator_name(&p->sums, p->sums.best), "accumulators", sums, "outputs", outputs, "sites", sites, "faults", faults);
}

/* The accumulator that is taken, then all, by the share of elements that are equal to the bit. */
static void print_sums(const struct accumulators *a)
{
	puts("\n  sums as             equal to the bit");
	for (int i = 0; i < ACCUMULATORS; i++)
		printf("    %-20s %14.4f %%   %s\n", accumulator_name(a, i), 100 * a->equal[i], i ? a->arith[i]->what : "double");
}

/* Where it is none, nothing of a float32 output's error is a rounding's. */
static const char *share_said(double explained, char text[32])
{
	snprintf(text, 32, explained > 0 ? "%.4f %%" : "noise", 100 * explained);
	return text;
}

static void print_profile(const struct call *call, const struct profile *p)
{
	static const char *const order[] = { [ROUNDED] = "rounds", [NOT_ROUNDED] = "does not round", [UNIDENTIFIABLE] = "not identifiable on these inputs" };
	char said[MAX_SAID], share[32];

	if (p->identified) printf("  computes in the form \"%s\"", call->op->forms[p->emulation.form].name);
	if (p->identified && p->emulation.chunk) printf(", chunks of %zu", p->emulation.chunk);
	if (p->identified) printf("; sums as %s\n", accumulator_name(&p->sums, p->sums.best));
	else puts("  the structure is not identified: nothing is said of what it rounds");
	for (int state = ROUNDED; state >= UNIDENTIFIABLE && p->identified; state--) {
		bool any = false;
		for (int j = 0; j < p->n; j++) {
			const struct reading *r = &p->reading[j];
			if ((int)r->state != state) continue;
			if (!any) printf("\n  %-24s type      coefficient\n", order[state]);
			any = true;
			printf("    %-22s %-8s  %8.4f ± %.4f   %s\n", call->op->sites[r->site].name, type_name(r), r->coefficient, r->error,
				call->op->sites[r->site].what);
		}
	}
	for (int m = 0; call->op->faults[m].name; m++)
		if (p->identified && p->emulation.faults >> m & 1) printf("\n  has the fault %s: %s\n", said_of(call, p, m, said), call->op->faults[m].what);
	puts("\n  output          error explained   equal to the bit   rms left");
	for (int i = 0; i < MAX_OUT; i++)
		if (call->out_count[i])
			printf("  %-14s %16s %16.4f %% %10.3g\n", call->op->out[i].name, share_said(p->out[i].explained, share), 100 * p->out[i].bit_equal,
				p->out[i].rms);
	if (p->identified) print_sums(&p->sums);
}

/* A line: the file and the kernel, what it rounds and how sure that is, the least share of an output's error explained. */
static void print_brief(const struct arguments *a, const struct call *call, const struct profile *p)
{
	const char *file = strrchr(a->path, '/') ? strrchr(a->path, '/') + 1 : a->path, *by = call->capture->producer;
	const char *end = strstr(by, ", CUDA");
	double explained = 1;
	char share[32];
	bool any = false;

	if (!strncmp(by, "etalon ", 7)) by += 7;
	for (int i = 0; i < MAX_OUT; i++)
		if (call->out_count[i] && p->out[i].explained < explained) explained = p->out[i].explained;
	printf("%-40.*s  %-46.*s  %11s  ", (int)(strstr(file, ".etalon.") ? strstr(file, ".etalon.") - file : (long)strlen(file)), file,
		(int)(end && end > by ? end - by : (long)strlen(by)), by, share_said(explained, share));
	for (int j = 0; j < p->n; j++) {
		const struct reading *r = &p->reading[j];
		if (r->state != ROUNDED) continue;
		printf("%s%s %s %.4f ± %.4f", any ? ", " : "", call->op->sites[r->site].name, type_name(r), r->coefficient, r->error);
		any = true;
	}
	puts(any ? "" : p->identified ? "nothing" : "not identified");
}

/* For plots/profile.gp: site, type, coefficient, error, state. */
static bool write_table(const char *path, const struct call *call, const struct profile *p, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (to) fputs("site\ttype\tcoefficient\terror\tstate\n", to);
	for (int j = 0; to && j < p->n; j++) {
		const struct reading *r = &p->reading[j];
		fprintf(to, "%s\t%s\t%.6g\t%.6g\t%s\n", call->op->sites[r->site].name, type_name(r), r->coefficient, r->error, reading_name[r->state]);
	}
	bool ok = to && fclose(to) == 0;
	ok = ok ? text_write(path, text, size, e) : error_set(e, E_MEMORY, path, NO_OFFSET, "a table");
	free(text);
	return ok;
}

static bool by_sites(const struct call *call, struct profile *p, struct error *e)
{
	struct xray x = { 0 };
	bool ok = xray_make(&x, call, cli_stage, e) && emulation_search(&x, NULL) && profile_read(p, &x) && profile_sums(p, &x);

	xray_free(&x);
	cli_stage("x-ray", 1, 1);
	return ok;
}

static void print_header(const struct arguments *a, const struct call *call)
{
	put_clean(stdout, a->path);
	printf("\n  %s by ", call->op->name);
	put_clean(stdout, call->capture->producer);
	if (call->capture->device[0]) fputs(" on ", stdout);
	put_clean(stdout, call->capture->device);
	putchar('\n');
}

/* The structure, each --from read from what the ones before it tell. */
static bool read_structure(struct structure_reading *r, const struct call *call, const struct arguments *a, const char **why, struct error *e)
{
	struct structure_search how = a->search;
	struct structure_choices known = { 0 };
	bool ok = true;

	for (int i = 0; i < a->n_from && ok; i++) {
		struct structure_reading of = { 0 };
		const char *unread = NULL;
		struct capture c;
		struct call other;
		if (!(ok = capture_read(&c, a->from[i], e))) break;
		ok = (!strcmp(c.op, call->op->name) || error_set(e, E_OP, "etalon.op", NO_OFFSET, "expected %s, as in %s; got %s", call->op->name, a->path, c.op))
			&& call_bind(&other, &c, true, e) && structure_read(&of, &other, &how, &unread, e);
		if (!ok) error_in_file(e, a->from[i]);
		if (ok) fprintf(stderr, "  %s: %s\n", a->from[i], unread ? unread : of.choices.n ? "read" : "not identified: not used");
		if (structure_hand_on(&of, &known)) how.known = &known;
		structure_free(&of);
		capture_free(&c);
	}
	ok = ok && structure_read(r, call, &how, why, e);
	free(known.at);
	return ok;
}

/* The formula with the kernel's roundings; where it is not found, the sites by their coefficients, as in a table and in brief. */
static int report(const struct call *call, const struct arguments *a)
{
	struct structure_reading r = { 0 };
	struct error e = { 0 };
	struct profile p;
	const char *why = "a line or a table of sites";

	if (!a->brief && !a->table && !read_structure(&r, call, a, &why, &e)) return print_failure_of(a->path, &e);
	if (a->verbose && why) fprintf(stderr, "  not read as a formula: %s\n", why);
	bool read = !why, enough = read && r.identified && !a->json, ok = enough || by_sites(call, &p, &e);
	ok = ok && (!a->table || write_table(a->table, call, &p, &e));
	if (ok && a->json) {
		ok = json_print(json_profile(a, call, &p, read ? &r : NULL)) == EXIT_PASS;
	} else if (ok && a->brief) {
		print_brief(a, call, &p);
	} else if (ok) {
		print_header(a, call);
		if (read) structure_print(&r, call, stdout);
		if (!enough) print_profile(call, &p);
	}
	structure_free(&r);
	return ok ? EXIT_PASS : print_failure_of(a->path, &e);
}

static int profile(const struct capture *c, const struct arguments *a)
{
	struct error e = { 0 };
	struct call call;

	return call_bind(&call, c, true, &e) ? report(&call, a) : print_failure_of(a->path, &e);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'j': a->json = true; return 0;
	case 't': a->table = text; return 0;
	case 'b': a->brief = true; return 0;
	case 'v': a->verbose = true; return 0;
	case 'w': a->search.work = 1e9 * (double)cli_number(state, "--work", text, 1, 100000); return 0;
	case 's': a->search.seconds = (double)cli_number(state, "--seconds", text, 1, 100000); return 0;
	case 'f':
		if (a->n_from == MAX_FROM) argp_error(state, "expected at most %d --from", MAX_FROM);
		a->from[a->n_from++] = text;
		return 0;
	case ARGP_KEY_ARG:
		if (a->n == MAX_BRIEF) return ARGP_ERR_UNKNOWN;
		a->captures[a->n++] = text;
		return 0;
	case ARGP_KEY_END:
		if (!a->n || (a->n > 1 && !a->brief)) argp_error(state, "expected CAPTURE, or more with --brief");
		if (a->n_from && (a->brief || a->table)) argp_error(state, "--from goes with neither --brief nor --table");
		if (a->brief && (a->json || a->table)) argp_error(state, "--brief goes with neither --json nor --table");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static int profile_file(struct arguments *a, int i)
{
	struct capture c;
	struct error e;

	a->path = a->captures[i];
	if (!capture_read(&c, a->path, &e)) return print_failure(&e);
	int status = profile(&c, a);
	capture_free(&c);
	return status;
}

int cmd_profile(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "brief", 'b', NULL, 0, "a line for each capture: its kernel, how much of the error is explained, what it rounds", 0 },
		{ "table", 't', "FILE", 0, "also the sites as tab-separated text, for plots/profile.gp", 0 },
		{ "from", 'f', "FILE", 0, "begin from what this call of the same kernel tells, one with fewer iterations or tokens, say; again: in turn", 0 },
		{ "work", 'w', "N", 0, "for the search for the structure, in billions of operations, each about half a nanosecond of two cores (default 36)", 0 },
		{ "seconds", 's', "N", 0, "for the search for the structure, of processor time: the report then depends on the machine", 0 },
		{ "verbose", 'v', NULL, 0, "each step of that search on stderr", 0 },
		{ "json", 'j', NULL, 0, "JSON on stdout", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "CAPTURE...",
		"Which intermediates the kernel rounds, and to what, read from its outputs alone.", cli_op, NULL, NULL };
	struct arguments a = { .search.work = structure_work_profile };
	int status = EXIT_PASS;

	cli_parse(&argp, argc, argv, &a);
	if (a.verbose) a.search.log = stderr;   /* while arguments are read stderr is another */
	if (a.brief)
		printf("%-40s  %-46s  %11s  %s\n", "capture", "kernel", "explained", "rounds");
	for (int i = 0; i < a.n && status == EXIT_PASS; i++)
		status = profile_file(&a, i);
	return status;
}
