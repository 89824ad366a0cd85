/* An op: its tensors, parameters, reference, rounding sites, known faults and contracts. */
#ifndef ETALON_OP_H
#define ETALON_OP_H

#include "calc.h"
#include "fixtures/cases/capture.h"
#include "fixtures/cases/cases.h"

enum { MAX_IN = 24, MAX_OUT = 16, MAX_PARAM = 16, MAX_DIM = 16, MAX_SITE = 64, MAX_FORM = 16, MAX_LIST = 256 };
/* Faults that are no rounding at a site stand first in an op's table, where it has more in all. */
enum { MAX_FAULT = 64 };
enum { DEFAULT_CHUNK = 64, MAX_HELD = 32 };

/* INTEGER: of an output too, whose values are whole numbers. NAMES: of such an output, which are indices, as they were found. TRACE: an output that may be recorded after each iteration, along its first axis behind an optional one. */
enum { OPTIONAL = 1, INTEGER = 2, TRACE = 4, NAMES = 8 };

struct tensor_spec {
	const char *name;       /* without "in." / "out." */
	const char *shape;      /* "T,Hk,Dk"; a symbol may carry +1 or -1; a first one that carries ? may be missing, in all
	                           tensors of a call or in none */
	int flags;
	const char *what;
	const char *with;       /* of an output: the input that it comes with; NULL: it always comes */
};

enum param_kind { PARAM_BOOL, PARAM_REAL, PARAM_CHOICE, PARAM_LIST };
struct param_spec {
	const char *name;
	enum param_kind kind;
	const char *choices;    /* PARAM_CHOICE: "none|silu"; PARAM_LIST: "a,b,c", rows of three, or "t", numbers */
	bool required;
	double absent;          /* value when absent, of a list its length; NaN: see what */
	const char *what;
};

struct site_spec {
	const char *name, *what;
	unsigned forms;         /* bit i: form i has it */
	int store;              /* 1 + the output that this site is the store of, or 0 */
};

struct fault_spec {
	const char *name;
	const char *what;       /* what is computed instead */
	const char *seen;       /* where people met it: owner/repo#number; "" when only feared */
	int form;               /* the one form of the reference that can make it, or -1 */
	bool is_rounding;       /* the fault is a rounding at a site, below */
	int site;
	enum format format;
	const char *parameter;  /* NULL: none. Its values: */
	const char *size;       /* 0, 1, ... below this size of the call, */
	const double *list;     /* or the n of a list, */
	double first;           /* or n whole numbers from this one on, */
	size_t n;
	double by;              /* or, where above 1, numbers within this factor of the right one */
};

struct site_rounding { bool on; enum format format; enum rounding rounding; };

/* A kernel that is known to lie in a contract: what it rounds. */
struct structure { const char *name; struct site_rounding site[MAX_SITE]; };

/* A region: computing in float32, a kernel may round at each of these sites, to that type or a finer one, in chunks of any size. */
struct contract {
	const char *name;
	const char *what;
	int form;
	size_t chunk;           /* chunked forms */
	struct site_rounding site[MAX_SITE];
	const struct structure *structures;     /* ends with a NULL name; NULL: one, that rounds at all sites */
	const char *const *as;  /* what has the types that it rounds to, contract_called_for says how; ends with NULL; NULL: nothing */
};

/* One way to compute the op, cut into pieces that know nothing of each other. */
struct form { const char *name; void (*piece)(calc *c, size_t piece); bool chunked; };

struct call;
struct plan;
struct program;
struct strip;

/* A call cut into strips along the first of its sizes, dims[0], so that not all of an answer need be there at once. */
struct cut {
	span (*pieces)(const struct call *call, span along);            /* those that have to do with this part of dims[0] */
	span (*rows)(const struct call *call, int out, span along);     /* of output out's first axis: those that it completes */
	size_t (*carried)(const struct call *call);                     /* elements carried over from strip to strip, at most */
};
extern const struct cut cut_rows;       /* piece i makes row i of every output, dims[0] of them, each of rank 2 or more */

/* What ranks that share out an op's pieces must tell each other of its program (share.c). */
struct sharing {
	/* How much there is to do in each piece, in some unit; false: as much in each. */
	bool (*loads)(struct program *p, const calc *like, span range, double *load);
	void (*held)(struct program *p, double *hi[MAX_HELD], double *lo[MAX_HELD]);
	/* Elements of outputs, and from MAX_OUT on of what is held, that were stored so far, and more of them. */
	void (*stored)(const struct program *p, size_t n[MAX_OUT + MAX_HELD]);
	void (*add_stored)(struct program *p, const size_t n[MAX_OUT + MAX_HELD]);
	/* Did a piece fail, and how? It did. */
	bool (*failed)(const struct program *p, struct error *e);
	void (*fail)(struct program *p, const struct error *e);
};

/* Tables end with a NULL name. Contracts run from the tightest to the loosest. */
struct op {
	const char *name, *what;
	const char *file;       /* of one's own, as the command line names it; NULL: one of etalon's */
	const char *dims[MAX_DIM + 1];
	const struct tensor_spec *in, *out;
	const struct param_spec *params;
	const struct site_spec *sites;
	const struct fault_spec *faults;
	const struct contract *contracts;
	struct form forms[MAX_FORM];
	/* What shapes cannot say; true when the call is sound. */
	bool (*check)(const struct call *call, struct error *e);
	size_t (*pieces)(const struct call *call);
	const struct cut *cut;                  /* NULL: not to be cut; a piece cut in two carries over: see c_resume */
	bool iterates;                          /* errors inside are amplified, unless a call is anchored */
	/* Of an op that is a formula: what its pieces run, made once for a call and a plan; NULL with an error. */
	struct program *(*prepare)(const struct call *call, const struct plan *plan, struct error *e);
	/* Where the call is not cut: the pieces from this one on that may run beside each other end there, in this plan. NULL: all do. */
	size_t (*runs)(const struct program *program, size_t from);
	bool holds;                             /* pieces hold values for those behind them, or are chunks: none is left out, none differentiated */
	/* Frees it after a run of strip s that is `ok` so far; false with an error that the pieces left in it. */
	bool (*finish)(struct program *program, const struct strip *s, const struct plan *plan, bool ok, struct error *e);
	const struct sharing *sharing;          /* NULL: each rank runs all of it */
	const struct test_case *cases;          /* of its file; NULL: those of this name among test_cases */
	void (*derive)(struct call *call);      /* sizes that no input binds, from those that are; may be NULL */
	/* The number that the parameter of a fault stands in the place of, where `by` is above 1; NAN where there is none. */
	double (*right)(const struct call *call, int fault);
	/* Has this call the trace `out`? Either all that it has are recorded or none. NULL: the op has no traces. */
	bool (*has_trace)(const struct call *call, int out);
};

extern const struct op *ops[];                  /* all of them, then NULL; made before main runs, and then as it is */
const struct op *op_find(const char *name);     /* NULL when unknown; NAME.backward too, the derivative of an op that is a formula */
bool op_unknown(const char *name, struct error *e);       /* of no op: false, with why not */
const struct op *op_backward(const struct op *op);      /* that, or NULL */
/* An op of the user's own, found before those of etalon and those added before. It is not copied. False: memory is short. */
bool op_add(const struct op *op);
const struct op *op_added(size_t i);            /* the i-th last one; NULL behind the first */
const struct test_case *op_case(const struct op *op, const char *name);  /* NULL when unknown */
static inline bool site_in_form(const struct op *op, int site, int form) { return op->sites[site].forms >> form & 1; }
bool site_in_all(const struct op *op, int site);
int site_first_form(const struct op *op, int site);     /* the first that has it */
/* Is it a matrix iteration whose every entry may be recorded: what `etalon eigen` watches? The first of them. */
static inline bool op_is_iteration(const struct op *op) { return op->iterates && op->has_trace; }
const struct op *op_of_iteration(void);
/* Rows of requests, each in its slot of a pool, which integer inputs read_slot and write_slot say: what `etalon isolate` plays. */
bool op_in_slots(const struct op *op);
const struct op *op_of_slots(void);             /* the one that is */

/* Indices by name, or -1. */
int op_site(const struct op *op, const char *name);
int op_fault(const struct op *op, const char *name);
int op_contract(const struct op *op, const char *name);
int op_form(const struct op *op, const char *name);
int op_size(const struct op *op, const char *name);             /* in dims */

/* What a command line needs to know the op, quoted for a shell: " --op 'mine.op'", or "". */
enum { OP_OPTION = 600 };
const char *op_option(const struct op *op, char text[OP_OPTION]);
/* E_UNKNOWN_NAME, with the command that lists what there is: "see `etalon list sites l2norm --op 'mine.op'`". Returns false. */
bool op_lacks(struct error *e, const struct op *op, const char *list, const char *name);

/* ---- a call: an op bound to a capture ---- */
struct call {
	const struct op *op;
	const struct capture *capture;
	const struct tensor *in[MAX_IN];        /* NULL where optional and absent */
	const struct tensor *out[MAX_OUT];      /* NULL where absent */
	size_t dim[MAX_DIM];                    /* a symbol that no tensor binds is 1 */
	size_t out_count[MAX_OUT];              /* elements; 0 for an output that this call has not */
	double param[MAX_PARAM];                /* of a list: its rows */
	double list[MAX_LIST];                  /* the numbers of all lists; the one of parameter p from first[p] on */
	size_t list_first[MAX_PARAM], list_n;
	bool no_batch;                          /* the symbol that may be missing is */
	bool anchored;                          /* iterations start from the recorded traces of the one before */
	size_t at_hand;                         /* elements of outputs that a check of it has at hand at a time; 0: as many as is usual */
};

/* Binds and checks everything: op, parameters, names, ranks, shapes, dtypes, zero sizes, values of
 * integer inputs. With need_outputs, outputs must be there, and the call is anchored if traces are;
 * without, they may be absent, and it is not. The call borrows the capture. */
bool call_bind(struct call *call, const struct capture *c, bool need_outputs, struct error *e);

/* param and list from the capture's; false with *e filled where one is missing, unknown or of the wrong kind. */
bool call_bind_params(struct call *call, struct error *e);

/* For an op's check: cut points [N+1] begin at 0, never fall, and end at the number of tokens. */
bool call_check_cuts(const struct call *call, int in, int dim_tokens, int dim_n, struct error *e);

/* How many sequences the call has: the largest N of an integer input of shape [N+1], its cut points; 1 where there is none. */
size_t call_sequences(const struct call *call);

/* The traces are asked for, recorded or not. False, and nothing changes, where the call has none. */
bool call_trace(struct call *call);

/* Number i of row `row` of list p, each row holding `width`. */
double call_list(const struct call *call, int p, size_t row, size_t width, size_t i);

/* A tensor_spec's shape in the call's sizes, and that of output i; return its rank. */
int call_shape(const struct call *call, const char *spec, size_t shape[MAX_RANK]);
int call_out_shape(const struct call *call, int i, size_t shape[MAX_RANK]);
/* "Hv": the symbol of axis `axis` of output i in this call, whose first one may be missing.
 * Returns text. */
const char *call_out_axis(const struct call *call, int i, int axis, char *text, size_t size);

/* ---- strips ---- */
/* A part of dims[0], and the elements [first, first + count) of output i that it completes. */
struct strip { span along; size_t first[MAX_OUT], count[MAX_OUT]; };
/* How many strips: one of a call of up to `whole` output elements, else of about `most`, but not so small that what a run carries over
 * from one to the next is more than half of it; 1 where the op is not cut. */
size_t call_strips(const struct call *call, size_t whole, size_t most);
struct strip call_strip(const struct call *call, size_t i, size_t n);   /* number i of n */
/* The most elements of each output in one of strips first .. end - 1 of n. */
void call_room(const struct call *call, size_t first, size_t end, size_t n, size_t room[MAX_OUT]);

/* ---- a run of the reference ---- */
#define LAST_OF_TIES UINT64_MAX
struct plan {
	const struct arith *arith;
	int bits;
	int form;
	size_t chunk;
	size_t first_chunk;                     /* of a sequence: below `chunk`, or 0, as the others */
	uint64_t faults;                      /* bit i: fault i is made, */
	double value[MAX_FAULT];                /* at this value of its parameter; NAN: at the middle of a size */
	struct site_rounding round[MAX_SITE];
	size_t stride;                          /* only every stride-th piece, where above 1; answers elsewhere are 0 */
	bool random;                            /* round at sites in a random direction */
	const struct contract *region;          /* of noisy runs behind sigma: each is a structure of its own, see plan_draw; NULL: all are this plan */
	uint64_t seed;                          /* of the random stream */
	uint64_t ties;                          /* of equal numbers top finds the first (0), the last (LAST_OF_TIES), or which this draws, in each piece anew */
	bool keep;                              /* in the checkpoint folder, where one is open (checkpoint.h) */
	struct judged *judged;                  /* may be NULL */
	const char *stage;                      /* what tick is told */
	void (*tick)(const char *stage, size_t done, size_t total);     /* may be NULL; called by one thread at a time */
};

/* The plan of the plain reference in the named arithmetic. */
struct plan plan_plain(const struct arith *a, int bits);

/* Adds a fault to the plan; chooses the form, where only one that is not the first can make it. One with a parameter is made at
 * the first of its values, of a size's at the middle, of a number's at ten times the right one, or the root of its
 * factor where that is less. */
void plan_fault(struct plan *p, const struct op *op, int fault);
double fault_usual(const struct op *op, int fault);             /* that value; NAN: a size's middle, a number's usual one; 0: no parameter */
void plan_fault_at(struct plan *p, const struct op *op, int fault, double value);
void plan_no_fault(struct plan *p, int fault);
/* Does the error of a run tell that with the plan's faults or roundings an index leaves its axis on these inputs? Without them it is the
 * call's, or the op's. */
bool plan_impossible(const struct plan *p, const struct error *e);
/* How many values the fault's parameter has in this call, 0 without one; number i; what a plan's
 * value stands for. Of numbers near the right one they are a grid, from the least to the
 * largest, evenly in the logarithm, without the right one. */
size_t fault_values(const struct call *call, int fault);
double fault_value(const struct call *call, int fault, size_t i);
double fault_value_in(const struct call *call, int fault, double value);
double fault_right(const struct call *call, int fault);         /* of numbers near the right one: that; NAN where there is none */
/* "NAME", "NAME(37)" or "NAME(token = 37)": which fault, and the value that plan_fault_at takes; -1 where there is none. */
int fault_named(const struct op *op, const char *text, double *value);
/* The same said: "token_skipped(token = 37)". */
void fault_said(const struct op *op, int fault, double value, char *text, size_t size);
/* The plan of the contract's known structure i < contract_structures(k): a kernel that the contract was made for. */
int contract_structures(const struct contract *k);
void plan_structure(struct plan *p, const struct contract *k, int i);
void plan_contract(struct plan *p, const struct contract *k);   /* of the first */
/* Any kernel of the region: at each site what one of the known structures does there, in chunks of any usual size, drawn by the seed. */
enum { LONGEST_CHUNK = 128, SHORTEST_CHUNK = 16 };
void plan_draw(struct plan *p, const struct contract *k, uint64_t seed);

/* May a kernel under the contract round the site so? To the contract's type, or a finer one. */
bool contract_allows(const struct contract *k, int site, const struct site_rounding *r);

/* Do the types of the call's data ask for the contract's roundings? A contract that rounds nothing is
 * always called for. Another one is where each type that it rounds to is the type of a tensor that
 * k->as names, or of an input or a parameter where k->as names "operands". TF32 and sums of two bf16
 * are only ever operands of products: a call of a coarser type asks for them, too. Any other contract
 * needs evidence: a structure that was read from the outputs and that rounds so. */
bool contract_called_for(const struct contract *k, const struct call *call);

struct answer {
	double *hi[MAX_OUT], *lo[MAX_OUT];      /* lo: NULL unless the arithmetic is wide */
	uint64_t work;                          /* element operations: the same in every arithmetic */
};

/* Runs all pieces, in parallel; the answer does not depend on the number of threads. On success
 * the caller frees *a with answer_free. The only error is E_MEMORY. */
bool ref_run(const struct call *call, const struct plan *p, struct answer *a, struct error *e);
void answer_free(struct answer *a);

/* A run of `plan` strip by strip: what one strip carries over to the next, and which that is. Begins as { .plan = plan }. */
struct carried_state { span pieces; struct kept *kept; };
struct stream { struct plan plan; struct carried_state carried; size_t next; };

/* Room for strips of up to count[i] elements of output i; false: no memory, and *a is to be freed all the same. */
bool answer_make(struct answer *a, const size_t count[MAX_OUT], bool wide);

/* Strip i of n: *a, made for it, gets its elements, and its work is added to a->work. Strips go in order; to go back is to
 * begin anew, and what is passed over is computed. Together they are what ref_run answers, to the bit. The only error is E_MEMORY.
 * The stream is ended with stream_end, at any time. */
bool ref_strip(const struct call *call, struct stream *l, size_t i, size_t n, struct answer *a, struct error *e);
void stream_end(struct stream *l);

#endif
