/* Scenarios as text. */
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

/* %r, %c, %n, %k: a request, a checkpoint, tokens, how many are accepted; all else is itself. */
static const struct { enum event_kind kind; const char *form; } forms[] = {
	{ EVENT_FORGET, "c%c." }, { EVENT_END, "r%r." }, { EVENT_PREEMPT, "r%r~" }, { EVENT_FORK, "r%r=c%c" }, { EVENT_PAD, "@%n" },
	{ EVENT_REPLAY, "g" }, { EVENT_RUN, "r%r:%n" }, { EVENT_SPECULATE, "r%r?%n:%k" }, { EVENT_CHECKPOINT, "c%c=r%r" }
};
enum { FORMS = sizeof forms / sizeof *forms };

static int *field(struct event *event, char letter)
{
	switch (letter) {
	case 'r': return &event->request;
	case 'c': return &event->checkpoint;
	case 'n': return &event->tokens;
	default: return &event->accepted;
	}
}

/* Where the word that fits the form ends; NULL: it does not fit. */
static const char *scan(const char *form, const char *text, struct event *event)
{
	for (; *form; form++) {
		if (*form == '%') {
			char *end;
			if (*text < '0' || *text > '9') return NULL;
			unsigned long x = strtoul(text, &end, 10);
			if (x > MOST_NUMBER) return NULL;
			*field(event, *++form) = (int)x;
			text = end;
		} else if (*form != *text++) {
			return NULL;
		}
	}
	return *text && !strchr(" /\n", *text) ? NULL : text;
}

static const char *scan_any(const char *text, struct event *event)
{
	for (int f = 0; f < FORMS; f++) {
		struct event read = { .step = event->step, .kind = forms[f].kind };
		const char *end = scan(forms[f].form, text, &read);
		if (!end) continue;
		*event = read;
		return end;
	}
	return NULL;
}

static bool sound(const struct event *event)
{
	return event->tokens > 0 ? event->accepted <= event->tokens
		: event->kind != EVENT_RUN && event->kind != EVENT_SPECULATE && event->kind != EVENT_PAD;
}

/* Events of a step take effect by kind; the text may have them in any order. */
static void put(struct scenario *s, struct event event)
{
	size_t i = s->n++;

	for (; i > 0 && s->event[i - 1].step == event.step && s->event[i - 1].kind > event.kind
		&& !(event.kind == EVENT_RUN && s->event[i - 1].kind == EVENT_SPECULATE); i--) s->event[i] = s->event[i - 1];
	s->event[i] = event;
}

bool scenario_parse(struct scenario *s, const char *text, struct error *e)
{
	const char *at = text;

	*s = (struct scenario){ .steps = 1, .event = malloc((strlen(text) / 2 + 1) * sizeof *s->event) };
	if (!s->event) return error_set(e, E_MEMORY, "scenario", NO_OFFSET, "%zu bytes", strlen(text));
	while (*at) {
		if (*at == '/') s->steps++;
		if (strchr(" /\n", *at)) {
			at++;
			continue;
		}
		struct event event = { .step = s->steps - 1 };
		const char *end = scan_any(at, &event);
		if (!end || !sound(&event)) {
			error_set(e, E_USAGE, "scenario", (uint64_t)(at - text),
				"expected r1:5, r1?4:2, r1., r1~, r1=c0, c0=r1, c0., @8, g or /, got '%.*s'", (int)strcspn(at, " /\n"), at);
			scenario_free(s);
			return false;
		}
		put(s, event);
		at = end;
	}
	return true;
}

void scenario_print(FILE *to, const struct scenario *s)
{
	size_t i = 0;

	for (int step = 0; step < s->steps; step++) {
		bool first = true;
		if (step) fputs(" / ", to);
		for (; i < s->n && s->event[i].step == step; i++, first = false) {
			struct event event = s->event[i];
			if (!first) putc(' ', to);
			for (const char *form = forms[event.kind].form; *form; form++) {
				if (*form == '%') fprintf(to, "%d", *field(&event, *++form));
				else putc(*form, to);
			}
		}
	}
}
