/* What explains a failure, and the shortest scenario that shows it. */
#include <stdlib.h>
#include <string.h>

#include "isolate_laws.h"

/* By the reference's faults, on one play, if that explains a larger share than x does. */
static bool name_it(struct explanation *x, const struct setup *s, const struct scenario *scenario, int graph, struct error *e)
{
	struct play_how how = { .graph = graph, .marked = -1, .keep_going = true };
	struct capture c = { 0 };
	struct play p;
	struct named n = { 0 };

	if (!play_make(&p, s, scenario, &how, e)) return false;
	bool ok = !p.fed || (play_capture(&c, &p, e) && values_name(&n, &c, e));
	capture_free(&c);
	play_free(&p);
	if (ok && n.fault && n.explained * (x->wrong ? x->wrong : 1) > x->explained * n.wrong)
		*x = (struct explanation){ n.fault->name, n.fault->what, n.fault->seen, n.wrong, n.explained, n.alone, graph, x->leaks_from };
	return ok;
}

/* The first slot whose content, before anything ran, changes an output. */
static bool find_leak(struct explanation *x, const struct setup *s, const struct scenario *scenario, struct error *e)
{
	struct play_how how = { .marked = -1, .keep_going = true };
	size_t size = setup_y_elements(s) * dtype_info[s->shape.data].size;
	struct play base, p;

	if (!play_make(&base, s, scenario, &how, e)) return false;
	bool ok = true;
	for (how.marked = 0; ok && how.marked < (int)s->shape.slots && x->leaks_from < 0; how.marked++) {
		if (!(ok = play_make(&p, s, scenario, &how, e))) break;
		if (p.tokens != base.tokens || memcmp(p.y, base.y, p.tokens * size)) x->leaks_from = how.marked;
		play_free(&p);
	}
	play_free(&base);
	return ok;
}

static void told(struct explanation *x, const char *fault, const char *what, const char *seen)
{
	x->fault = fault;
	x->what = what;
	x->seen = seen;
}

/* Without numbers that fit: a checkpoint that changes was not copied; and plays that differ from launch to launch, on
 * scratch that held other numbers, read what is not written yet. */
static bool tell_without_numbers(struct explanation *x, const struct setup *s, const struct scenario *scenario, const struct isolation *failed,
	struct error *e)
{
	const struct op *op = op_of_slots();
	const struct fault_spec *shared = &op->faults[op_fault(op, "checkpoint_shared_not_copied")];
	size_t size = setup_y_elements(s) * dtype_info[s->shape.data].size;
	struct play first, p;

	if (failed->broken == LAW_UNTOUCHED && failed->breach.checkpoint) return told(x, shared->name, shared->what, shared->seen), true;
	if (!play_make(&first, s, scenario, &(struct play_how){ .marked = -1, .keep_going = true }, e)) return false;
	bool ok = true;
	for (int before = 2; ok && before <= 64 && !x->fault; before *= 2) {
		struct play_how how = { .marked = -1, .keep_going = true, .before = before };
		if (!(ok = play_make(&p, s, scenario, &how, e))) break;
		if (p.tokens != first.tokens || memcmp(p.y, first.y, p.tokens * size))
			told(x, laws[LAW_REPEAT].fault, laws[LAW_REPEAT].fault_what, laws[LAW_REPEAT].seen);
		play_free(&p);
	}
	play_free(&first);
	return ok;
}

bool isolate_explain(struct explanation *x, const struct setup *s, const struct scenario *scenario, const struct isolation *failed, struct error *e)
{
	const struct law *law = &laws[failed->broken];

	*x = (struct explanation){ .leaks_from = -1 };
	if (law->fault) {
		told(x, law->fault, law->fault_what, law->seen);
		return true;
	}
	bool ok = name_it(x, s, scenario, AS_GIVEN, e);
	bool all = x->fault && x->explained == x->wrong;
	return ok && (all || name_it(x, s, scenario, REPLAYED, e))
		&& (x->fault || tell_without_numbers(x, s, scenario, failed, e)) && find_leak(x, s, scenario, e);
}

/* ---- shrinking ---- */

struct shrink {
	struct scenario now;
	const struct setup *setup;
	const struct isolation *failed;
	const struct explanation *why;
	void (*tick)(const char *, size_t, size_t);
	struct error *e;
	int trials;
};
enum { MOST_TRIALS = 1500 };

/* Is the law broken? That tokens are wrong is seen while their fault is named. */
static bool breaks(struct shrink *k, const struct scenario *scenario)
{
	const struct play_how as_given = { .marked = -1 };
	struct isolation x = { .broken = -1 };
	struct play p;

	if (k->failed->broken != LAW_VALUES || !k->why->wrong)
		return isolate_scenario(&x, k->setup, scenario, k->failed->broken, k->e) && x.broken == k->failed->broken;
	if (!play_make(&p, k->setup, scenario, &as_given, k->e)) return false;
	bool sound = !p.breach.law && p.fed;
	play_free(&p);
	return sound;
}

/* Does it fail in the same way? A scenario that cannot be played does not. */
static bool same_failure(struct shrink *k, const struct scenario *scenario)
{
	struct explanation why = { .leaks_from = -1 };

	if (k->tick) k->tick("shrinking", (size_t)k->trials, MOST_TRIALS);
	k->trials++;
	if (!breaks(k, scenario)) return false;
	if (!k->why->wrong) return true;
	return name_it(&why, k->setup, scenario, k->why->graph, k->e) && why.fault && !strcmp(why.fault, k->why->fault)
		&& why.alone >= k->why->alone;
}

/* Keeps the change if it still fails. */
static bool try(struct shrink *k, struct scenario *changed)
{
	if (k->trials >= MOST_TRIALS || !same_failure(k, changed)) {
		scenario_free(changed);
		return false;
	}
	scenario_free(&k->now);
	k->now = *changed;
	return true;
}

static bool without(struct shrink *k, bool (*drop)(const struct event *, size_t, const int *), const int *which)
{
	bool *keep = malloc((k->now.n + 1) * sizeof *keep), any = false;
	struct scenario changed;

	for (size_t i = 0; keep && i < k->now.n; i++) any = !(keep[i] = !drop(&k->now.event[i], i, which)) || any;
	bool ok = keep && any && scenario_select(&changed, &k->now, keep, k->e) && try(k, &changed);
	free(keep);
	return ok;
}

static bool late(const struct event *event, size_t i, const int *step) { return (void)i, event->step > *step; }
static bool in_steps(const struct event *event, size_t i, const int *steps) { return (void)i, event->step >= steps[0] && event->step < steps[1]; }
static bool in_events(const struct event *event, size_t i, const int *ends) { return (void)event, (int)i >= ends[0] && (int)i < ends[1]; }
static bool of_request(const struct event *event, size_t i, const int *id)
{
	return (void)i, event->kind != EVENT_FORGET && event->kind != EVENT_PAD && event->kind != EVENT_REPLAY && event->request == *id;
}

static bool drop_requests(struct shrink *k)
{
	bool any = false;
	int most = 0;

	for (size_t i = 0; i < k->now.n; i++) most = k->now.event[i].request > most ? k->now.event[i].request : most;
	for (int id = most; id >= 0; id--) any = without(k, of_request, &id) || any;
	return any;
}

/* Halves, quarters, ... of the steps or events (Zeller and Hildebrandt 2002: delta debugging). */
static bool drop_pieces(struct shrink *k, bool steps)
{
	int n = steps ? k->now.steps : (int)k->now.n;
	bool any = false;

	for (int size = (n + 1) / 2; size > 0; size /= 2)
		for (int first = n - size; first > -size; first -= size) {
			int ends[2] = { first < 0 ? 0 : first, first + size };
			bool done = without(k, steps ? in_steps : in_events, ends);
			any = any || done;
		}
	return any;
}

/* Fewer tokens: one, or half of them. */
static bool fewer_tokens(struct shrink *k)
{
	bool any = false;

	for (size_t i = 0; i < k->now.n; i++)
		for (int divide = 0; divide < 2; divide++) {
			struct event *at = &k->now.event[i], old = *at;
			struct scenario copy = { k->now.steps, k->now.n, malloc((k->now.n + 1) * sizeof *copy.event) };
			int n = divide ? old.tokens / 2 : 1;
			if (!copy.event) return any;
			memcpy(copy.event, k->now.event, k->now.n * sizeof *copy.event);
			copy.event[i].tokens = n;
			if (copy.event[i].accepted > n) copy.event[i].accepted = n;
			if (n < 1 || n >= old.tokens) scenario_free(&copy);
			else any = try(k, &copy) || any;
		}
	return any;
}

bool isolate_shrink(struct scenario *to, const struct setup *s, const struct scenario *from, const struct isolation *failed,
	const struct explanation *why, void (*tick)(const char *, size_t, size_t), struct error *e)
{
	struct error trial;
	struct shrink k = { .setup = s, .failed = failed, .why = why, .tick = tick, .e = &trial };
	bool *all = malloc((from->n + 1) * sizeof *all), again = true;

	for (size_t i = 0; all && i < from->n; i++) all[i] = true;
	bool ok = all && scenario_select(&k.now, from, all, e);
	free(all);
	if (!ok) return all ? false : error_set(e, E_MEMORY, "scenario", NO_OFFSET, "%zu events", from->n);
	/* What follows the first wrong step is seldom needed, but a fault may take some steps more to show itself. */
	for (int more = 0; failed->breach.step >= 0 && more < from->steps; more = 2 * more + 1) {
		int last = failed->breach.step + more;
		if (without(&k, late, &last)) break;
	}
	while (again && k.trials < MOST_TRIALS) {
		again = drop_requests(&k);
		again = drop_pieces(&k, true) || again;
		again = drop_pieces(&k, false) || again;
		again = fewer_tokens(&k) || again;
	}
	if (tick) tick("shrinking", 1, 1);
	*to = k.now;
	return true;
}
