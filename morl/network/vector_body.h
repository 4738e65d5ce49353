// The vector routines, written once over the macros that vector.c defines for each instruction set before it includes
// this file: NAME, TARGET, V, LANES, MASK and the operations on them. Every element of a product is one chain of
// fused multiply-adds over k in order, so that results depend neither on LANES nor on the shape of the tiles.

// tile computes R rows × N vectors of c, all in registers. If listed, it uses only the k's in list.
static inline __attribute__((always_inline)) TARGET void NAME(tile)(
    const int R, const int N, const int masked, const int listed, MASK mask, const int *list, long k,
    const float *a, long rs, long cs, const float *b, long n, float *c, const float *bias, int flags) {
  V acc[24];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 16
    for (int v = 0; v < N; v++) {
      const float *from = flags & ACCUMULATE ? c + r * n + v * LANES : bias + v * LANES;
      acc[r * N + v] = !(flags & ACCUMULATE) && !bias ? ZERO : masked ? LOADM(from, mask) : LOAD(from);
    }
  }
  for (long p = 0; p < k; p++) {
    const long q = listed ? list[p] : p;
    const float *bp = b + q * n;
    V bv[16];
#pragma GCC unroll 16
    for (int v = 0; v < N; v++) bv[v] = masked ? LOADM(bp + v * LANES, mask) : LOAD(bp + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
      const V av = SET1(a[r * rs + q * cs]);
#pragma GCC unroll 16
      for (int v = 0; v < N; v++) acc[r * N + v] = FMA(av, bv[v], acc[r * N + v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
#pragma GCC unroll 16
    for (int v = 0; v < N; v++) {
      V s = ADD(acc[r * N + v], ZERO); // -0 becomes 0, as if a zero input is skipped
      if (flags & RELU) s = RECTIFY(s);
      if (masked) STOREM(c + r * n + v * LANES, mask, s);
      else STORE(c + r * n + v * LANES, s);
    }
  }
}

// column computes R rows of one column in scalars, for the last few columns, where vectors would be nearly empty.
static inline __attribute__((always_inline)) TARGET void NAME(column)(const int R, long k, const float *a, long rs, long cs,
                                                                      const float *b, long n, float *c,
                                                                      const float *bias, int flags) {
  float acc[8];
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) acc[r] = flags & ACCUMULATE ? c[r * n] : bias ? *bias : 0;
  for (long p = 0; p < k; p++) {
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) acc[r] = __builtin_fmaf(a[r * rs + p * cs], b[p * n], acc[r]);
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; r++) {
    const float s = acc[r] + 0.0f;
    c[r * n] = flags & RELU && s < 0 ? 0 : s;
  }
}

#define WIDE(R, N) \
  for (; n - j >= (N) * LANES; j += (N) * LANES) \
  NAME(tile)(R, N, 0, 0, MASKN(LANES), 0, k, a, rs, cs, b + j, n, c + j, bias ? bias + j : 0, flags)
#define REST(R) \
  for (; j < n && n - j <= NARROW; j++) NAME(column)(R, k, a, rs, cs, b + j, n, c + j, bias ? bias + j : 0, flags); \
  if (j < n) NAME(tile)(R, 1, 1, 0, MASKN(n - j), 0, k, a, rs, cs, b + j, n, c + j, bias ? bias + j : 0, flags)
#define ROWS(R) \
  static TARGET __attribute__((noinline)) void NAME(rows##R)(long n, long k, const float *a, long rs, long cs, \
                                                             const float *b, float *c, const float *bias, int flags)

#if REGISTERS >= 32
ROWS(8) {
  long j = 0;
  WIDE(8, 3);
  WIDE(8, 2);
  WIDE(8, 1);
  REST(8);
}
ROWS(4) {
  long j = 0;
  WIDE(4, 4);
  WIDE(4, 2);
  WIDE(4, 1);
  REST(4);
}
ROWS(2) {
  long j = 0;
  WIDE(2, 8);
  WIDE(2, 4);
  WIDE(2, 2);
  WIDE(2, 1);
  REST(2);
}
#else
ROWS(4) {
  long j = 0;
  WIDE(4, 3);
  WIDE(4, 2);
  WIDE(4, 1);
  REST(4);
}
ROWS(2) {
  long j = 0;
  WIDE(2, 4);
  WIDE(2, 2);
  WIDE(2, 1);
  REST(2);
}
#endif
ROWS(1) {
  long j = 0;
  WIDE(1, 8);
  WIDE(1, 4);
  WIDE(1, 2);
  WIDE(1, 1);
  REST(1);
}
#undef WIDE
#undef REST
#undef ROWS

// single is the product of one row. It is bound by reading b, so rows of b with a zero factor are not read (after
// ReLU and dropout, half of them or more). The factors a are adjacent.
#define LISTED(N) \
  for (; n - j >= (N) * LANES; j += (N) * LANES) \
  NAME(tile)(1, N, 0, 1, MASKN(LANES), list, found, a + at, 0, 1, b + at * n + j, n, c + j, bias ? bias + j : 0, how)
static TARGET __attribute__((noinline)) void NAME(single)(long n, long k, const float *a, const float *b, float *c,
                                                          const float *bias, int flags) {
  int list[CHUNK];
  for (long at = 0; at == 0 || at < k; at += CHUNK) {
    const long some = k - at < CHUNK ? k - at : CHUNK;
    long found = 0;
    for (long p = 0; p < some; p++) {
      list[found] = (int)p;
      found += a[at + p] != 0;
    }
    int how = at ? flags | ACCUMULATE : flags;
    if (at + CHUNK < k) how &= ~RELU;
    long j = 0;
#if REGISTERS >= 32
    LISTED(16);
#endif
    LISTED(8);
    LISTED(4);
    LISTED(2);
    LISTED(1);
    if (j < n) NAME(tile)(1, 1, 1, 1, MASKN(n - j), list, found, a + at, 0, 1, b + at * n + j, n, c + j, bias ? bias + j : 0, how);
  }
}
#undef LISTED

static TARGET void NAME(product)(long m, long n, long k, const float *a, long rs, long cs, const float *b, float *c,
                                 const float *bias, int flags) {
  if (m == 1 && cs == 1) {
    NAME(single)(n, k, a, b, c, bias, flags);
    return;
  }
  long i = 0;
#if REGISTERS >= 32
  for (; m - i >= 8; i += 8) NAME(rows8)(n, k, a + i * rs, rs, cs, b, c + i * n, bias, flags);
#endif
  for (; m - i >= 4; i += 4) NAME(rows4)(n, k, a + i * rs, rs, cs, b, c + i * n, bias, flags);
  for (; m - i >= 2; i += 2) NAME(rows2)(n, k, a + i * rs, rs, cs, b, c + i * n, bias, flags);
  for (; m - i >= 1; i += 1) NAME(rows1)(n, k, a + i * rs, rs, cs, b, c + i * n, bias, flags);
}

static TARGET void NAME(adam)(long n, float *p, float *g, float *m, float *v, const float *f) {
  const V scale = SET1(f[0]), beta1 = SET1(f[1]), beta2 = SET1(f[2]), rest1 = SET1(f[3]), rest2 = SET1(f[4]);
  const V rate = SET1(f[5]), root = SET1(f[6]), epsilon = SET1(f[7]), tinyM = SET1(f[8]), tinyV = SET1(f[9]);
  for (long i = 0; i < n; i += LANES) {
    const MASK mask = MASKN(n - i < LANES ? n - i : LANES);
    const V x = MUL(LOADM(g + i, mask), scale);
    const V mi = FLUSH(ADD(MUL(beta1, LOADM(m + i, mask)), MUL(rest1, x)), tinyM);
    const V vi = FLUSH(ADD(MUL(beta2, LOADM(v + i, mask)), MUL(MUL(rest2, x), x)), tinyV);
    STOREM(m + i, mask, mi);
    STOREM(v + i, mask, vi);
    STOREM(g + i, mask, ZERO);
    const V move = MUL(rate, DIV(mi, ADD(MUL(SQRT(vi), root), epsilon)));
    STOREM(p + i, mask, SUB(LOADM(p + i, mask), move));
  }
}

// The rest is plain C, which the compiler vectorises: no result depends on the order of operations.

static TARGET void NAME(drop)(long n, float *h, uint64_t key, uint32_t threshold, float scale) {
  const uint32_t lo = (uint32_t)key, hi = (uint32_t)(key >> 32);
  for (uint32_t i = 0; i < (uint32_t)n; i++) h[i] = keep(h[i] * scale, mix(mix(i ^ lo) + hi) >= threshold);
}

static TARGET void NAME(relu_backward)(long n, float *d, const float *h, float scale) {
  for (long i = 0; i < n; i++) d[i] = keep(d[i] * scale, h[i] > 0);
}

static TARGET void NAME(column_sums)(long rows, long n, float *g, const float *d) {
  for (long r = 0; r < rows; r++, d += n)
    for (long j = 0; j < n; j++) g[j] += d[j];
}

static TARGET void NAME(blend)(long n, float *p, const float *o, float tau) {
  for (long i = 0; i < n; i++) p[i] += tau * (o[i] - p[i]);
}

// sum_of_squares adds in 32 lanes of double, in which the products are exact, then the lanes in order.
static TARGET double NAME(sum_of_squares)(long n, const float *g) {
  double lanes[32], s = 0;
  SQUARES(n, g, lanes);
  for (long i = n & ~31L; i < n; i++) lanes[i & 31] += (double)g[i] * g[i];
  for (int l = 0; l < 32; l++) s += lanes[l];
  return s;
}

// transpose proceeds by blocks of 16×16, so that whole cache lines are read and written.
static TARGET void NAME(transpose)(long rows, long cols, float *t, const float *w) {
  for (long i = 0; i < rows; i += 16)
    for (long j = 0; j < cols; j += 16)
      if (rows - i >= 16 && cols - j >= 16)
        for (int q = 0; q < 4; q++) {
          const long y = i + 8 * (q & 1), x = j + 8 * (q >> 1);
          TRANSPOSE8(t + x * rows + y, rows, w + y * cols + x, cols);
        }
      else
        for (long x = j; x < cols && x < j + 16; x++)
          for (long y = i; y < rows && y < i + 16; y++) t[x * rows + y] = w[y * cols + x];
}

// The next kernel defines its own macros.
#undef NAME
#undef TARGET
#undef REGISTERS
#undef LANES
#undef V
#undef MASK
#undef MASKN
#undef ZERO
#undef SET1
#undef LOAD
#undef STORE
#undef LOADM
#undef STOREM
#undef FMA
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef SQRT
#undef RECTIFY
#undef FLUSH
#undef SQUARES
#undef TRANSPOSE8
