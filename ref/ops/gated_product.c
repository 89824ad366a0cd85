/* gated_product, per row: y = sigmoid(g) x + addend. g is given, for each element (the gate on attention's output) or one for
 * the row, or is the product of the row's hidden state and a weight (the gate of a shared expert). */
#include "ref/call/op.h"

enum { D_R, D_D, D_G, D_E };
enum { IN_X, IN_GATE, IN_HIDDEN, IN_GATE_WEIGHT, IN_ADDEND };
enum { OUT_Y };
enum { SITE_GATE, SITE_SIGMOID, SITE_PRODUCT, SITE_Y };
enum {
	GATE_IS_SILU, SIGMOID_MISSING, GATE_MISSING, ADDEND_MISSING, ADDEND_GATED, GATE_OF_NEXT_ROW,
	GATE_IN_BF16, SIGMOID_IN_BF16, PRODUCT_IN_BF16
};

/* g, one number or one for each element of the row */
static vec gate_of(calc *c, size_t r)
{
	size_t E = c_dim(c, D_E), G = c_dim(c, D_G), R = c_dim(c, D_R);

	if (c_fault(c, GATE_OF_NEXT_ROW)) r = (r + 1) % R;
	if (c_has(c, IN_GATE)) {
		vec g = c_vec(c, G);
		c_load(c, g, IN_GATE, r * G, 1);
		return g;
	}
	vec hidden = c_vec(c, E), weight = c_vec(c, E);
	num g = c_num(c);
	c_load(c, hidden, IN_HIDDEN, r * E, 1);
	c_load(c, weight, IN_GATE_WEIGHT, 0, 1);
	c_dot(c, g, hidden, weight);
	return g;
}

static void row(calc *c, size_t r)
{
	size_t D = c_dim(c, D_D);
	vec x = c_vec(c, D), addend = c_vec(c, D), g = gate_of(c, r);
	bool added = c_has(c, IN_ADDEND) && !c_fault(c, ADDEND_MISSING), early = added && c_fault(c, ADDEND_GATED);

	c_load(c, x, IN_X, r * D, 1);
	if (added) c_load(c, addend, IN_ADDEND, r * D, 1);
	if (early) c_add(c, x, x, addend);
	c_site(c, SITE_GATE, g);
	if (c_fault(c, GATE_IS_SILU)) c_map(c, g, FN_SILU, g);
	else if (!c_fault(c, SIGMOID_MISSING)) c_map(c, g, FN_SIGMOID, g);
	c_site(c, SITE_SIGMOID, g);
	if (!c_fault(c, GATE_MISSING)) c_mul(c, x, x, g);     /* x <- sigmoid(g) x */
	if (added && !early) {
		c_site(c, SITE_PRODUCT, x);
		c_add(c, x, x, addend);
	}
	c_site(c, SITE_Y, x);
	c_store(c, OUT_Y, r * D, 1, x);
}

static bool check(const struct call *call, struct error *e)
{
	bool given = call->in[IN_GATE], hidden = call->in[IN_HIDDEN], weight = call->in[IN_GATE_WEIGHT];
	size_t G = call->dim[D_G], D = call->dim[D_D];

	if (hidden != weight)
		return error_set(e, E_MISSING, hidden ? "in.gate_weight" : "in.hidden", NO_OFFSET, "hidden and gate_weight come together");
	if (given == hidden)
		return error_set(e, given ? E_EXTRA : E_MISSING, "in.gate", NO_OFFSET, "expected either gate or hidden and gate_weight");
	if (given && G != 1 && G != D)
		return error_set(e, E_DIM, "in.gate", NO_OFFSET, "expected 1 or D = %zu in a row, got %zu", D, G);
	return true;
}

static size_t pieces(const struct call *call) { return call->dim[D_R]; }

static const struct tensor_spec in[] = {
	[IN_X] = { "x", "R,D", 0, "rows" },
	[IN_GATE] = { "gate", "R,G", OPTIONAL, "G = D: one for each element; G = 1: one for the row" },
	[IN_HIDDEN] = { "hidden", "R,E", OPTIONAL, "where no gate is given it is hidden gate_weight" },
	[IN_GATE_WEIGHT] = { "gate_weight", "E", OPTIONAL, "see hidden" },
	[IN_ADDEND] = { "addend", "R,D", OPTIONAL, "added to the product" },
	{ 0 }
};
static const struct tensor_spec out[] = { [OUT_Y] = { "y", "R,D", 0, "" }, { 0 } };
static const struct param_spec params[] = { { 0 } };
static const struct site_spec sites[] = {
	[SITE_GATE] = { "gate", "g, before its sigmoid", 0, 0 },
	[SITE_SIGMOID] = { "sigmoid", "sigmoid(g)", 0, 0 },
	[SITE_PRODUCT] = { "product", "sigmoid(g) x, where an addend follows", 0, 0 },
	[SITE_Y] = { "y", "the output", 0, 1 + OUT_Y },
	{ 0 }
};
static const struct fault_spec faults[] = {
	[GATE_IS_SILU] = { "gate_is_silu", "silu(g) for sigmoid(g)", "", 0, 0, 0, 0 },
	[SIGMOID_MISSING] = { "sigmoid_missing", "g x", "", 0, 0, 0, 0 },
	[GATE_MISSING] = { "gate_missing", "x is not gated", "", 0, 0, 0, 0 },
	[ADDEND_MISSING] = { "addend_missing", "the addend is not added", "", 0, 0, 0, 0 },
	[ADDEND_GATED] = { "addend_gated", "sigmoid(g) (x + addend)", "", 0, 0, 0, 0 },
	[GATE_OF_NEXT_ROW] = { "gate_of_next_row", "row r takes the gate of row r + 1", "", 0, 0, 0, 0 },
	[GATE_IN_BF16] = { "gate_in_bf16", "g rounded to bf16", "", 0, true, SITE_GATE, FMT_BF16 },
	[SIGMOID_IN_BF16] = { "sigmoid_in_bf16", "sigmoid(g) rounded to bf16", "", 0, true, SITE_SIGMOID, FMT_BF16 },
	[PRODUCT_IN_BF16] = { "product_in_bf16", "sigmoid(g) x rounded to bf16 before the addition", "",
		0, true, SITE_PRODUCT, FMT_BF16 },
	{ 0 }
};
#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32, in one pass", 0, 0, {{ 0 }}, NULL },
	{ "product_bf16", "the product rounded to bf16 before the addition", 0, 0, { [SITE_PRODUCT] = BF16 }, NULL },
	{ "bf16", "the same, and g and its sigmoid rounded to bf16, as separate kernels hand them on", 0, 0,
		{ [SITE_GATE] = BF16, [SITE_SIGMOID] = BF16, [SITE_PRODUCT] = BF16 }, NULL },
	{ 0 }
};

const struct op op_gated_product = {
	.name = "gated_product", .what = "sigmoid(g) x + addend, g given or a product of its own",
	.dims = { "R", "D", "G", "E" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = { { "rows", row } }, .check = check, .pieces = pieces, .cut = &cut_rows
};
