#define _GNU_SOURCE     /* nftw */
#include "ref/formula/formula.h"
#include "tests/helpers.h"

#include <dirent.h>
#include <ftw.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char folder[] = "/tmp/etalon.XXXXXX";

/* Of each program's tests that one alone, where mutate.sh asks. */
__attribute__((constructor)) static void one_test(void)
{
	const char *name = getenv("ETALON_TEST");

	if (name) cmocka_set_test_filter(name);
}

int scratch_make(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

const char *scratch(const char *name)
{
	static char path[16][512];
	static unsigned next;
	char *p = path[next++ % 16];

	snprintf(p, sizeof path[0], "%s/%s", folder, name);
	return p;
}

const char *scratch_text(const char *name, const char *text)
{
	const char *path = scratch(name);
	FILE *to = fopen(path, "w");

	assert_true(to && fputs(text, to) >= 0 && fclose(to) == 0);
	return path;
}

size_t scratch_count(void)
{
	DIR *d = opendir(folder);
	size_t n = 0;

	assert_non_null(d);
	for (struct dirent *f; (f = readdir(d));) n += strcmp(f->d_name, ".") && strcmp(f->d_name, "..");
	closedir(d);
	return n;
}

static int drop(const char *path, const struct stat *s, int type, struct FTW *at)
{
	(void)s, (void)type, (void)at;
	return remove(path);
}

int scratch_remove(void **state)
{
	(void)state;
	return nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
}

struct guarded guarded_copy(const void *bytes, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (n + page - 1) / page * page;
	struct guarded g = { .map_bytes = size + page };

	g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(g.map, MAP_FAILED);
	assert_int_equal(mprotect((char *)g.map + size, page, PROT_NONE), 0);
	g.bytes = (char *)g.map + size - n;
	if (n)
		memcpy(g.bytes, bytes, n);
	return g;
}

void guarded_free(struct guarded *g)
{
	munmap(g->map, g->map_bytes);
}

unsigned char *file_bytes(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");

	assert_non_null(f);
	assert_int_equal(fseek(f, 0, SEEK_END), 0);
	*n = (size_t)ftell(f);
	rewind(f);
	unsigned char *b = malloc(*n + 1);
	assert_non_null(b);
	assert_int_equal(fread(b, 1, *n, f), *n);
	fclose(f);
	return b;
}

uint64_t random_bits(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

void assert_error_at(const struct error *e, enum error_code code, uint64_t offset, const char *what)
{
	if (e->code == code && e->offset == offset)
		return;
	fprintf(stderr, "%s: expected \"%s\" at %lld, found: ", what, error_message(code), (long long)offset);
	error_print(stderr, e);
	putc('\n', stderr);
	fail();
}

struct tensor first_rows(const struct tensor *t, size_t n)
{
	struct tensor x = *t;
	size_t shape[MAX_RANK];

	assert_true(t->rank > 0 && n <= t->shape[0]);
	memcpy(shape, t->shape, sizeof shape);
	shape[0] = n;
	assert_true(shape_set(&x, t->dtype, t->rank, shape));
	return x;
}

uint64_t double_bits(double x)
{
	uint64_t b;

	memcpy(&b, &x, sizeof b);
	return b;
}

double bits_double(uint64_t b)
{
	double x;

	memcpy(&x, &b, sizeof x);
	return x;
}

bool same_double(double a, double b)
{
	return double_bits(a) == double_bits(b) || (a != a && b != b);
}

const struct layout layouts[LAYOUTS] = {
	{ FMT_BF16, DT_BF16,    8,  7,  127, 0x7F7F,  true },
	{ FMT_F16,  DT_F16,     5, 10,   15, 0x7BFF,  true },
	{ FMT_E4M3, DT_F8_E4M3, 4,  3,    7, 0x7E,    false },
	{ FMT_E5M2, DT_F8_E5M2, 5,  2,   15, 0x7B,    true },
	{ FMT_TF32, DT_COUNT,   8, 10,  127, 0x3FBFF, true },
	{ FMT_F32,  DT_F32,     8, 23,  127, 0x7F7FFFFF, true },
};

double value_of(const struct layout *l, uint32_t b)
{
	int exponent = (int)(b >> l->fraction);
	double significand = (double)(b & ((UINT32_C(1) << l->fraction) - 1));

	if (exponent == 0)
		return ldexp(significand, 1 - l->bias - l->fraction);
	return ldexp(significand + ldexp(1, l->fraction), exponent - l->bias - l->fraction);
}

double infinity_of(const struct layout *l)
{
	return l->has_inf ? (double)INFINITY : (double)NAN;
}

void expect_double(const struct layout *l, const char *what, double x, double found, double expected)
{
	if (same_double(found, expected))
		return;
	fail_msg("%s: %s(%a) = %a, expected %a", format_info[l->format].name, what, x, found, expected);
}

double stored(enum dtype d, double x)
{
	unsigned char b[8];
	double y;

	dtype_store(d, &x, 1, b);
	dtype_load(d, b, 1, &y);
	return y;
}

static const struct formula *added(const struct formula *f, const struct error *e)
{
	if (!f) fail_msg("%s: %s", e->file, e->detail);
	op_add(formula_op(f));
	return f;
}

const struct formula *op_added_from(const char *path)
{
	struct error e;
	const struct formula *f = formula_read(path, &e);

	return added(f, &e);
}

const struct formula *op_added_of(const char *path, const char *text)
{
	struct error e;
	const struct formula *f = formula_of_text(path, text, strlen(text), &e);

	return added(f, &e);
}
