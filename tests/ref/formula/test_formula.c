/* Formulas: what is refused, and where; what a file declares; and that forms agree. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/ref/approx/variants.h"
#include "tests/ref/formula/broken.h"

#define HEAD "op f\nin x [R, D] y [D] n [R] integer ?\nout z [R, D]\nparam eps = 1, kind = a | b\neach r in R\n"

/* The first error of a text: "LINE:COLUMN", and a part of what is said. */
static const struct broken broken[] = {
	{ "", ":1:1", "'op', got the end of the file" },
	{ "op f\nin x [R]\nout y [R]\n", ":4:1", "a definition of an output" },
	{ "op f\nin x [R]\ny[:] = x[:]\n", ":4:1", "a line 'out ...'" },
	{ "op f\nin x [R\nout y [R]\n", ":2:6", "the '[' here is not closed; expected ']' before line 3" },
	{ HEAD "z[r] = exp(x[r]\nu = 1\n", ":6:11", "the '(' here is not closed; expected ')' before line 7" },
	{ HEAD "z[r] = (x[r] + 1\n", ":6:8", "the '(' here is not closed" },
	{ HEAD "z[r] = (x[r] + 1 ]\n", ":6:18", "')', got ']'" },
	{ HEAD "z[r] = x[r] +\n", ":7:1", "a value, got the end of the file" },
	{ HEAD "z[r] = x[r] $ 2\n", ":6:13", "operator, got '$'" },
	{ HEAD "z[r] = x[r] + 1.2.3\n", ":6:15", "a number, got '1.2.3'" },
	{ HEAD "z[r] = q[r]\n", ":6:8", "nothing is named 'q'" },
	{ HEAD "z[r] = foo(x[r])\n", ":6:8", "nothing is named 'foo'" },
	{ HEAD "z[r] = exp(x[r], y[:])\n", ":6:8", "one argument of exp" },
	{ HEAD "w[r] = x[r]\n", ":6:1", "expected an output; nothing is named 'w'" },
	{ HEAD "z = x[r]\n", ":6:1", "'z[r] = ...': z is an output" },
	{ HEAD "w = x[r]\n", ":3:5", "'z[r] = ...' in the form 'formula': nothing there stores z" },
	{ "op f\nin x [R, D]\nout z [R, D]\nz = x\n", ":4:1", "'z[:, :] = ...': z is an output" },
	{ HEAD "z[0] = x[0]\n", ":6:1", "the index 'r' in an index of z: the pieces for each r in R" },
	{ "op f\nin x [R, D]\nout z [R, D]\nparam n = 2\neach r in R, g in 0:n\nz[r] = x[r]\n", ":6:1", "the index 'g' in an index of z" },
	{ "op f\nin x [R, D]\nout z [R, D]\nparam n = 2\neach r in R, g in n\nz[r] = x[r]\n", ":5:14", "write 'g in 0:n'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = normal(0)\n", ":7:35", "',', got ')'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = f16 normal(0, -1)\n", ":7:31", "a deviation of 0 or more in normal(...), got 0, -1" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = uniform(2, 1)\n", ":7:27", "a number below another in uniform" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = unit(uniform(1))\n", ":7:41", "',', got ')'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = log_uniform(-1, 1)\n", ":7:27", "a number above 0" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = graded(0, 1)\n", ":7:27", "a factor above 0" },
	{ HEAD "z[r] = x[r] * 1e-5f\n", ":6:15", "which has no type: '1e-5' without its 'f'" },
	{ HEAD "z[r] = summ(x[r]) * y[:]\n", ":6:8", "did you mean 'sum'?" },
	{ HEAD "total = sum(x[r])\nz[r] = totl y[:]\n", ":7:8", "nothing is named 'totl'; did you mean 'total'?" },
	{ HEAD "total = sum(x[r])\nz[r] = total y[:]\nfault q: totel = 1\n", ":8:10", "did you mean 'total'?" },
	{ HEAD "total = sum(x[r])\nz[r] = total y[:]\ncontract k: totla bf16\n", ":8:13", "did you mean 'total'?" },
	{ HEAD "total = sum(x[r])\nz[r] = total y[:]\nfault q: round totla to bf16\n", ":8:7", "did you mean 'total'?" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, kynd = a\n", ":7:23", "did you mean 'kind'?" },
	{ HEAD "z[r] = x[r]\nfualt q: z[r] = y[:]\n", ":7:1", "did you mean 'fault'?" },
	{ HEAD "unread = sum(x[r])\nz[r] = x[r]\ncontract k: unread bf16\n", ":8:13", "a name that is defined and read, got 'unread'" },
	{ "op f\nin x [R, D]\nout z [R, M]\neach r in R\nz[r] = x[r]\n", ":3:5", "no input has M" },
	{ "op f\nin x [R, D]\nout z [R, D]\nheld h [R, M]\nform a\neach r in R\nz[r] = x[r]\n", ":4:6", "no input has M" },
	{ HEAD "p = exp(x[r])\nz[r] = p[r] y[:]\n", ":7:8", "what pieces above hold ('held p [...]')" },
	{ HEAD "z[r] = x[r]\nwhere R == 3 # three\ncase k: R = 4, D = 3\n", ":8:6", "a call of the op: f.op:7: expected three" },
	{ "op f\nin x [R]\nout z [R]\nparam n\neach r in R\nz[r] = n x[r]\ncase k: R = 4\n", ":7:6", "with its 'n': missing" },
	{ HEAD "for t in 0:r\n  s = x[t]\nz[0] = x[0]\n", ":8:1", "the index 'r' in an index of z" },
	{ "op f\nin x [R, D]\nout z [R]\neach d in D\nz[d] = sum(x[:, d])\n", ":5:3", "an index of R in z [R]; 'd' counts D" },
	{ HEAD "z[r] = x[:, 0]\n", ":6:1", "expected a column [D] for z, got a column [R]" },
	{ HEAD "z[r] = x[r] + x[:, 0]\n", ":6:13", "shapes that go together, got a column [D] and a column [R]" },
	{ HEAD "z[r] = x[r] + iota(D + 1)\n", ":6:13", "got a column [D] and a column [" },
	{ HEAD "z[r] = diag(x[:, 0]) zeros(R, 40) y[:]\n", ":6:8", "a matrix [R, 40] = [" },
	{ HEAD "z[r] = x[r] y[:]\n", ":6:8", "shapes that multiply" },
	{ HEAD "z[r] = x[r, 0, 0] + y[:]\n", ":6:8", "at most 2 indices of x [R,D], got 3" },
	{ HEAD "z[r] = x[y] + y[:]\n", ":6:10", "expected an integer input" },
	{ HEAD "z[r] = x[r] + n[r]\n", ":6:15", "is not read where n is missing, as in 'n[...] if has(n) else 0'" },
	{ HEAD "z[r] = x[r % 2]\n", ":6:12", "operator, got '%'" },
	{ HEAD "\xcf\x83 = x[r]\n", ":6:1", "operator of ASCII, got '\xcf\x83'" },
	{ HEAD "z[r] =\xc2\xa0x[r]\n", ":6:7", "operator, got byte 0xc2" },
	{ HEAD "z[r] = x[r]\xcf\n", ":6:12", "operator, got byte 0xcf" },
	{ HEAD "z[r] = x[r 0]\n", ":6:10", "'*' between factors here, or a comma" },
	{ HEAD "s = x[r]\nlet k = r + 1\nz[r] = s\n", ":8:1", "no second body; the one above begins in line 6, and 'let'" },
	{ HEAD "t = r + 1\nz[r] = x[t]\n", ":7:10", "an index, which each, let and loops name; 't' is a value" },
	{ HEAD "z[r] = x[r] * s\ns = sum(x[r])\n", ":6:15", "defined above; nothing is named 's'" },
	{ HEAD "z[r] = x[r]\nz[r] = y[:]\n", ":7:1", "each element of z is stored once: a line above stores these" },
	{ HEAD "s = 0\nfor d in D\n  s = s + x[r, d]\nz[r] = s\n", ":8:3", "one that a loop carries ('for ..., s from ...')" },
	{ HEAD "z[r] = x[r] ** 2\n", ":6:14", "a value, and a power is written x^2, got '*'" },
	{ HEAD "z[r] = softmax(x[r])\n", ":6:8", "nothing is named 'softmax': write e = exp(s - max(s)), then e / sum(e)" },
	{ HEAD "z[r] = x[r] if x[r] > 0 else 0\n", ":6:16", "of values where(a > b, c, d) chooses" },
	{ HEAD "z[r] = x * 2\n", ":6:1", "a column [D] for z, got a matrix [R, D]" },
	{ HEAD "z[r] = x[r] if R = 1 else 0\n", ":6:18", "'else', got '='" },
	{ HEAD "for d in 0:D:\n  s = x[r, d]\nz[r] = s\n", ":6:13", "the end of the line, got ':'" },
	{ "op f\nin x [R, 128]\nout z [R]\neach r in R\nz[r] = sum(x[r])\n", ":2:10", "the name of a size, which may be a number: 'let K = 2', then K, got '128'" },
	{ "op f\nin x [A, B, C, D]\nout z [A]\neach a in A\nz[a] = sum(x[a])\n", ":5:12", "at most two axes that are kept" },
	{ "op f\nin x [R]\nout z [S]\nlet S = R div 2\neach s in S\nz[s] = x[s]\ncase k: R = 6, S = 4\n", ":7:6", "S = 3, or nothing of it, got 4" },
	{ HEAD "z[r] = x[r] * x[n[0]]\nwhere has(n\n", ":7:10", "the '(' here is not closed" },
	{ HEAD "a = x[r]\na = y[:]\nz[r] = a\n", ":7:1", "'a' is defined already" },
	{ HEAD "r = x[r]\nz[r] = r\n", ":6:1", "'r' is defined already" },
	{ HEAD "eps = x[r]\nz[r] = eps\n", ":6:1", "'eps' is declared above" },
	{ HEAD "def g(u) = g(u) + 1\nz[r] = g(x[r])\n", ":6:12", "leads back to itself" },
	{ HEAD "z[r] = x[r]\nfault q: w = x[r]\n", ":7:10", "a definition that the form 'formula' has; nothing there is named 'w'" },
	{ HEAD "form a\ns = x[r]\nz[r] = s\nform b\nz[r] = x[r]\nfault q: s = y[:]\n", ":11:10",
		"that the form 'b' has, or 'q in a': a fault of that form alone; nothing there is named 's'" },
	{ HEAD "form a\ns = x[r]\nz[r] = s\nform b\nz[r] = x[r]\nfault q: t = y[:]\n", ":11:10", "that the form 'a' has; nothing there is named 't'" },
	{ HEAD "z[r] = x[r]\nfault q: z = x[r]\n", ":7:10", "of 'z' it has 'z[r] = x[r]'" },
	{ HEAD "z[r] = x[r]\nfault q in other: z[r] = y[:]\n", ":7:7", "a form's name after 'in', got 'other'" },
	{ HEAD "z[r] = x[r]\nfault q: round w to bf16\n", ":7:7", "after 'round'; nothing is named 'w'" },
	{ HEAD "z[r] = x[r]\nfault q: round z to bf17\n", ":7:7", "after 'to', got 'bf17'" },
	{ HEAD "z[r] = x[r]\nfault q: z[r] = y[0]\nfault q: z[r] = y[1]\n", ":8:7", "stands in line 7" },
	{ HEAD "z[r] = x[r]\ncontract k: w bf16\n", ":7:13", "a name that is defined and read, got 'w'" },
	{ HEAD "z[r] = x[r]\ncontract k: z bf17\n", ":7:13", "bf16, f16, tf32" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3\n", ":7:6", "a size for D" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 0.5\n", ":7:16", "a size, 1 or more for 'D'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, w = 5\n", ":7:23", "nothing is named 'w'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, kind = true\n", ":7:23", "a|b for 'kind'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = bf17\n", ":7:23", "a floating-point type for 'x'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = bf16 normal\n", ":7:38", "'(', got the end" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, x = cauchy(0, 1)\n", ":7:23", "normal, uniform, log_uniform, graded or cuts for 'x'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, n = normal(0, 1)\n", ":7:23", "[its numbers] or cuts [lengths] for 'n'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, n = []\n", ":7:23", "a number at least for 'n'" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, n\n", ":7:23", "[its numbers]" },
	{ HEAD "z[r] = x[r]\ncase k: R = 3, D = 4, eps\n", ":7:23", "= and its value for 'eps'" },
	{ HEAD "z[r] = x[r]\ncase k as l: R = 3\n", ":7:11", "the name of a case above, got 'l'" },
	{ HEAD "z[r] = x[r]\ncase k as k: R = 3\n", ":7:11", "the name of a case above, got 'k'" },
	{ HEAD "z[r] = x[r]\ncase k alike: R = 3, D = 4\n", ":7:8", "'as' and the name of a case before 'alike'" },
	{ HEAD "z[r] = x[r]\ncase k contract bf8: R = 3, D = 4\n", ":7:17", "a contract's name, got 'bf8'" },
	{ HEAD "z[r] = x[r]\ncase k variant big: R = 3, D = 4\n", ":7:16", "the number of a kernel variant" },
	{ HEAD "z[r] = x[r]\ncase k large\n", ":7:13", "':', got the end" },
	{ HEAD "z[r] = x[r]\nfault q(k in Q): z[r] = y[:] * k\n", ":7:7", "the name of a size, a:b or numbers after 'in'" },
	{ HEAD "z[r] = x[r]\nfault q(y in 1, 2): z[r] = y[:]\n", ":7:7", "a name of its own for the parameter" },
	{ HEAD "z[r] = x[r]\nfault q(k in 5:5): z[r] = y[:] * k\n", ":7:16", "whole numbers, 1 to 4096 of them" },
	{ HEAD "z[r] = x[r]\nfault q(k in 1, a): z[r] = y[:] * k\n", ":7:17", "a number, got 'a'" },
	{ HEAD "z[r] = x[r]\nfault q(k near 2 by 1): z[r] = y[:] * k\n", ":7:21", "a factor above 1" },
	{ HEAD "z[r] = x[r]\nfault q(k near 2): z[r] = y[:] * k\n", ":7:17", "'by', got ')'" },
	{ HEAD "z[r] = x[r]\nfault q(k near w by 2): z[r] = y[:] * k\n", ":7:16", "nothing is named 'w'" },
	{ HEAD "z[r] = x[r]\nfault q(k near n[0] by 2): z[r] = y[:] * k\n", ":7:16", "a condition on sizes, parameters and what is given" },
	{ HEAD "z[r] = x[r]\nfault q(k): z[r] = y[:] * k\n", ":7:10", "'in', got ')'" },
	{ HEAD "z[r] = x[r]\nfault q(k in R): round z to bf16\n", ":7:7", "definitions of a fault that has a parameter" },
	{ HEAD "z[r] = x[r] * k\nfault q(k in R): z[r] = y[:] * k\n", ":6:15", "nothing is named 'k'" },
	{ HEAD "z[r] = x[r]\nwhere R == 1\nwhere R == 2\n", ":7:1", "sizes from 1 to 31, or that a line says, that 'where' allows" },
	/* sizes that must be 1, or equal, hide no other mistake */
	{ HEAD "z[r] = x[:, 0]\nwhere R == 1\n", ":6:1", "expected a column [D] for z, got a column [R]" },
	{ "op f\nin x [N, A, B, C, D]\nout z [N, A, B, C, D]\nwhere N == 1\neach n in N, a in A, b in B, c in C\nz[n, a, b, c] = x[n, a, b, :, 0]\n", ":6:1", "expected a column [D] for z, got a column [C]" },
	{ "op f\nin x [A, B]\nout z [A, B]\nwhere A == 64\neach a in A\nz[a] = x[:, 0]\n", ":6:1", "expected a column [B] for z, got a column [A]" },
	{ "op f\nin x [A, B]\nout z [A, B]\neach a in A\nz[a] = x[a] @ x[a]\n", ":5:13", "got '@'; a product is A B" },
	{ "op f\nin x [A, B]\nout z [A, B]\neach a in A\nz[a] = sign(x[a])\n", ":5:8", "write where(x > 0, 1, where(x < 0, -1, 0))" },
	{ "op f\nin x [N, A, B]\nout z [N, A, B]\nwhere N == 1\neach n in N, a in A\nz[n, a] = x[n, :, 0]\n", ":6:1", "expected a column [B] for z, got a column [A]" },
	{ HEAD "z[r] = x[r]\neach q in R\n", ":7:1", "need 'form NAME' above the first 'each'" },
	{ HEAD "form one\neach q in Q\nz[r] = x[r]\n", ":7:1", "'each' above all forms or in each of them; line 5 has one above" },
	{ HEAD "for t in R, S from 0 to s[r]\n  S = S\nz[r] = x[r]\n", ":6:25", "nothing is named 's'" },
	{ HEAD "for t in R\nz[r] = x[r]\n", ":7:1", "a body, further in" },
	{ HEAD "for c in chunks of D by 0, S from 0\n  S = S\n", ":6:25", "a chunk's size" },
	{ HEAD "z[r] = inverse(x[r])\n", ":6:8", "I + A" },
	{ HEAD "z[r] = iota(1e12)\n", ":6:8", "a number from 0 to 1e9" },
	{ HEAD "z[r] = x[r] + sum(iota(900000000) + iota(900000000)')\n", ":1:1", "at most 2^32 elements" },
	{ HEAD "z[r] = x[r]\ncontract k by 1e9: z bf16\n", ":7:15", "a chunk's size" },
	{ HEAD "z[r] = x[r]\nsite w\n", ":7:6", "a site of what a form defines" },
	{ HEAD "z[r] = x[r]\nsite w of 3\n", ":7:11", "the name of a definition" },
	{ HEAD "z[r, 0:99] = x[r]\n", ":6:6", "a range within 0:" },
	{ HEAD "z[r] = x[r] + sum(part(x[r], D - 1, 2))\n", ":6:19", "expected 2 elements from" },
	{ HEAD "z[r] = x[r] + sum(part(x[r], 0, D, 2))\n", ":6:19", "every 2 of them, within the" },
	{ HEAD "z[r] = x[r] + part(3, 0, 1)\n", ":6:15", "a vector or a matrix, and a size" },
	{ HEAD "z[r] = replaced(x[r], 0, x)\n", ":6:8", "and a part of it" },
	{ HEAD "z[r] = replaced(x[r], 1, x[r])\n", ":6:8", "elements from 1 on" },
	{ HEAD "while r\n  z[r] = x[r]\n", ":6:1", "for, if, use, NAME =" },
	{ HEAD "if r > 0\nz[r] = x[r]\n", ":7:1", "further in than their 'if'" },
	{ HEAD "if x > 0\n  z[r] = x[r]\n", ":6:4", "expected an integer input" },
	{ HEAD "use nothing as n: R = 1\nz[r] = x[r]\n", ":6:5", "nothing is named nothing" },
	{ HEAD "use rmsnorm as n: Q = 1\nz[r] = x[r]\n", ":6:5", "not Q" },
	{ HEAD "use rmsnorm as n: x = x[r]\nz[r] = n.y\n", ":6:5", "a value for weight_offset" },
	{ HEAD "use rmsnorm as n: x = x[r], weight_offset = 0\nz[r] = n.y\n", ":6:5", "nothing is named 'n.weight'" },
	{ HEAD "use causal_conv1d as n: x = x, weight = y + y, W = 1, N = 1\nz[r] = n.y\n", ":6:5", "NAME[:, i] = VALUE for weight" },
	{ HEAD "z[r] = x[r] + count(i in 0:R)\n", ":6:15", "" },
	{ HEAD "z[r] = x[r] + count(i in 0:R, x > 0)\n", ":6:31", "an integer input in an index" },
	{ HEAD "z[r] = x[r] + fold(0, i in 0:R, i)\n", ":6:15", "" },
	{ HEAD "z[r] = x[r] + with_row(y, 0, x)\n", ":6:15", "a matrix of a known size" },
	{ HEAD "z[r] = joined(x[r], x)\n", ":6:8", "matrices of as many rows" },
	{ HEAD "z[r] = with_row(x, 0, x)\n", ":6:8", "as many elements as a row" },
	{ HEAD "z[r, r:D] = x[r]\n", ":6:6", "or first:first + n" },
	{ HEAD "z[r] = x[r]\nwhere R > 0 for i in R\n", ":7:9", "an element of an integer input" },
};

static void errors_have_a_place(void **state)
{
	(void)state;
	assert_broken(broken, sizeof broken / sizeof *broken);
}

/* What an editor may do to a file that is sound: a mark first, lines that end in CR LF, tabs; and a size of a case that a let gives. */
static void what_editors_write_is_taken(void **state)
{
	static const char text[] = "\xef\xbb\xbfop f\r\nin x [R]\t# \xcf\x83\r\nout z [S]\r\nparam half = 2\r\nlet S = R div half\r\neach s in S\r\nz[s] = x[s]\r\n"
		"case k: R = 6\r\ncase l: R = 12, half = 3, S = 4";
	struct error e;
	struct formula *f = formula_of_text("f.op", text, sizeof text - 1, &e);

	(void)state;
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	const struct test_case *k = formula_op(f)->cases;
	assert_string_equal(k[0].dims[1].name, "S");
	assert_int_equal(k[0].dims[1].size, 3);
	assert_int_equal(k[1].dims[1].size, 4);
	formula_end(f);
}

static void what_is_hostile_is_refused(void **state)
{
	enum { MANY = 70000 };
	static char text[MANY];
	struct error e;

	(void)state;
	memset(text, '(', MANY);
	memcpy(text, HEAD "z[r] = ", sizeof HEAD "z[r] = " - 1);
	assert_null(formula_of_text("f.op", text, 60000, &e));
	assert_non_null(strstr(e.detail, "at most 64 levels"));
	assert_null(formula_of_text("f.op", text, MANY, &e));
	assert_non_null(strstr(e.detail, "at most 65536 bytes"));
	assert_null(formula_of_text("f.op", "op f\0in", 8, &e));
	assert_non_null(strstr(e.detail, "zero byte"));
	assert_null(formula_of_text("f.op", "op \xff", 4, &e));
}

/* Bytes of sound files changed, cut out and put twice: taken, or refused with a place. */
static void spoiled_files_are_refused(void **state)
{
	static const char *const names[] = { "l2norm", "layer_norm", "gelu", "cross_entropy", "scores", "slots", "routed" };
	static const char some[] = "()[]'|:;,=+-*/^#\n 019.eabqkIT\"\xff";
	enum { TIMES = 400 };
	uint64_t random = 7;
	int taken = 0;

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char path[64];
		size_t n;
		snprintf(path, sizeof path, "tests/ops/%s.op", names[i]);
		unsigned char *bytes = file_bytes(path, &n);
		char *text = malloc(2 * n);
		assert_non_null(text);
		for (int k = 0; k < TIMES; k++) {
			struct error e = { .code = E_NONE };
			size_t m = n;
			memcpy(text, bytes, n);
			for (uint64_t c = random_bits(&random) % 3 + 1; c-- > 0;) {
				size_t at = random_bits(&random) % m, size = random_bits(&random) % 12;
				if (size > m - at) size = m - at;
				if (random_bits(&random) % 3 == 0) memmove(text + at, text + at + size, m - at - size), m -= size;
				else if (random_bits(&random) % 2 && m + size <= 2 * n) memmove(text + at + size, text + at, m - at), m += size;
				else text[at] = some[random_bits(&random) % (sizeof some - 1)];
				if (!m) break;
			}
			struct formula *f = formula_of_text("f.op", text, m, &e);
			if (!f && (e.code != E_FORMULA || strncmp(e.file, "f.op", 4) || !e.detail[0])) fail_msg("%s, %d: %s", names[i], k, e.detail);
			taken += f != NULL;
			formula_end(f);
		}
		free(text);
		free(bytes);
	}
	print_message("%d of %d taken\n", taken, (int)(TIMES * sizeof names / sizeof *names));
	assert_true(taken > 0 && taken < (int)(TIMES * sizeof names / sizeof *names) / 2);
}

/* What the program holds of ref/ops: shapes fit in every form, fault and set of optional inputs. */
static void builtin_ops_are_sound(void **state)
{
	(void)state;
	assert_true(formula_builtins() > 0);
	for (size_t i = 0; i < formula_builtins(); i++) {
		struct error e;
		if (!formula_builtin_check(i, &e)) fail_msg("%s: %s", e.file, e.detail);
	}
}

/* A file that lists its sites: those alone, in its order; one may stand at several definitions. */
static void sites_are_listed(void **state)
{
	static const char text[] = "op f\nin x [R]\nout y [R] z [R]\neach r in R\na = sin(x[r])\nb = cos(x[r])\nc = a + b\nunread = exp(c)\n"
		"y[r] = c\nz[r] = a\nsite z # the second\nsite turn of a, b # both\nfault low: round turn to bf16\n";
	struct error e;
	struct formula *f = formula_of_text("f.op", text, sizeof text - 1, &e);

	(void)state;
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	const struct op *op = formula_op(f);
	assert_string_equal(op->sites[0].name, "z");
	assert_int_equal(op->sites[0].store, 2);
	assert_string_equal(op->sites[1].name, "turn");
	assert_string_equal(op->sites[1].what, "both");
	assert_null(op->sites[2].name);
	assert_int_equal(op->faults[0].site, 1);
	formula_end(f);
}

/* Else each name that is read and no index, whose definitions may be read by others that are not read. */
static void sites_are_what_is_computed(void **state)
{
	static const char text[] = "op f\nin x [R, D]\nout y [R, D]\nheld i [R, K] integer\nlet K = 2\nform f\neach r in R\na = exp(x[r])\nb = a + 1\n"
		"c = b * 2\nd = 2 a\nbest = top(a, K)\nnext = best\ni[r] = next\neach r in R\nfor k in K, s from 0\n  w = x[r, i[r, k]]\n  s = s + w\ny[r] = s x[r]\n";
	static const char *const names[] = { "w", "s", "y" };
	struct error e;
	struct formula *f = formula_of_text("f.op", text, sizeof text - 1, &e);

	(void)state;
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	const struct op *op = formula_op(f);
	/* a is read by what stands in an index alone: rounded it may be another one */
	assert_string_equal(op->sites[0].name, "a");
	for (int k = 0; k < 3; k++) assert_string_equal(op->sites[1 + k].name, names[k]);
	assert_null(op->sites[4].name);
	formula_end(f);
}

static const char file[] =
	"op f   # what it is\n"
	"in  x, w [R, D] k [N+1] integer ?     # the inputs\n"
	"out y [R, D]  s [R] with k     # what is made\n"
	"param eps = 1e-5, on = true     # small\n"
	"param kind = first | second, scale = D^-0.5, table [a, b, c]\n"
	"where not on or eps > 0         # eps above 0\n"
	"each r in R\n"
	"form one\n"
	"u = x[r] * w[r]\n"
	"y[r] = u\n"
	"s[r] = sum(u)\n"
	"form two\n"
	"v = w[r] * x[r]\n"
	"y[r] = v\n"
	"s[r] = sum(v)\n"
	"fault no_w in one: u = x[r]     # w left out; seen someone/something#1\n"
	"fault low: round y to bf16\n"
	"contract f32\n"
	"contract two_bf16 in two: v bf16, y tf32_rz\n"
	"draw x = bf16 normal(0, 2)\n"
	"case small: R = 3, D = 4, eps = 2e-3, table = [1, 2, 3, 4, 5, 6]  # small\n";

static void a_file_declares_an_op(void **state)
{
	struct error e;
	struct formula *f = formula_of_text("f.op", file, sizeof file - 1, &e);

	(void)state;
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	const struct op *op = formula_op(f);
	assert_string_equal(op->name, "f");
	assert_string_equal(op->what, "what it is");
	assert_string_equal(op->dims[0], "R");
	assert_string_equal(op->dims[2], "N");
	assert_null(op->dims[3]);
	assert_string_equal(op->in[2].shape, "N+1");
	assert_int_equal(op->in[2].flags, OPTIONAL | INTEGER);
	assert_string_equal(op->in[1].what, "the inputs");
	assert_string_equal(op->out[1].with, "k");
	assert_string_equal(op->out[0].what, "what is made");
	assert_true(op->params[0].absent == 1e-5);
	assert_int_equal(op->params[1].kind, PARAM_BOOL);
	assert_string_equal(op->params[2].choices, "first|second");
	assert_true(isnan(op->params[3].absent) && !op->params[3].required);
	assert_true(op->params[4].required && op->params[4].kind == PARAM_LIST);
	assert_int_equal(op_site(op, "u"), 0);
	assert_int_equal(op->sites[op_site(op, "v")].forms, 1 << 1);
	assert_int_equal(op->sites[op_site(op, "y")].forms, 1 << 0 | 1 << 1);
	assert_int_equal(op->sites[op_site(op, "y")].store, 1);
	assert_string_equal(op->faults[0].seen, "someone/something#1");
	assert_string_equal(op->faults[0].what, "w left out");
	assert_true(op->faults[1].is_rounding && op->faults[1].format == FMT_BF16);
	const struct site_rounding *r = op->contracts[1].site;
	assert_int_equal(op->contracts[1].form, 1);
	assert_true(r[op_site(op, "v")].on && r[op_site(op, "y")].rounding == ROUND_ZERO && !r[op_site(op, "u")].on);
	assert_string_equal(op->cases[0].params, "{\"eps\": 0.002, \"table\": [[1, 2, 3], [4, 5, 6]]}");
	assert_int_equal(op->cases[0].in[0].dtype, DT_BF16);
	assert_true(op->cases[0].in[0].b == 2);
	formula_end(f);
}

static const struct case_tensor *of(const struct case_tensor *t, const char *name)
{
	while (t->name && strcmp(t->name, name)) t++;
	return t->name ? t : NULL;
}

/* x is a tensor and a parameter. */
static const char many_cases[] =
	"op f\nin x [R] n [C+1] integer ? w [R] ?\nout y [R] z [R] ?\nparam x = 1, t [a] ?\neach r in R\ny[r] = x[r]\nz[r] = x[r]\n"
	"contract f32\ncontract low: y bf16\n"
	"draw x = f16 normal(3, 0.5), x = 2, w = uniform(-1, 1)\n"
	"case base: R = 4, C = 2, n = cuts [1, 3]       # the base\n"
	"case same as base variant 2 contract low       # as it is\n"
	"case other as same large: R = 5, x = bf16, w, z = f16, t = []\n"
	"case third as other: x = f32 [1, 2], x = 7, n = [0, 9, 9]\n"
	"case twin as base alike: C = 2\n"
	"case other_twin as twin alike contract low\n";

static void a_case_says_only_what_is_new(void **state)
{
	struct error e;
	struct formula *f = formula_of_text("f.op", many_cases, sizeof many_cases - 1, &e);

	(void)state;
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	const struct test_case *k = formula_op(f)->cases;
	assert_string_equal(k[0].params, "{\"x\": 2}");
	assert_true(!k[0].rung && !k[0].contract && !k[0].large && !of(k[0].in, "w") && !of(k[0].out, "z"));
	assert_int_equal(of(k[0].in, "x")->dtype, DT_F16);
	assert_int_equal(of(k[0].in, "n")->draw, DRAW_CUTS);
	assert_string_equal(k[1].rung, "2");
	assert_string_equal(k[1].contract, "low");
	assert_string_equal(k[1].what, "as it is");
	assert_int_equal(k[1].dims[0].size, 4);
	assert_true(k[2].large && !k[2].rung && !k[2].contract && k[2].dims[0].size == 5);
	const struct case_tensor *x = of(k[2].in, "x"), *w = of(k[2].in, "w");
	assert_true(x->dtype == DT_BF16 && x->draw == DRAW_NORMAL && x->a == 3 && x->b == 0.5);
	assert_true(w->dtype == DT_F32 && w->draw == DRAW_UNIFORM && w->a == -1 && w->b == 1);
	assert_int_equal(of(k[2].out, "z")->dtype, DT_F16);
	assert_string_equal(k[2].params, "{\"x\": 2, \"t\": []}");
	assert_true(of(k[3].in, "x")->draw == DRAW_LIST && of(k[3].in, "x")->dtype == DT_F32 && of(k[3].in, "n")->draw == DRAW_LIST);
	assert_string_equal(k[3].params, "{\"x\": 7, \"t\": []}");
	/* one that is alike has the numbers of the case that it goes back to, the others their own */
	static const char *const drawn_as[] = { "base", "same", "other", "third", "base", "base" };
	for (size_t i = 0; i < sizeof drawn_as / sizeof *drawn_as; i++) assert_string_equal(k[i].drawn_as, drawn_as[i]);
	assert_null(k[6].op);
	formula_end(f);
}

/* Every rule of the language once, against C written out by hand, in f64 and in dd. */
#define RULES 	"op g\nin x [T, D]  m [D, D]\nout y [T, D]  s [D, D]  a [T]\nparam k = 2\n" \
	"each i in D\n" \
	"form sums\n" \
	"for c in chunks of T by 3, n from 0\n" \
	"  p = x[c, i]\n" \
	"  n = n + last(cumsum(p))\n" \
	"  y[c, i] = n + p * 0\n" \
	"v = m[i]\n" \
	"s[i] = where(iota(D) >= i, v, max(v)) if i mod 2 == 0 else m[:, i]\n"

static void it_computes(void **state)
{
	enum { T = 7, D = 4 };
	static const char text[] = RULES "if i > D\n  a[i] = 0\n";
	struct error e;

	(void)state;
	/* what is not stored is an error, when it is run */
	struct formula *f = formula_of_text("g.op", text, strlen(text), &e);
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	struct capture c = { 0 };
	assert_true(meta_set(&c.tensors, "etalon.op", "g") && meta_set(&c.tensors, "etalon.params", "{}"));
	float *x = tensors_add(&c.tensors, "in.x", DT_F32, 2, (size_t[]){ T, D })->data;
	float *m = tensors_add(&c.tensors, "in.m", DT_F32, 2, (size_t[]){ D, D })->data;
	for (int i = 0; i < T * D; i++) x[i] = (float)(i * i % 11) - 5;
	for (int i = 0; i < D * D; i++) m[i] = (float)(i * 7 % 13) - 6;
	op_add(formula_op(f));
	struct call call;
	struct answer a;
	assert_true(capture_bind(&c, &e));
	assert_true(call_bind(&call, &c, false, &e));
	struct plan plan = plan_plain(&arith_dd, arith_dd.precision);
	assert_false(ref_run(&call, &plan, &a, &e));
	assert_non_null(strstr(e.detail, "each element of a is stored once; 0 of 7 are"));
	plan.stride = 1000;     /* of some pieces alone nothing can be said */
	assert_true(ref_run(&call, &plan, &a, &e));
	for (int t = 0; t < T; t++) {
		double n = 0;
		for (int u = 0; u < (t / 3 + 1) * 3 && u < T; u++) n += x[u * D];
		assert_true(a.hi[0][t * D] == n);
	}
	for (int j = 0; j < D; j++) assert_true(a.hi[1][j] == m[j]);
	answer_free(&a);
	capture_free(&c);
}

/* A formula may ask for what a GPU's instruction answers; its arithmetic does not matter. */
static void approximate_functions_are_a_gpus(void **state)
{
	enum { T = 256 };
	static const struct { const char *name; int variant; } all[] = {
		{ "ex2", 0 }, { "lg2", 2 }, { "rcp", 4 }, { "rsqrt", 6 }, { "sqrt", 8 }, { "sin", 10 }, { "cos", 12 }, { "tanh", 14 }
	};
	const struct arith *const in[] = { &arith_dd, &arith_f32, &arith_f64 };
	struct tensors recorded;
	struct error e;

	(void)state;
	assert_true(tensors_read(&recorded, "tests/ref/approx/hopper.safetensors", &e));
	const uint32_t *want = tensors_find(&recorded, "samples")->data;
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		char text[200];
		snprintf(text, sizeof text, "op approximate_%s\nin x [T]\nout y [T]\nform formula\ny[:] = %s_approx(x)\n", all[k].name, all[k].name);
		struct formula *f = formula_of_text("a.op", text, strlen(text), &e);
		if (!f) fail_msg("%s: %s", e.file, e.detail);
		struct capture c = { 0 };
		struct call call;
		op_add(formula_op(f));
		assert_true(meta_set(&c.tensors, "etalon.op", formula_op(f)->name) && meta_set(&c.tensors, "etalon.params", "{}"));
		float *x = tensors_add(&c.tensors, "in.x", DT_F32, 1, (size_t[]){ T })->data;
		for (uint32_t i = 0; i < T; i++) {
			uint32_t u = variant_sample(i);
			memcpy(&x[i], &u, 4);
		}
		assert_true(capture_bind(&c, &e) && call_bind(&call, &c, false, &e));
		for (size_t j = 0; j < sizeof in / sizeof *in; j++) {
			struct plan plan = plan_plain(in[j], in[j]->precision);
			struct answer a;
			if (!ref_run(&call, &plan, &a, &e)) fail_msg("%s: %s", text, e.detail);
			for (int i = 0; i < T; i++) {
				float y;
				memcpy(&y, &want[all[k].variant * T + i], 4);
				if (a.hi[0][i] != (double)y && !(isnan(y) && isnan(a.hi[0][i])))
					fail_msg("%s of %a in %s: %a, the GPU: %a", all[k].name, (double)x[i], in[j]->name, a.hi[0][i], (double)y);
			}
			answer_free(&a);
		}
		capture_free(&c);
	}
	tensors_free(&recorded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(approximate_functions_are_a_gpus), cmocka_unit_test(errors_have_a_place), cmocka_unit_test(what_editors_write_is_taken), cmocka_unit_test(what_is_hostile_is_refused), cmocka_unit_test(spoiled_files_are_refused),
		cmocka_unit_test(builtin_ops_are_sound), cmocka_unit_test(sites_are_listed), cmocka_unit_test(sites_are_what_is_computed), cmocka_unit_test(a_file_declares_an_op), cmocka_unit_test(a_case_says_only_what_is_new),
		cmocka_unit_test(it_computes)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
