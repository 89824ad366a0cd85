/* make strangers: kernels that the product has never seen. Correct ones, each a structure drawn from a seed, must pass;
 * ones with a fault that is must fail, and be given no wrong name. See docs/strangers.md. */
#ifndef ETALON_STRANGERS_H
#define ETALON_STRANGERS_H

#include "fixtures/cases/cases.h"
#include "options.h"

/* ---- cases ---- */
/* A case with what it points to. */
struct made {
	struct test_case k;
	struct case_dim dim[17];
	struct case_tensor in[20], out[5];
	struct case_list lists[10];
	size_t dims, ins, outs, n_lists, used;
	double list[256];
	char params[512];
	const char *note;       /* what the sizes do not say; "" for nothing */
};
void made_dim(struct made *m, const char *name, size_t size);
void made_in(struct made *m, const char *name, const char *shape, enum dtype type, enum draw draw, double a, double b);
void made_out(struct made *m, const char *name, const char *shape, enum dtype type);
void made_list(struct made *m, const char *tensor, const int *x, size_t n);
void made_params(struct made *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
void made_sequences(struct made *m, const char *cuts, struct dice *d, size_t T, size_t N);      /* of random lengths */
size_t made_size(const struct made *m, const char *dim);
void made_resize(struct made *m, const char *dim, size_t size);
bool made_has(const struct made *m, const char *in);
void made_type(struct made *m, const char *tensor, enum dtype type);    /* of the input, or the output, of that name */
/* "T 70, Hk 1, ..., o bf16" */
void made_say(const struct made *m, char *text, size_t size);
void say(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));       /* appends */

/* ---- points ---- */
struct family;
struct point {
	const struct family *family;
	int number;
	int fault;              /* of the family's flaws, counted from 1; 0: none */
	uint64_t seed;
	const char *class;      /* for the page */
	const char *contract;   /* under which it is judged */
	struct made made;
	union {
		struct delta delta;
		struct norm norm;
		struct turn turn;
		struct conv conv;
		struct iteration_options ns;
		struct fused fused;
	} o;
};

/* Where a fault is made: in the float32 kernel at its simplest, in a structure drawn, in a known one. */
enum made_in { SIMPLE, DRAWN, KNOWN };
struct flaw {
	const char *what;
	enum made_in structure;
	const char *contract;   /* NULL: auto */
	const char *name;       /* that the op's file has for it; NULL: none */
};

enum { DRAWN_NUMBER = -1 };     /* of a point that is no number of its family's */
struct family {
	const char *op;
	const char *const *f32;         /* its contracts that round nothing; ends with NULL */
	int points, small;              /* correct kernels, in all and in the small version */
	const struct flaw *flaws;       /* ends with a NULL */
	void (*draw)(struct point *p, struct dice *d);          /* class, options and case */
	void (*simple)(struct point *p);                        /* options at their simplest, all in float32 */
	void (*known)(struct point *p);                         /* NULL: the op has none */
	void (*suit)(struct point *p);                          /* so that its fault can be made, and shows */
	void (*exact)(struct point *p);                         /* takes the roundings away */
	void (*say)(const struct point *p, char *text, size_t size);
	void (*run)(const struct point *p, struct capture *c);  /* fills the outputs */
};
extern const struct family delta_family, rmsnorm_family, rope_family, conv_family, newton_schulz_family, muon_family,
	mixed_family, qk_family, fp8_family, product_family;
extern const struct family *const families[];   /* all, then NULL */

bool point_right(struct point *p, const struct family *f, int number);
bool point_wrong(struct point *p, const struct family *f, int fault);
/* The point's case with its kernel's outputs; freed with capture_free. */
bool point_capture(const struct point *p, struct capture *c, struct error *e);

/* ---- what is said of them ---- */
enum { SEEN_RULES = 6 };        /* as many as a verdict has */
struct seen {
	int outcome;            /* -1: not judged */
	bool by_rule, explained;
	int faults, roundings;        /* that are claimed */
	char contract[32], name[64], reason[256], where[256];
	double ratio[SEEN_RULES]; /* of each rule: the largest value / limit of an output */
};
/* In sigma: the largest rms of an output; the element that is farthest in terms of its limit. */
struct effect { double rms, worst, limit; };
struct unit {
	struct point point;
	char wrong[200];        /* what the self-test says of it without roundings; "": nothing */
	struct seen right, seen;        /* seen: of the fault */
	struct effect effect, there;    /* of the fault: under the contract of the kernel without it, and under its own */
	double seconds;
};
bool unit_test(struct unit *u, struct error *e);
bool unit_judge(struct unit *u, struct error *e);
bool unit_visible(const struct unit *u);        /* the fault's effect is above the contract's own error */
bool unit_excused(const struct unit *u);        /* it is not, under the looser contract that auto has found for it */
bool unit_named_rightly(const struct unit *u);  /* it has no name, or its own alone */
/* Neither a false alarm, nor a fault that passes, nor a wrong name. */
bool unit_good(const struct unit *u);
void unit_name(const struct unit *u, char *text, size_t size);

/* Captures in the folder that a known kernel recorded: whether its point answers as it did. */
enum { MAX_RECORDED = 16 };
struct recorded { char file[96]; const char *kernel; double explained[2], equal[2]; };    /* of o and final_state: shares */
bool known_kernels(const char *folder, struct recorded list[MAX_RECORDED], int *n, struct error *e);
void print_known(const struct recorded *list, int n);
bool known_well(const struct recorded *list, int n);

void print_head(void);
void print_page(const struct unit *unit, int n, double seconds);
bool write_table(const char *path, const struct unit *unit, int n);

#endif
