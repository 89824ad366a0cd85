/* A layer on the CPU: against a loop in double precision that keeps each request's whole history, and laws that hold to the
 * bit: nothing depends on the batch, on the order of rows, on the cut into steps or on replay. */
#include "tests/gpu/executor_bed.h"

#include <math.h>

/* ---- the witness ---- */

/* y [LONG,L,HV,DV] and memory after each token of a stream; `stored_after[p]`: the state goes through bf16 after token p. */
struct witness { double y[LONG][L][HV][DV], S[L][HV][DK][DV]; };

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* silu of the convolution over the inputs at position - TAPS + 1 .. position, read from the stream itself. */
static double convolved(const struct bed *b, uint64_t stream, int position, size_t layer, size_t channel)
{
	double sum = 0;

	for (int back = 0; back < TAPS && back <= position; back++)
		sum += (double)b->w.conv[(layer * CH + channel) * TAPS + (size_t)(TAPS - 1 - back)] *
		       input(b->s.data, stream, IN_X, position - back, layer * CH + channel);
	return sum * sigmoid(sum);
}

static void unit(const struct bed *b, double *to, uint64_t stream, int position, size_t layer, size_t channel, double scale)
{
	double squares = (double)b->s.l2_eps;

	for (size_t i = 0; i < DK; i++) {
		to[i] = convolved(b, stream, position, layer, channel + i);
		squares += to[i] * to[i];
	}
	for (size_t i = 0; i < DK; i++) to[i] *= scale / sqrt(squares);
}

/* S_ij <- d S_ij + k_i beta (v_j - d sum_l S_lj k_l), one column at a time. */
static void witness_head(struct witness *w, const struct bed *b, uint64_t stream, int p, size_t l, size_t h)
{
	double q[DK], k[DK], o[DV], squares = 0;
	size_t head = l * HV + h, key = h / (HV / HK);

	unit(b, q, stream, p, l, key * DK, 1 / sqrt(DK));
	unit(b, k, stream, p, l, (HK + key) * DK, 1);
	double beta = sigmoid(input(b->s.data, stream, IN_B, p, head));
	double gate = input(b->s.data, stream, IN_A, p, head) + (double)b->w.dt_bias[head];
	double decay = exp(-exp((double)b->w.A_log[head]) * log(1 + exp(gate)));
	for (size_t j = 0; j < DV; j++) {
		double v = convolved(b, stream, p, l, 2 * HK * DK + h * DV + j), seen = 0;
		for (size_t i = 0; i < DK; i++) seen += k[i] * w->S[l][h][i][j];
		o[j] = 0;
		for (size_t i = 0; i < DK; i++) {
			w->S[l][h][i][j] = decay * w->S[l][h][i][j] + k[i] * beta * (v - decay * seen);
			o[j] += q[i] * w->S[l][h][i][j];
		}
		squares += o[j] * o[j] / DV;
	}
	for (size_t j = 0; j < DV; j++) {
		double z = input(b->s.data, stream, IN_Z, p, head * DV + j);
		w->y[p][l][h][j] = o[j] / sqrt(squares + (double)b->s.norm_eps) * (double)b->w.norm[l * DV + j] * z * sigmoid(z);
	}
}

static void witness(struct witness *w, const struct bed *b, uint64_t stream, int tokens, const bool *stored_after)
{
	memset(w, 0, sizeof *w);
	for (int p = 0; p < tokens; p++) {
		for (size_t l = 0; l < L; l++)
			for (size_t h = 0; h < HV; h++) witness_head(w, b, stream, p, l, h);
		double *S = &w->S[0][0][0][0];
		for (size_t i = 0; stored_after[p] && i < L * HV * DK * DV; i++) S[i] = stored(b->s.state, S[i]);
	}
}

/* Largest difference of n numbers in units of the largest expected. */
static double apart(enum dtype d, const void *found, const double *expected, size_t n)
{
	double worst = 0, largest = 0;

	for (size_t i = 0; i < n; i++) {
		double x;
		dtype_load(d, (const char *)found + i * dtype_info[d].size, 1, &x);
		assert_true(isfinite(x));
		worst = fmax(worst, fabs(x - expected[i]));
		largest = fmax(largest, fabs(expected[i]));
	}
	assert_true(largest > 0);
	return worst / largest;
}

/* The ring after n tokens: position p in column p mod W, zero before the first. */
static void assert_ring(const struct bed *b, const void *ring, uint64_t stream, int n)
{
	for (size_t i = 0; i < L * CH; i++)
		for (int p = n - TAPS; p < n; p++) {
			double x;
			dtype_load(b->s.data, (const char *)ring + (i * TAPS + (size_t)(p + TAPS) % TAPS) * dtype_info[b->s.data].size, 1, &x);
			assert_true(x == (p < 0 ? 0 : input(b->s.data, stream, IN_X, p, i)));
		}
}

/* Of what is stored so, in units of the largest number: found 2.5e-7; half a unit in the last place. */
static const double bounds[DT_COUNT] = { [DT_F32] = 1e-6, [DT_BF16] = 0x1p-8 };

static void assert_request(struct bed *b, int request, uint64_t stream, const bool *stored_after, const void *y)
{
	static struct witness w;
	unsigned char states[L * HV * DK * DV * 4], rings[L * CH * TAPS * 4];
	int n = executor_position(b->x, request);

	witness(&w, b, stream, n, stored_after);
	assert_true(executor_read(b->x, (size_t)executor_slot(b->x, request), states, rings, NULL));
	double of_y = apart(b->s.data, y, &w.y[0][0][0][0], (size_t)n * L * HV * DV);
	double of_S = apart(b->s.state, states, &w.S[0][0][0][0], L * HV * DK * DV);
	if (!(of_y <= bounds[b->s.data] && of_S <= bounds[b->s.state]))
		fail_msg("%d tokens: y is off by %.3g, states by %.3g", n, of_y, of_S);
	assert_ring(b, rings, stream, n);
}

/* A request that prefills in two pieces, decodes, speculates on what stands and on what does not; another beside it. */
static void play_all(enum dtype state, enum dtype data)
{
	struct bed b;
	struct executor_shape s = shape(state, data);
	unsigned char *y = outputs(), *other = outputs(), *draft = outputs();
	bool after[LONG] = { [6] = true, [9] = true, [10] = true, [11] = true, [13] = true }, beside[LONG] = { [0] = true, [1] = true };
	size_t n = y_bytes(&s);

	bed_open(&b, &s, &executor_cpu);
	int r = bed_admit(&b, -1), q = bed_admit(&b, -1);
	bed_step(&b, PLAYS({ r, 7, 7, false, y }, { q, 8, 1, false, other }), 0, false);
	bed_step(&b, PLAYS({ r, 7, 3, false, y + 7 * n }, { q, 8, 1, false, other + n }), 4, false);
	bed_step(&b, PLAYS({ r, 7, 1, false, y + 10 * n }), 2, true);
	bed_step(&b, PLAYS({ r, 7, 1, false, y + 11 * n }), 2, true);
	bed_step(&b, PLAYS({ r, 9, 4, true, draft }), 0, false);
	assert_true(executor_accept(b.x, r, 0, NULL));
	bed_step(&b, PLAYS({ r, 7, 4, true, y + 12 * n }), 0, false);
	assert_true(executor_accept(b.x, r, 2, NULL));
	assert_request(&b, r, 7, after, y);
	assert_request(&b, q, 8, beside, other);
	bed_step(&b, PLAYS({ r, 7, 1, false, y + 14 * n }), 0, false);
	after[14] = true;
	assert_request(&b, r, 7, after, y);
	assert_true(executor_guards(b.x, NULL));
	bed_close(&b);
}

static void equals_the_witness_in_float32(void **state)
{
	(void)state;
	play_all(DT_F32, DT_F32);
}

static void equals_the_witness_in_bf16(void **state)
{
	(void)state;
	play_all(DT_F32, DT_BF16);
	play_all(DT_BF16, DT_F32);
	play_all(DT_BF16, DT_BF16);
}

/* ---- laws to the bit ---- */

static void assert_same_memory(struct bed *a, int of_a, struct bed *b, int of_b)
{
	unsigned char states[2][L * HV * DK * DV * 4] = { 0 }, rings[2][L * CH * TAPS * 4] = { 0 };

	assert_true(executor_read(a->x, (size_t)executor_slot(a->x, of_a), states[0], rings[0], NULL));
	assert_true(executor_read(b->x, (size_t)executor_slot(b->x, of_b), states[1], rings[1], NULL));
	assert_memory_equal(states[0], states[1], sizeof *states);
	assert_memory_equal(rings[0], rings[1], sizeof *rings);
}

static void a_split_changes_nothing(void **state)
{
	struct executor_shape s = shape(DT_F32, DT_BF16);
	unsigned char *whole = outputs(), *parts = outputs();
	struct bed a, b;
	size_t n = y_bytes(&s);

	(void)state;
	bed_open(&a, &s, &executor_cpu);
	int r = bed_admit(&a, -1);
	bed_step(&a, PLAYS({ r, 3, 13, false, whole }), 0, false);
	for (int cut = 1; cut < 13; cut++) {
		bed_open(&b, &s, &executor_cpu);
		int q = bed_admit(&b, -1);
		bed_step(&b, PLAYS({ q, 3, cut, false, parts }), 0, false);
		bed_step(&b, PLAYS({ q, 3, 13 - cut, false, parts + (size_t)cut * n }), 0, false);
		assert_memory_equal(whole, parts, 13 * n);
		assert_same_memory(&a, r, &b, q);
		bed_close(&b);
	}
	bed_close(&a);
}

/* Three requests together, padded and replayed, in two orders, and each alone. */
static void neighbours_order_and_replay_change_nothing(void **state)
{
	struct executor_shape s = shape(DT_BF16, DT_F32);
	size_t n = y_bytes(&s);
	struct bed b[5];
	unsigned char *y[5];
	int r[5][3];

	(void)state;
	for (int k = 0; k < 5; k++) {
		y[k] = outputs();
		bed_open(&b[k], &s, &executor_cpu);
		for (int i = 0; i < 3; i++) r[k][i] = bed_admit(&b[k], -1);
		for (int t = 0; t < 3; t++) {
			struct play one = { r[k][0], 1, 1, false, y[k] + (size_t)t * n };
			struct play two = { r[k][1], 2, t ? 1 : 5, false, y[k] + (size_t)(t ? 7 + t : 3) * n };
			struct play three = { r[k][2], 3, 3, false, y[k] + (size_t)(10 + 3 * t) * n };
			if (k == 0) bed_step(&b[k], PLAYS(one, two, three), 0, false);
			else if (k == 1) bed_step(&b[k], PLAYS(three, two, one), 5, t > 0);
			else bed_step(&b[k], k == 2 ? &one : k == 3 ? &two : &three, 1, 0, false);
		}
	}
	assert_memory_equal(y[1], y[0], 19 * n);
	assert_memory_equal(y[2], y[0], 3 * n);
	assert_memory_equal(y[3] + 3 * n, y[0] + 3 * n, 7 * n);
	assert_memory_equal(y[4] + 10 * n, y[0] + 10 * n, 9 * n);
	for (int k = 1; k < 5; k++)
		for (int i = 0; i < 3; i++)
			if (k == 1 || i == k - 2) assert_same_memory(&b[0], r[0][i], &b[k], r[k][i]);
	for (int k = 0; k < 5; k++) bed_close(&b[k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_witness_in_float32), cmocka_unit_test(equals_the_witness_in_bf16),
		cmocka_unit_test(a_split_changes_nothing), cmocka_unit_test(neighbours_order_and_replay_change_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
