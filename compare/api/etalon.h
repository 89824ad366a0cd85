/* etalon: is what a kernel computed right? A call of a kernel, its inputs and outputs, is held against the op's exact answer.
 *
 *   struct etalon_error e;
 *   etalon_call *call = etalon_call_new("rmsnorm", "{\"eps\": 1e-6, \"weight_offset\": 0}", &e);
 *   etalon_call_set(call, &(struct etalon_tensor){ "in.x", "BF16", 2, { 64, 896 }, NULL, x }, &e);
 *   …
 *   etalon_verdict *v = etalon_judge(call, NULL, &e);
 *   if (!v) puts(e.message);
 *   else if (etalon_outcome(v) != ETALON_PASS) puts(etalon_reason(v, 0));
 *
 * Functions that return a pointer return NULL, those that return a bool false, where they fail; *error then says why (error may be
 * NULL). NULL for a call or a verdict is such a failure too, and leaves *error as it is. The first error of a call stays: whatever
 * is asked of that call afterwards fails with it, until etalon_call_error reads it. So only the last of several functions need be
 * asked. NULL for what must be there is an error as any other.
 *
 * The ops, their tensors and parameters: `etalon list`. Nothing is printed. Functions may be called by several threads, each on
 * calls and verdicts of its own; etalon_op alone must run before others do. What is computed is computed in a thread of the
 * library's own with OpenMP threads of its own, as many as the caller would have. So it does not depend on the caller's locale,
 * rounding mode, flush-to-zero mode, floating-point traps or stack, and a process may fork before and after. Where the process's
 * default stack of new threads is below 4 MiB, the first call raises it to 8 MiB. */
#ifndef ETALON_H
#define ETALON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif
#ifdef __cplusplus
extern "C" {
#endif

#define ETALON_VERSION "1.0.0"
#define ETALON_MAX_RANK 8
#define ETALON_NO_OFFSET UINT64_MAX

/* The version of the library that is loaded. */
const char *etalon_version(void);

/* ---- errors ---- */
struct etalon_error {
	int code;               /* 2: bad input; 4: the machine failed, as where memory is short. The program's exit codes. */
	uint64_t offset;        /* byte in the file, or ETALON_NO_OFFSET */
	char file[512];         /* "" where no file is involved */
	char item[128];         /* tensor, parameter or name; "" where none is */
	char message[384];      /* what is wrong, and what was expected */
};

/* ---- ops of one's own ---- */

/* Reads an op from its formula, a text file; found before one of etalon's that has its name. Its name, which lasts as long as the
 * program. */
const char *etalon_op(const char *path, struct etalon_error *error);

/* ---- calls ---- */
typedef struct etalon_call etalon_call;

/* name: "in.NAME" or "out.NAME". dtype: "F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I32", "I64" or "U8". strides: in
 * elements, for each axis; NULL: row-major. data in the CPU's memory. */
struct etalon_tensor {
	const char *name, *dtype;
	int rank;
	size_t shape[ETALON_MAX_RANK];
	const ptrdiff_t *strides;
	const void *data;
};

/* A call without tensors. params: a JSON object, or NULL for {}. */
etalon_call *etalon_call_new(const char *op, const char *params, struct etalon_error *error);
/* From a capture, a safetensors file. */
etalon_call *etalon_call_read(const char *path, struct etalon_error *error);
/* The inputs of one of the op's cases, drawn from the seed: the same on every machine. */
etalon_call *etalon_call_case(const char *op, const char *name, uint64_t seed, struct etalon_error *error);

/* Copies the tensor into the call, in the place of one of that name. */
bool etalon_call_set(etalon_call *call, const struct etalon_tensor *tensor, struct etalon_error *error);
/* Tensor number i, from 0; false behind the last. It points into the call, until that is changed or freed. */
bool etalon_call_get(const etalon_call *call, size_t i, struct etalon_tensor *tensor);
/* Its parameters, a JSON object; it lasts until the call is changed or freed. */
const char *etalon_call_params(const etalon_call *call);
/* What a report says of the call: "producer" (whose kernel), "device", "contract" (what it may round; not
 * "auto", which struct etalon_how may say). */
bool etalon_call_note(etalon_call *call, const char *key, const char *value, struct etalon_error *error);
/* The reference's answer in the place of the outputs: in "dd", the exact one, or another arithmetic (NULL: dd), with a known fault
 * (NULL: none). An output keeps its type where it has one, else it is F64. */
bool etalon_call_answer(etalon_call *call, const char *arithmetic, const char *fault, struct etalon_error *error);
/* Had the call an error? *error is the first, and the call may be used again. */
bool etalon_call_error(etalon_call *call, struct etalon_error *error);
/* As a capture, whole or not at all. */
bool etalon_call_write(const etalon_call *call, const char *path, struct etalon_error *error);
void etalon_call_free(etalon_call *call);       /* may be NULL */

/* ---- verdicts ---- */
typedef struct etalon_verdict etalon_verdict;
enum etalon_outcome { ETALON_PASS, ETALON_FAIL, ETALON_UNDECIDED };

/* All may be 0. */
struct etalon_how {
	const char *contract;   /* what the kernel may round; "auto": the tightest that it meets; NULL: the call's, else the op's tightest */
	bool quick;             /* the rules alone: no structure, no roundings, no faults */
	bool require_explained; /* an error within the rules that nothing explains is a failure */
};

etalon_verdict *etalon_judge(const etalon_call *call, const struct etalon_how *how, struct etalon_error *error);

/* ETALON_FAIL of NULL: what could not be judged does not pass. */
enum etalon_outcome etalon_outcome(const etalon_verdict *verdict);
/* Why it did not pass, number i from 0; NULL behind the last. */
const char *etalon_reason(const etalon_verdict *verdict, size_t i);
/* The fault that it has, by name, or NULL. */
const char *etalon_fault(const etalon_verdict *verdict);
/* "text", as `etalon check` prints it, or "json". It lasts as long as the verdict. */
const char *etalon_report(etalon_verdict *verdict, const char *format, struct etalon_error *error);
void etalon_verdict_free(etalon_verdict *verdict);      /* may be NULL */

#ifdef __cplusplus
}
#endif
#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#endif
