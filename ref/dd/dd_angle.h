/* Angles modulo π/2. */
#ifndef ETALON_DD_ANGLE_H
#define ETALON_DD_ANGLE_H

#include "dd_functions.h"

#define DD_ANGLE 0x1p28         /* beyond, dd_angle_far */

/* r = x - q π/2, q the nearest integer or a neighbour where |r| is near π/4; |x| <= DD_ANGLE. Nine terms, summed as in
 * four-fold precision (Ogita, Rump and Oishi 2005): r is off by 4 u^2 |r| + 2^-180. */
INLINE dd dd_angle(dd x, double *q)
{
	double k = dd_round(x.hi * 0x1.45f306dc9c883p-1);
	dd a = dd_two_prod(-k, 0x1.921fb54442d18p0), b = dd_two_prod(-k, 0x1.1a62633145c07p-54);
	dd c = dd_two_prod(-k, -0x1.f1976b7ed8fbcp-110);
	double term[] = { -k * 0x1.4cf98e804177dp-164, c.lo, c.hi, b.lo, b.hi, a.lo, x.lo, a.hi, x.hi }, rest = 0;

	#pragma GCC unroll 3
	for (int pass = 0; pass < 3; pass++) {
		#pragma GCC unroll 8
		for (int i = 1; i < 9; i++) {
			dd s = dd_two_sum(term[i], term[i - 1]);
			term[i] = s.hi;
			term[i - 1] = s.lo;
		}
	}
	#pragma GCC unroll 8
	for (int i = 0; i < 8; i++) rest += term[i];
	*q = k;
	return dd_fast_two_sum(term[8], rest);
}

/* The same for any finite x, q modulo 4 (Payne and Hanek 1983): off by 40 u^2 |r| + 2^-180. */
dd dd_angle_far(dd x, double *q);

#endif
