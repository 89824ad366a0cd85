#include "limits.h"

/* ---- rules: docs/verdict.md, section 4 ---- */

/* One false alarm in a million, were the assumptions of docs/verdict.md exact: the p of every threshold. */
const double alpha = 1e-6;
/* A correct kernel's error may exceed its model by this factor before it is called wrong. */
const double slack = 1.4;
/* A mean error below this share of sigma is never a fault: kernels that truncate have one. */
const double harmless_bias = 0.1;
/* Nor is a gain of this share of sigma, which makes the rms 2 % larger: roundings of numbers that all of a head share, as its decays, go one way
 * in a kernel and another way in each run. flash-linear-attention's backward pass has 0.31 in one head where eight runs have 0.17 at most. */
const double harmless_gain = 0.2;
/* foreign_least of a correct kernel's indices (foreign_few of those that runs move, where they are few) and foreign_share of those may be none that the truth or a run names
 * there: of an index that one run in 72 has, and one kernel in 72, 37 % are in none of 72 runs, so of each that is named so seldom 0.5 %; of all that move one in
 * seven, say, is. Of those that runs move one in 1400 then; three of 27 by chance one time in a million. To what runs are
 * estimated to have missed come foreign_deviations of its Poisson scatter: one chance in three million. */
const double foreign_least = 2, foreign_few = 0.25, foreign_share = 0.01, foreign_deviations = 5;
/* Sixteen noisy runs are enough where each figure is below this share of the limit that more runs would set, or one beyond its own limit by
 * the reciprocal: sigma from 16 runs is 4/3 of what it should be for one element in 35 (chi-squared of 16), in which an error at the very
 * limit may pass, and less often for what has more elements or a row. Correct kernels in float32 have an rms at 0.71 of its limit. */
const double clear_share = 0.75;
/* The truth may be off by this share of sigma, no more. */
const double truth_share = 0.1;
/* And what was sampled of it by far less, as it speaks for the rest. */
const double sample_share = 1e-6;
/* A kernel that makes the contract's roundings errs by more than this many times what they imply: the rms of the
 * least of correct ones was 0.29 (docs/verdict.md). One whose outputs all err by less makes none of them. */
const double least_error = 0.1;
/* Noise where float32 is exact, too, is of another kind where a row's mean square is more than this many times that of noise where it rounds:
 * one rounding has u²/6, and operands off by up to half a unit each way add u²/3 at most, unless what was summed is larger than the sum. */
const double loose = 3;
/* Only errors up to this share of their row's largest number are worth that noise's runs, which take as long as all others: it is 2^-24 of
 * exponents of 2^14, or of what was summed where 2^-14 of it is left. What is further off fails without them. */
const double algebra_reach = 0x1p-10;
/* In that noise a chunked form goes by chunks of so many tokens: Mamba-2's kernels do, and none is known that takes more. A row with d tokens
 * of its chunk before it is behind as many of theirs in all but d/256 of the runs, whose first chunks are of other lengths. */
const size_t widest_chunk = 256;

/* ---- a layer of a model: docs/engines.md ---- */

/* A layer's error, the median over tokens of a row's rms, is at most so many times that of correct
 * layers of its contract: the slack of a call. Measured (docs/engines.md): 145 runs of correct
 * engines, from which it was read, had at most 1.14; 20 runs of cuts drawn afterwards had at most
 * 1.16; the smallest structural fault, retrieve before decay, had 2.5. */
const double layer_limit = 1.4;
/* A token whose routes are certain is off by at most so many times. The 145 runs had at most 2.9 in
 * dense models, and none had 8 in the mixture; the 20 of cuts drawn afterwards had at most 2.3. */
const double layer_row_limit = 8;
/* A rounding does the same to other numbers if its effects agree by more than this: those of a
 * constant agree by nearly 1, others by nearly 0. */
const double layer_constant_agrees = 0.5;
/* Suspects whose rows are so near to the least are told apart by the score. */
const double rows_alike = 1.02;
/* A contract whose emulation leaves less than this share of a row's rms is the engine's own: others
 * leave 1 or more. */
const double engines_own_contract = 0.7;
/* What is plain about a dump leaves at most this part of the squared error, and no more than the
 * rms rule allows. */
const double plain_leaves = 0.5;

/* ---- a structure is identified: docs/x-ray.md, docs/structure.md ---- */

/* The share of each output's error, in squares, that an emulation with roundings inside must explain: of what people's kernels leave,
 * near ties whose side the last bit of a sum decides, a hundredth is the most that was seen beside the right structure. */
const double explained_enough = 0.99;
/* The share that ends a search where what is left is the size of a few flips: one large rounding may be 99.9 % of the error alone. */
const double explained_plenty = 0.999, few_flips = 100;
/* Where float32's noise makes more than this share of the emulation's error, roundings cannot be told apart. */
const double saturated = 0.1;
/* Of what is left, as its mean square in units of float32's noise: sums in order leave that much. */
const double float32s_size = 16;
/* What is left of an element, relative to it or to its row, that is float32's own: four roundings to float32. */
const double float32s_share = 0x1p-22;
/* And what roundings may leave at most, of values as coarse as FP8's three bits: (2^24 / 2^3)^2. With a fault that leaves more no structure is read. */
const double coarsest = 0x1p42;
/* Or as many times what the form in float32 with exact sums leaves, as a root mean square: sums in order of some hundred terms leave four
 * times what one rounding does (float32s_size is its square). A search counts what is left against so much more of that mean square. */
const double sums_in_order = 4, most_of_noise = 64;

/* ---- a name is earned: docs/verdict.md, section 5 ---- */

/* A coefficient this many standard errors from 0 is not 0; one whose error is larger than the reciprocal says nothing. */
const double certain = 6;
/* A fault whose coefficient of 1 has not as many standard errors detects nobody. One element that flips with it, as it did in
 * one of the FLOOR_RUNS behind the noise, is worth root 5 of them, however far it goes; two are worth root 10. */
const double likely = 3;
/* A fault whose effect is smaller than this many times float32's noise, as rms over the outputs, can be neither
 * detected nor ruled out: float32's own errors are systematic too, at that size. */
const double above_noise = 2;
/* How much the score, twice a log likelihood, must fall for what is taken: one in three million by chance, of some thousand that are tried. */
const double worth_keeping = 30;
/* A coefficient is 1: within 0.05, as the design says, and within three of its errors and what rounding flips, which no fit follows, do to it. */
const double off_one = 0.05, flips_off_one = 0.005, errors_off_one = 3;
/* Where the structure is not identified what is left is larger than noise, and a coefficient must be as well known as it must be near. */
const double well_known = 0.05;
/* The share by which a constant is off that is another one: typed constants differ by more
 * (10010 for 10000), and what float32 makes of a right one, where it takes its logarithm or
 * divides, by less. */
const double another_number = 0x1p-14;
/* The share of what is left that a fault with a free number must explain at any time: it takes up the gain that another fault or a
 * rounding has. */
const double most_of_left = 0.9;
/* The share of what is not finite that a float32 run need not share: its sums are in another order. */
const double else_finite = 0.1;
/* Votes that chance seldom makes: 2^-6 for a direction drawn at random, of some ten that are as small as float32's noise. */
const double least_votes = 6;
/* Most of them agree: what a few elements that flip in float32 do not decide. */
const double most_votes = 0.9;

/* ---- where an error is: docs/x-ray.md ---- */

/* In units of float32's noise, squared: an element that is further off is wrong. */
const double place_wrong = 25;
/* Where most elements are wrong, as with roundings that were not read, those tell that are off by this
 * share or by so many times it: bf16's rounding is 2^-9 at most, FP8's 2^-4. */
const double place_share = 0x1p-12, place_grade = 8;
/* A place is said where the log of the likelihood ratio, less that of the sets that were tried,
 * is larger: one in a million by chance. */
const double place_chance = 14;
/* And where wrong elements are at least so many times as dense as elsewhere: less is no place to
 * a person. */
const double place_denser = 2;
/* Elsewhere is free of errors where they are less dense than in the place by this factor. */
const double place_clean = 0.02;
/* So much of the rows of a set of indices on all axes, beyond which nothing is wrong, make it
 * one place. */
const double place_full = 0.75;
/* A half of an axis is said for a range that has no more evidence than this part allows: small
 * errors do not show at all indices. */
const double place_plain = 0.8;
/* Of a pattern nearly all elements have it, and it makes this share of what is wrong at least. */
const double place_nearly = 0.99, place_worth = 0.25;
/* What stands at an index belongs at another where it is nearer to that by this factor, in
 * squares, and so near to it by size: FP8's rounding leaves 1.3e-3, and eight numbers drawn at
 * random agree so well one time in 10^9. */
const double moved_share = 2e-3;

/* A mixed batch's error is one request's where no more than this share of its tokens are wrong:
 * the memory of a slot reaches those that read it. */
const double isolated_share = 0.5;
/* And where a token or a slot is off by this share of its size. Kernels with a pool in bf16 are off by
 * 0.003 from float32's, those with bf16 operands by 0.02; another's memory is off by 1.9. */
const double isolated_size = 0.25;

/* ---- one structure against another: docs/structure.md ---- */

/* Sigma of a sign test over the elements that a choice changes: one in 16,000 by chance, of some 200 choices. */
const double sign_test = 4;
/* In no output may what is better in all of them be worse by as many. */
const double no_worse = 3;
/* Nor may the energy that is left of an output grow by this factor: a few near ties stay. */
const double much_louder = 1.5;
/* A fault beside a structure explains at least half of what that leaves; what explains less may be any rounding's. */
const double fault_shrinks = 0.5;

/* ---- a search's budget ---- */

/* Of one search of a structure in a check, in operations as compare/cells/schedule.h weighs them, some 2e9 a second on two cores: it found all
 * that it ever found of a recorded call of a megabyte in 12e9. A profile, which is asked for, has more. */
const double structure_work = 12.5e9, structure_work_profile = 36e9;
/* Of a call that breaks the rules it is given up after the first part of it, where of some output whatever was tried leaves more than this part of the error:
 * of ten public kernels' correct calls each had an answer by then that left at most 0.25 of it, of the same calls with 1 % of noise, 2 % of scale or a row
 * more all but two of fifty more than 0.75. Such an error is no structure's. After the second part less may be left: of three correct calls that broke rules whose
 * sigma did not know their arrangement, one left 0.14 by then, and nothing in the end. */
const double hopeless_soon = 0.06, left_soon = 0.7, hopeless_late = 0.48, left_late = 0.2;
/* It looks at as many heads as have this many elements of outputs, of the first tokens and of all: a choice that changes one element in ten
 * thousand still changes the 16 that a sign test of 4 sigma needs. What is found is held against all of the call. What brings fewer elements
 * than these, of all tokens, farther by twice such a test is not looked at in more. Of states that are read alone so many do: what is found there
 * is held against the other outputs. */
const size_t structure_sees = 1 << 16, structure_sees_last = 1 << 18, structure_sees_states = 1 << 12, structure_glances = 1 << 15;
const double far_at_a_glance = 8;
