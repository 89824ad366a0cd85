/* Random scenarios: every request's memory, and every output, must be the hash of its own tokens and of nothing else. */
#include "tests/gpu/executor_ledger.h"

enum { SLOTS = 12, REQUESTS = 8, MARKS = 4, STEPS = 3000 };

struct life { bool lives; int handle, drafts; uint64_t past, draft[4]; int position; };
struct mark { bool lives; int handle; uint64_t past; int position; };

static void assert_own_memory(struct executor *x, const struct life *l)
{
	uint64_t state, ring;

	assert_int_equal(executor_position(x, l->handle), l->position);
	int32_t slot = executor_slot(x, l->handle);
	assert_int_equal(slot >= 0, l->position > 0);
	if (slot < 0) return;
	assert_true(executor_read(x, (size_t)slot, &state, &ring, NULL));
	assert_true(state == l->past && ring == l->past);
}

/* No slot is written twice, none that a row reads is another row's to write; padding has none. */
static void assert_apart(const struct executor_step *s)
{
	int writer[SLOTS];

	memset(writer, -1, sizeof writer);
	for (int r = 0; r < s->rows; r++)
		for (int t = s->cu_seqlens[r]; t < s->cu_seqlens[r + 1]; t++) {
			int32_t slot = s->write_slot[t];
			assert_true(slot >= -1 && slot < SLOTS && (slot < 0 || writer[slot] < 0));
			if (slot >= 0) writer[slot] = r;
			assert_true(s->kinds[r] != ROW_PADDING || (slot == -1 && s->read_slot[r] == -1));
		}
	for (int r = 0; r < s->rows; r++)
		assert_true(s->read_slot[r] < 0 || writer[s->read_slot[r]] < 0 || writer[s->read_slot[r]] == r);
}

static int refusals;            /* steps for which there were too few slots */

static uint64_t draw(uint64_t *seed, uint64_t n) { return random_bits(seed) % n; }

/* A random step of those that live and have no open speculation. Returns how many tokens ran. */
static int random_step(struct executor *x, struct life *life, uint64_t *seed)
{
	struct executor_work work[REQUESTS];
	int who[REQUESTS], n = 0, at[LEDGER_ROWS];
	uint64_t zero[LEDGER_TOKENS] = { 0 };
	struct executor_data d = { in, zero, zero, zero, out };
	struct executor_step s;
	struct error e;

	for (int i = 0; i < REQUESTS; i++)
		if (life[i].lives && !life[i].drafts && draw(seed, 3)) {
			bool speculative = draw(seed, 4) == 0;
			work[n] = (struct executor_work){ life[i].handle, 1 + (int)draw(seed, draw(seed, 2) ? 1 : 4), speculative };
			who[n++] = i;
		}
	if (!n) return 0;
	int decode_rows = draw(seed, 2) ? REQUESTS + (int)draw(seed, 3) : 0;
	if (!executor_plan(x, work, n, decode_rows, &s, at, &e)) {
		assert_int_equal(e.code, E_MEMORY);
		refusals++;
		return 0;
	}
	assert_apart(&s);
	for (int t = 0; t < s.tokens; t++) in[2 * t] = random_bits(seed);
	assert_true(executor_run(x, &d, draw(seed, 2), &e));
	for (int r = 0; r < s.rows; r++) {
		if (at[r] < 0) continue;
		struct life *l = &life[who[at[r]]];
		uint64_t past = l->past;
		int first = s.cu_seqlens[r], tokens = s.cu_seqlens[r + 1] - first;
		assert_true(tokens == work[at[r]].tokens && s.position[r] == l->position);
		for (int t = 0; t < tokens; t++) {
			past = history(past, in[2 * (first + t)]);
			assert_true(out[first + t] == past + past);
			if (work[at[r]].speculative) l->draft[t] = past;
		}
		if (work[at[r]].speculative) l->drafts = tokens;
		else {
			l->past = past;
			l->position += tokens;
		}
	}
	return s.tokens;
}

static void random_change(struct executor *x, struct life *life, struct mark *mark, uint64_t *seed)
{
	struct life *l = &life[draw(seed, REQUESTS)];
	struct mark *m = &mark[draw(seed, MARKS)];

	if (l->lives && l->drafts) {
		int k = (int)draw(seed, (uint64_t)l->drafts + 1);
		assert_true(executor_accept(x, l->handle, k, NULL));
		if (k) l->past = l->draft[k - 1];
		l->position += k;
		l->drafts = 0;
	} else if (!l->lives) {
		bool from = m->lives && draw(seed, 2);
		*l = (struct life){ .lives = true, .handle = admit(x, from ? m->handle : -1) };
		if (from) l->past = m->past, l->position = m->position;
	} else if (!m->lives && l->position) {
		*m = (struct mark){ true, executor_checkpoint(x, l->handle, NULL), l->past, l->position };
	} else if (m->lives && draw(seed, 2)) {
		assert_true(executor_forget(x, m->handle, NULL));
		m->lives = false;
	}
	l = &life[draw(seed, REQUESTS)];
	if (l->lives && draw(seed, 6) == 0) {           /* at any time, with an open speculation too */
		assert_true(executor_release(x, l->handle, NULL));
		l->lives = false;
	}
}

static void everybody_keeps_their_own_history(void **state)
{
	struct executor *x = ledger_executor(SLOTS, 2 * REQUESTS + 4, 64);
	struct life life[REQUESTS] = { 0 };
	struct mark mark[MARKS] = { 0 };
	uint64_t seed = 5;
	int tokens = 0, at[LEDGER_ROWS];
	struct executor_work all[SLOTS];
	struct executor_step s;

	(void)state;
	for (int i = 0; i < STEPS; i++) {
		random_change(x, life, mark, &seed);
		tokens += random_step(x, life, &seed);
		for (int r = 0; r < REQUESTS; r++)
			if (life[r].lives) assert_own_memory(x, &life[r]);
	}
	assert_true(tokens > STEPS && refusals > STEPS / 20 && refusals < STEPS / 2);
	for (int r = 0; r < REQUESTS; r++)
		if (life[r].lives) assert_true(executor_release(x, life[r].handle, NULL));
	for (int m = 0; m < MARKS; m++)
		if (mark[m].lives) assert_true(executor_forget(x, mark[m].handle, NULL));
	/* no slot was lost */
	for (int i = 0; i < SLOTS; i++) all[i] = (struct executor_work){ admit(x, -1), 1, false };
	assert_true(executor_plan(x, all, SLOTS, 0, &s, at, NULL));
	assert_apart(&s);
	executor_close(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(everybody_keeps_their_own_history) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
