/* etalon isolate: does each request's memory stay its own? */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli.h"
#include "isolate_captures.h"
#include "compare/isolate/isolate_report.h"
#include "gpu/ranks/executor_ranks.h"

struct arguments {
	const char *backend, *inject, *play, *output;
	uint64_t seed, seeds;
	int steps, law;
	int prefill, decode;    /* ranks; 0: one backend, not split */
	const char *state, *data;
	bool thorough, heads, json, plays;      /* plays: an option for plays was given */
	char **path;
	size_t n;
};

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;
	int used = 0;

	a->plays = a->plays || (key > 0 && key < 128 && key != 'j');
	switch (key) {
	case 'b':
		if (strcmp(text, "cpu") != 0 && strcmp(text, "cuda") != 0) argp_error(state, "--backend: expected cpu or cuda, got '%s'", text);
		a->backend = text;
		return 0;
	case 's': a->seed = cli_number(state, "--seed", text, 0, INT64_MAX - 1000000); return 0;
	case 'n': a->seeds = cli_number(state, "--seeds", text, 1, 1000000); return 0;
	case 'k': a->steps = (int)cli_number(state, "--steps", text, 1, 100000); return 0;
	case 'p': a->play = text; return 0;
	case 'i': a->inject = text; return 0;
	case 'o': a->output = text; return 0;
	case 'S': case 'D':
		if (strcmp(text, "F32") != 0 && strcmp(text, "BF16") != 0)
			argp_error(state, "--%s: expected F32 or BF16, got '%s'", key == 'S' ? "state" : "data", text);
		*(key == 'S' ? &a->state : &a->data) = text;
		return 0;
	case 'l':
		if ((a->law = law_find(text)) < 0) argp_error(state, "--law: unknown law '%s'; they are the first column of the report", text);
		return 0;
	case 'r':
		if (sscanf(text, "%1d:%1d%n", &a->prefill, &a->decode, &used) != 2 || text[used]
			|| !executor_ranks("cpu", a->prefill, a->decode))
			argp_error(state, "--ranks: expected PREFILL:DECODE, each 1, 2 or 4, got '%s'",
				text);
		return 0;
	case 'H': a->heads = cli_number(state, "--heads", text, 128, 128); return 0;
	case 't': a->thorough = true; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_END:
		if (a->n && a->plays) argp_error(state, "captures are not played: of the options only --json goes with them");
		return 0;
	case ARGP_KEY_ARGS:
		a->path = state->argv + state->next;
		a->n = (size_t)(state->argc - state->next);
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

/* Types by turns: float32 throughout, bf16 data with float32 states, bf16 throughout. */
static void choose_types(const struct arguments *a, uint64_t seed, enum dtype *state, enum dtype *data)
{
	*state = seed % 3 == 2 ? DT_BF16 : DT_F32;
	*data = seed % 3 == 0 ? DT_F32 : DT_BF16;
	if (a->state) dtype_by_name(a->state, state);
	if (a->data) dtype_by_name(a->data, data);
}

static bool write_shortest(const struct arguments *a, const struct setup *s, const struct scenario *scenario, struct error *e)
{
	struct play_how how = { .marked = -1, .keep_going = true };
	struct play p;
	struct capture c;

	if (!play_make(&p, s, scenario, &how, e)) return false;
	bool ok = play_capture(&c, &p, e);
	play_free(&p);
	if (!ok) return false;
	ok = tensors_write(&c.tensors, a->output, e);
	capture_free(&c);
	return ok;
}

/* Of the first seeds, until all faults would show. */
static bool find_coverage(struct isolate_run *r, const struct setup *s, const struct scenario *scenario, struct error *e)
{
	const struct play_how how = { .marked = -1 };
	const struct fault_spec *m = op_of_slots()->faults;
	struct capture c = { 0 };
	struct play p;
	bool all = true;

	for (int i = 0; m[i].name; i++) all = all && r->visible[i];
	if (all) return true;
	if (!play_make(&p, s, scenario, &how, e)) return false;
	bool ok = play_capture(&c, &p, e) && values_coverage(r->visible, &c, e);
	capture_free(&c);
	play_free(&p);
	return ok;
}

/* One seed's scenario; a failure is explained and shrunk. */
static bool play_seed(struct isolate_run *r, const struct arguments *a,
	const struct executor_backend *backend, const struct executor_backend *one, uint64_t seed,
	struct error *e)
{
	struct scenario scenario;
	struct setup s;

	choose_types(a, seed, &r->state, &r->data);
	struct executor_shape shape = (a->heads ? setup_heads : setup_small)(r->state, r->data);
	if (one) shape = setup_ranks(shape);
	if (!(a->play ? scenario_parse(&scenario, a->play, e) : scenario_draw(&scenario, seed, a->steps, e))) return false;
	if (a->heads && !a->play) scenario_stretch(&scenario);
	bool ok = setup_make(&s, backend, &shape, seed, e);
	s.one = one;
	ok = ok && isolate_scenario(&r->laws, &s, &scenario, a->law, e);
	if (a->play) r->steps = scenario.steps;
	if (ok && r->laws.broken < 0 && (a->law < 0 || a->law == LAW_VALUES)) ok = find_coverage(r, &s, &scenario, e);
	if (ok && r->laws.broken >= 0) {
		struct isolation again = { .broken = -1 };
		r->seed = seed;
		ok = isolate_explain(&r->why, &s, &scenario, &r->laws, e)
			&& isolate_shrink(&r->shortest, &s, &scenario, &r->laws, &r->why, cli_stage, e);
		r->shrunk = ok;
		ok = ok && isolate_scenario(&again, &s, &r->shortest, r->laws.broken, e) && (!a->output || write_shortest(a, &s, &r->shortest, e));
		if (ok && again.broken >= 0) r->laws.breach = again.breach;
	}
	scenario_free(&scenario);
	setup_free(&s);
	return ok;
}

static bool play_all(struct isolate_run *r, const struct arguments *a, struct error *e)
{
	const struct executor_backend *inner = strcmp(a->backend, "cpu") ? executor_cuda(e)
		: &executor_cpu;
	const struct executor_backend *backend = inner, *one = NULL;

	if (!inner) return false;
	if (a->prefill) backend = executor_ranks(a->backend, a->prefill, a->decode), one = inner;
	r->backend = backend->name;
	for (uint64_t i = 0; i < r->seeds && r->laws.broken < 0; i++) {
		if (a->law == LAW_SCRATCH || a->law == LAW_LARGE) break;
		cli_stage("seeds", i, r->seeds);
		if (!play_seed(r, a, backend, one, r->first_seed + i, e)) return false;
	}
	cli_stage("seeds", 1, 1);
	if (r->laws.broken >= 0 || a->play) return true;
	if (!isolate_shapes(&r->laws, backend, a->thorough, a->law, cli_stage, e)) return false;
	if (r->laws.broken < 0) return true;
	return isolate_explain(&r->why, NULL, NULL, &r->laws, e);
}

/* One law alone that had nothing to see has not been held. */
static bool tried(const struct isolate_run *r, const struct arguments *a, struct error *e)
{
	if (a->law < 0 || r->laws.broken >= 0 || r->laws.law[a->law].counted) return true;
	return error_set(e, E_USAGE, laws[a->law].name, NO_OFFSET, a->play ? "this law sees nothing in the scenario given"
		: "this law sees nothing in these scenarios");
}

static int play(const struct arguments *a)
{
	struct isolate_run r = { .asked = a->backend, .prefill = a->prefill, .decode = a->decode, .inject = a->inject, .first_seed = a->seed, .seeds = a->play ? 1 : a->seeds, .heads = a->heads,
		.steps = a->steps, .play = a->play, .laws.broken = -1 };
	struct error e = { 0 };

	if (a->inject && !executor_inject(a->inject)) {
		error_set(&e, E_USAGE, a->inject, NO_OFFSET, executor_faults[0].name ? "no such fault; see faults of mixed_batch"
			: "this etalon has no faults to inject: `make faults` builds one that has");
		return print_failure(&e);
	}
	int status = play_all(&r, a, &e) && tried(&r, a, &e) ? (r.laws.broken < 0 ? EXIT_PASS : EXIT_FAIL) : print_failure(&e);
	if (!e.code && a->json) {
		int written = json_print(isolate_json(&r));
		if (written != EXIT_PASS) status = written;
	} else if (!e.code) {
		isolate_text(stdout, &r);
	}
	scenario_free(&r.shortest);
	return status;
}

int cmd_isolate(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "backend", 'b', "B", 0, "cpu or cuda: etalon's executor (cpu)", 0 },
		{ "seed", 's', "N", 0, "the first seed (1)", 0 },
		{ "seeds", 'n', "N", 0, "how many (20)", 0 },
		{ "steps", 'k', "N", 0, "of each scenario (300)", 0 },
		{ "play", 'p', "TEXT", 0, "this scenario instead; docs/isolate.md has the grammar", 0 },
		{ "law", 'l', "NAME", 0, "this law only, and those of every step", 0 },
		{ "state", 'S', "TYPE", 0, "F32 or BF16 (by turns)", 0 },
		{ "data", 'D', "TYPE", 0, "F32 or BF16 (by turns)", 0 },
		{ "ranks", 'r', "P:D", 0,
			"heads are split over P ranks that prefill and D that decode, 1, 2 or 4 each",
			0 },
		{ "heads", 'H', "128", 0, "heads of 128, and 13 times as long prefills: those of 32 tokens and more run in chunks on cuda", 0 },
		{ "thorough", 't', NULL, 0, "scratch at all lengths from 1 to 600", 0 },
		{ "inject", 'i', "FAULT", 0, "make this fault on purpose (a build by `make faults` only)", 0 },
		{ "output", 'o', "FILE", 0, "write the shortest failing scenario as a capture of mixed_batch", 0 },
		{ "json", 'j', NULL, 0, "an object on stdout", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "[CAPTURE...]",
		"Plays scenarios of mixed batches on etalon's executor and holds them against the laws of isolation; or holds captures of"
		" mixed_batch against those that can be seen there.", NULL, NULL, NULL };
	struct arguments a = { .backend = "cpu", .seed = 1, .seeds = 20, .steps = 300, .law = -1 };

	cli_parse(&argp, argc, argv, &a);
	return a.n ? isolate_captures(a.path, a.n, a.json) : play(&a);
}
