/* A symmetric eigensolver in MPFR at 128 bits, as one writes it: Householder's reflections to a
 * tridiagonal matrix, QL with implicit shifts, and the vectors (Golub and Van Loan, sections 8.3.1
 * and 8.3.3). */
#include "bench/bench.h"

#include <algorithm>
#include <vector>

#include "bench/mpfr.h"

typedef std::vector<mp> numbers;

struct solver {
	int n;
	numbers start, A, Q, d, e, v, p;
	mp size, half, beta, t, cosine, sine, x, y, g, r, f, b;

	solver(const double *from, int n) : n(n), start(n * n), A(n * n), Q(n * n), d(n), e(n),
		v(n), p(n)
	{
		for (int i = 0; i < n * n; i++) start[i] = from[i];
	}

	/* Column k of A below the diagonal is reflected onto its first element. */
	void reflect(int k)
	{
		half = 0.0;
		for (int i = k + 1; i < n; i++) v[i] = A[i * n + k], half += v[i] * v[i];
		mpfr_sqrt(size.x, half.x, MPFR_RNDN);
		if (mpfr_sgn(v[k + 1].x) > 0) mpfr_neg(size.x, size.x, MPFR_RNDN);
		e[k] = size;
		half -= v[k + 1] * size;        /* v'v / 2 */
		v[k + 1] -= size;
		if (mpfr_zero_p(half.x)) return;
		mpfr_ui_div(beta.x, 1, half.x, MPFR_RNDN);
		t = 0.0;
		for (int i = k + 1; i < n; i++) {
			p[i] = 0.0;
			for (int j = k + 1; j < n;
				j++) p[i] += A[std::max(i, j) * n + std::min(i, j)] * v[j];
			p[i] *= beta;
			t += p[i] * v[i];
		}
		t *= beta, t /= 2;
		for (int i = k + 1; i < n; i++) p[i] -= t * v[i];
		for (int i = k + 1; i < n; i++)
			for (int j = k + 1; j <= i; j++) A[i * n + j] -= v[i] * p[j],
				A[i * n + j] -= p[i] * v[j];
		for (int i = 0; i < n; i++) {
			t = 0.0;
			for (int j = k + 1; j < n; j++) t += Q[i * n + j] * v[j];
			t *= beta;
			for (int j = k + 1; j < n; j++) Q[i * n + j] -= t * v[j];
		}
	}

	/* Columns i and i + 1 of Q. */
	void turn(int i)
	{
		for (int k = 0; k < n; k++) {
			mp &left = Q[k * n + i], &right = Q[k * n + i + 1];
			x = sine * left, x += cosine * right;
			y = cosine * left, y -= sine * right;
			right = x, left = y;
		}
	}

	/* One QL sweep on l .. m. */
	void sweep(int l, int m)
	{
		g = d[l + 1] - d[l], g /= e[l], g /= 2;
		mpfr_sqr(r.x, g.x, MPFR_RNDN), mpfr_add_ui(r.x, r.x, 1, MPFR_RNDN),
			mpfr_sqrt(r.x, r.x, MPFR_RNDN);
		mpfr_copysign(r.x, r.x, g.x, MPFR_RNDN), r += g;
		mpfr_div(r.x, e[l].x, r.x, MPFR_RNDN);
		g = d[m] - d[l], g += r;
		cosine = sine = 1.0, t = 0.0;
		for (int i = m - 1; i >= l; i--) {
			f = sine * e[i], b = cosine * e[i];
			mpfr_hypot(e[i + 1].x, f.x, g.x, MPFR_RNDN);
			sine = f, sine /= e[i + 1], cosine = g, cosine /= e[i + 1];
			g = d[i + 1] - t;
			r = d[i] - g, r *= sine, t = cosine * b, r += t, r += t;
			t = sine * r, d[i + 1] = g, d[i + 1] += t;
			g = cosine * r, g -= b;
			turn(i);
		}
		d[l] -= t, e[l] = g, e[m] = 0.0;
	}

	/* Whether e[m] is nothing beside its neighbours on the diagonal. */
	bool split(int m)
	{
		mpfr_abs(x.x, d[m].x, MPFR_RNDN), mpfr_abs(y.x, d[m + 1].x, MPFR_RNDN), x += y;
		mpfr_mul_2si(x.x, x.x, -mp::BITS, MPFR_RNDN);
		return mpfr_cmpabs(e[m].x, x.x) <= 0;
	}

	void run()
	{
		for (int i = 0; i < n * n; i++) A[i] = start[i], Q[i] = i % (n + 1) == 0;
		for (int k = 0; k < n - 2; k++) reflect(k);
		for (int i = 0; i < n; i++) d[i] = A[i * n + i];
		e[n - 2] = A[(n - 1) * n + n - 2], e[n - 1] = 0.0;
		for (int l = 0; l < n; l++)
			for (int m = n; m != l;) {
				for (m = l; m < n - 1 && !split(m);) m++;
				if (m != l) sweep(l, m);
			}
	}
};

peer peer_eigen(const double *A, int n)
{
	return { [](void *s) { static_cast<solver *>(s)->run(); }, new solver(A, n), 1 };
}

double peer_eigen_apart(peer *p, const double *hi, const double *lo)
{
	solver &s = *static_cast<solver *>(p->data);
	std::vector<mp *> sorted;
	double worst = 0;

	for (mp &x : s.d) sorted.push_back(&x);
	std::sort(sorted.begin(), sorted.end(), [](mp *a,
		mp *b) { return mpfr_less_p(a->x, b->x) != 0; });
	for (int i = 0; i < s.n; i++) {
		mpfr_sub_d(s.x.x, sorted[i]->x, hi[i], MPFR_RNDN),
			mpfr_sub_d(s.x.x, s.x.x, lo[i], MPFR_RNDN);
		worst = std::max(worst, fabs(mpfr_get_d(s.x.x, MPFR_RNDN)));
	}
	return worst;
}
