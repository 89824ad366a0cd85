/* Fuzz target: whatever a capture holds, it is refused in one line or bound to its op; a small call is then computed. */
#include <stdio.h>

#include "fixtures/cases/capture.h"
#include "ref/call/op.h"
#include "tests/fixtures/fuzz.h"

enum { HEAD = 8, SMALL = 1 << 12, MOST_DIM = 64 };

size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t room, unsigned seed);

static size_t length_of(const uint8_t *bytes)
{
	size_t n = 0;

	for (int i = HEAD; i-- > 0;) n = n << 8 | bytes[i];
	return n;
}

/* Of the header or of the data: a header whose length is wrong would be refused at once. */
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t room, unsigned seed)
{
	if (n < HEAD || room < n + HEAD || length_of(bytes) > n - HEAD) return LLVMFuzzerMutate(bytes, n, room);
	const size_t header = length_of(bytes), data = n - HEAD - header;
	if (seed % 4 == 0 && data) return HEAD + header + LLVMFuzzerMutate(bytes + HEAD + header, data, seed % 8 ? data : room - HEAD - header);
	uint8_t *kept = malloc(data + 1);
	if (!kept) return n;
	memcpy(kept, bytes + HEAD + header, data);
	size_t now = LLVMFuzzerMutate(bytes + HEAD, header, room - HEAD - data);
	memcpy(bytes + HEAD + now, kept, data);
	free(kept);
	for (int i = 0; i < HEAD; i++) bytes[i] = (uint8_t)(now >> 8 * i);
	return HEAD + now + data;
}

static bool is_small(const struct call *call)
{
	size_t n = 0;

	for (int i = 0; i < MAX_OUT; i++) n += call->out_count[i];
	for (int i = 0; i < MAX_DIM; i++)
		if (call->dim[i] > MOST_DIM) return false;
	return n <= SMALL;
}

static void compute(const struct call *call, struct error *e)
{
	const struct plan plan = plan_plain(&arith_f64, 0);
	struct answer answer = { 0 };

	if (ref_run(call, &plan, &answer, e))
		for (int i = 0; call->op->out[i].name; i++)
			for (size_t k = 0; k < call->out_count[i]; k++) require(answer.hi[i][k] == answer.hi[i][k] || answer.hi[i][k] != answer.hi[i][k]);
	else require(e->code > E_NONE && e->code < E_COUNT);
	answer_free(&answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct capture c = { 0 };
	struct call call;
	struct error e = { .code = E_NONE };

	if (!safetensors_parse(&c.tensors, bytes, n, &e)) return 0;
	if (capture_bind(&c, &e) && call_bind(&call, &c, false, &e)) {
		for (int i = 0; i < MAX_OUT && call.op->out[i].name; i++) require(!call.out[i] || call.out[i]->count == call.out_count[i]);
		if (is_small(&call)) compute(&call, &e);
	} else {
		require(e.code > E_NONE && e.code < E_COUNT);
		require(e.offset == NO_OFFSET || e.offset <= n);
	}
	capture_free(&c);
	return 0;
}
