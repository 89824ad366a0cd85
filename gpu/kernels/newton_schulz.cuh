/* Newton-Schulz on the device, over iterates of one type F; see newton_schulz.cu for the formulas.
 *
 * Matrices are s x l, s <= l: an x that is taller than wide is turned when it is loaded and when
 * the answer is stored. Rows are padded with zeros to a multiple of 8 elements. */
#ifndef ETALON_NEWTON_SCHULZ_CUH
#define ETALON_NEWTON_SCHULZ_CUH

#include <array>

#include "gpu/host/cublas.cuh"
#include "gpu/kernels/symmetric_forms.cuh"

enum algorithm { STANDARD, GRAM_NAIVE, GRAM };

struct polynomial { float a, b, c; };

struct newton_schulz_plan {
	enum algorithm algorithm;
	std::vector<polynomial> coefficients;
	std::vector<bool> restart;      /* [K]: before iteration t */
	float eps;
	bool eps_is_least = false;      /* max(|x|, eps) for |x| + eps */
};

/* ---- between the caller's matrices and ours ---- */

/* to[i,j] = from[i,j], or from[j,i] if turned, over batch matrices; divided by norm + eps, or by max(norm, eps), unless
 * norm is NULL. rows, columns: of `to`; each: elements from matrix to matrix. */
struct layout_change {
	operand from;
	result to;
	int rows, columns;
	size_t ld_from, each_from, ld_to, each_to, first_to;
	bool turned;
	const float *norm;
	float eps;
	bool eps_is_least = false;
};

/* Grid: tiles of 32 x 32 of `to` across, down, batch. Block: 32 x 8. */
static __global__ void change_layout(layout_change m)
{
	__shared__ float tile[32][33];
	int row = (int)blockIdx.y * 32, column = (int)blockIdx.x * 32, x = (int)threadIdx.x;

	for (int y = (int)threadIdx.y; y < 32; y += 8) {
		int i = row + (m.turned ? x : y), j = column + (m.turned ? y : x);
		if (i < m.rows && j < m.columns)
			tile[y][x] = m.from.at(blockIdx.z * m.each_from + (m.turned ? j * m.ld_from + i : i * m.ld_from + j));
	}
	__syncthreads();
	for (int y = (int)threadIdx.y; y < 32; y += 8)
		if (row + y < m.rows && column + x < m.columns) {
			float z[1] = { m.turned ? tile[x][y] : tile[y][x] };
			if (m.norm)
				z[0] /= m.eps_is_least ? fmaxf(m.norm[blockIdx.z], m.eps) : m.norm[blockIdx.z] + m.eps;
			store(m.to, m.first_to + blockIdx.z * m.each_to + (row + y) * m.ld_to + column + x, z);
		}
}

enum { NORM_PARTS = 512 };

/* Sum of squares of a part of a matrix of `count` elements, a thread's elements first. Grid:
 * NORM_PARTS, batch. */
static __global__ void part_of_norm(operand x, size_t count, float *parts)
{
	__shared__ float part[32];
	size_t each = (count + NORM_PARTS - 1) / NORM_PARTS, first = blockIdx.x * each;
	size_t end = first + each < count ? first + each : count;
	float squares = 0.0f;

	for (size_t i = first + threadIdx.x; i < end; i += blockDim.x) {
		float z = x.at(blockIdx.y * count + i);
		squares += z * z;
	}
	squares = block_sum(squares, part);
	if (threadIdx.x == 0)
		parts[blockIdx.y * NORM_PARTS + blockIdx.x] = squares;
}

/* norm [batch]. Grid: batch; block: NORM_PARTS. */
static __global__ void norm_of_parts(const float *parts, float *norm)
{
	__shared__ float part[32];
	float sum = block_sum(parts[blockIdx.x * NORM_PARTS + threadIdx.x], part);

	if (threadIdx.x == 0)
		norm[blockIdx.x] = sqrtf(sum);
}

/* D = Z + a I, [batch,s,ld]; Z may be D. Grid: packs of 8 of a matrix's elements, batch. */
template <class F> __global__ void add_to_diagonal(F *D, const F *Z, float a, int s, int ld)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x, across = (unsigned)ld / 8;
	int row = (int)(i / across), column = (int)(i % across) * 8;
	size_t at = ((size_t)blockIdx.y * s + row) * ld + column;
	float z[8];

	if (row >= s)
		return;
	load(z, Z + at);
#pragma unroll
	for (int j = 0; j < 8; j++)
		if (column + j == row)
			z[j] += a;
	store(D + at, z);
}

/* ---- the iteration ---- */

/* How the symmetric products are made. */
enum engine { OWN, CUBLAS_ONLY };

template <class F> class newton_schulz {
public:
	/* n x m matrices. */
	newton_schulz(newton_schulz_plan plan, int n, int m, int batch, cublas &general, engine e, cudaStream_t stream)
		: plan_(std::move(plan)), general_(general), engine_(e), stream_(stream), turned_(n > m), s(std::min(n, m)),
		  l(std::max(n, m)), batch(batch), ld_s_((s + 7) / 8 * 8), ld_l_((l + 7) / 8 * 8), X_(wide()), Y_(wide()),
		  R_(square()), Z_(square()), RZ_(square()), Q_(square()), spare_(square()),
		  parts_(sizeof(float) * NORM_PARTS * batch), norm_(sizeof(float) * batch)
	{
	}

	/* X <- x / (|x| + eps), or x / max(|x|, eps), x [batch,n,m] packed. */
	void load(operand x)
	{
		size_t count = (size_t)s * l;

		part_of_norm<<<dim3(NORM_PARTS, batch), 256, 0, stream_>>>(x, count, parts_.template as<float>());
		norm_of_parts<<<batch, NORM_PARTS, 0, stream_>>>(parts_.template as<float>(), norm_.template as<float>());
		change({ x, any(X_), s, l, (size_t)(turned_ ? s : l), count, (size_t)ld_l_, (size_t)s * ld_l_, 0, turned_,
		         norm_.template as<float>(), plan_.eps, plan_.eps_is_least });
	}

	/* record(t) is called for t = 0 .. K, when X, R and Q are those after t iterations. all: R and
	 * Q are computed where nothing but a record needs them, too. */
	template <class Record> void iterate(bool all, Record record)
	{
		if (plan_.algorithm == STANDARD)
			iterate_standard(record);
		else
			iterate_gram(all, record);
	}
	void iterate() { iterate(false, [](int) {}); }

	/* [batch,n,m], packed. */
	void answer(result y) const
	{
		int rows = turned_ ? l : s, columns = turned_ ? s : l;

		change({ any_const(X_), y, rows, columns, (size_t)ld_l_, (size_t)s * ld_l_, (size_t)columns, (size_t)s * l, 0,
		         turned_, nullptr, 0 });
	}

	/* Entry t of a trace [batch,entries,s,columns]. */
	void write_X(result to, int t, int entries) const { write(X_, l, ld_l_, to, t, entries); }
	void write_R(result to, int t, int entries) const { write(R_, s, ld_s_, to, t, entries); }
	void write_Q(result to, int t, int entries) const { write(Q_, s, ld_s_, to, t, entries); }

private:
	newton_schulz_plan plan_;
	cublas &general_;
	engine engine_;
	cudaStream_t stream_;
	bool turned_;
	int s, l, batch, ld_s_, ld_l_;
	buffer X_, Y_, R_, Z_, RZ_, Q_, spare_, parts_, norm_;

	buffer wide() const { return cleared((size_t)s * ld_l_); }
	buffer square() const { return cleared((size_t)s * ld_s_); }
	buffer cleared(size_t each) const
	{
		buffer b(each * batch * sizeof(F));
		check(cudaMemsetAsync(b.as<void>(), 0, each * batch * sizeof(F), stream_), "cudaMemset");
		return b;
	}

	static constexpr enum dtype dtype = std::is_same_v<F, f16> ? DT_F16 : std::is_same_v<F, bf16> ? DT_BF16 : DT_F32;
	static result any(const buffer &b) { return { b.as<void>(), dtype }; }
	static operand any_const(const buffer &b) { return { b.as<const void>(), dtype }; }

	void change(const layout_change &m) const
	{
		change_layout<<<dim3(blocks(m.columns, 32), blocks(m.rows, 32, 65535), batch), dim3(32, 8), 0, stream_>>>(m);
		check(cudaGetLastError(), "change_layout");
	}

	void write(const buffer &from, int columns, int ld, result to, int t, int entries) const
	{
		size_t each = (size_t)s * columns;

		change({ any_const(from), to, s, columns, (size_t)ld, (size_t)s * ld, (size_t)columns, each * entries, each * t,
		         false, nullptr, 0 });
	}

	/* D = alpha A B + beta C + diagonal I, of symmetric matrices; D is none of the others. */
	void symmetric(buffer &D, float alpha, const buffer &A, const buffer &B, float beta, const buffer &C, float diagonal = 0)
	{
		const F *a = A.as<const F>(), *b = B.as<const F>(), *c = beta == 0 ? nullptr : C.as<const F>();
		F *d = D.as<F>();

		if (engine_ == OWN) {
			multiply_symmetric<F>({ a, b, c, d, s, s, ld_s_, ld_s_, batch, alpha, beta, diagonal }, stream_);
			return;
		}
		general_.multiply({ s, s, s, ld_s_, ld_s_, ld_s_, batch, false }, alpha, a, b, beta, c, d, stream_);
		if (diagonal != 0)
			shift(D, D, diagonal);
	}

	/* R <- X X' */
	void gram_matrix()
	{
		const F *x = X_.as<const F>(), *none = nullptr;
		F *r = R_.as<F>();

		if (engine_ == OWN)
			multiply_symmetric<F>({ x, x, none, r, s, l, ld_l_, ld_s_, batch, 1, 0, 0 }, stream_);
		else
			general_.multiply({ s, s, l, ld_l_, ld_l_, ld_s_, batch, true }, 1.0f, x, x, 0.0f, none, r, stream_);
	}

	/* X <- B X + a X */
	void apply(const buffer &B, float a)
	{
		const F *b = B.as<const F>(), *x = X_.as<const F>();

		general_.multiply({ s, l, s, ld_s_, ld_l_, ld_l_, batch, false }, 1.0f, b, x, a, x, Y_.as<F>(), stream_);
		std::swap(X_, Y_);
	}

	/* D = Z + a I */
	void shift(buffer &D, const buffer &Z, float a)
	{
		dim3 grid(blocks((size_t)s * ld_s_ / 8, 256), batch);

		add_to_diagonal<<<grid, 256, 0, stream_>>>(D.as<F>(), Z.as<const F>(), a, s, ld_s_);
		check(cudaGetLastError(), "add_to_diagonal");
	}

	/* Q <- I */
	void unit_Q()
	{
		check(cudaMemsetAsync(Q_.as<void>(), 0, sizeof(F) * s * ld_s_ * batch, stream_), "cudaMemset");
		shift(Q_, Q_, 1);
	}

	template <class Record> void iterate_standard(Record record)
	{
		record(0);
		for (size_t t = 0; t < plan_.coefficients.size(); t++) {
			polynomial h = plan_.coefficients[t];

			gram_matrix();
			symmetric(Z_, h.c, R_, R_, h.b, R_);
			apply(Z_, h.a);
			record((int)t + 1);
		}
	}

	/* A product with Q = I is the other factor, to the bit, and is not computed. */
	template <class Record> void iterate_gram(bool all, Record record)
	{
		size_t K = plan_.coefficients.size();
		bool inside = plan_.algorithm == GRAM_NAIVE, unit = true;       /* inside: a is a part of Z */

		gram_matrix();
		if (all)
			unit_Q();
		record(0);
		for (size_t t = 0; t < K; t++) {
			polynomial h = plan_.coefficients[t];
			float a_in = inside ? h.a : 0, a_out = inside ? 0 : h.a;

			if (plan_.restart[t]) {
				apply(Q_, 0);
				gram_matrix();
				unit = true;
			}
			symmetric(Z_, h.c, R_, R_, h.b, R_, a_in);
			if (unit) {
				shift(Q_, Z_, a_out);
			} else {
				symmetric(spare_, 1, Q_, Z_, a_out, Q_);
				std::swap(Q_, spare_);
			}
			unit = false;
			if (all || (t + 1 < K && !plan_.restart[t + 1])) {
				symmetric(RZ_, 1, R_, Z_, a_out, R_);
				symmetric(spare_, 1, Z_, RZ_, a_out, RZ_);
				std::swap(R_, spare_);
			}
			record((int)t + 1);
		}
		apply(Q_, 0);
	}
};

#endif
