//go:build cgo

// Instruction sets and their selection at run time. Built with -std=c11, which prevents the compiler from fusing
// products and sums on its own; intended fusions are written as FMA.

#include "vector.h"

#pragma STDC FP_CONTRACT OFF

enum {
  CHUNK = 512, // number of factors whose non-zeros are listed at a time
  NARROW = 3,  // up to this many columns are computed in scalars
};

static inline __attribute__((always_inline)) uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  return x ^ x >> 16;
}

// keep returns a number, or 0, without a branch, which a conditional product would be.
static inline __attribute__((always_inline)) float keep(float x, int yes) {
  union { float f; uint32_t bits; } u = {x};
  u.bits &= -(uint32_t)yes;
  return u.f;
}

// Portable: four lanes as vector extensions of GCC and clang. With NEON, fused operations and roots are instructions;
// elsewhere they are calls of the C library, lane by lane.
typedef float v4 __attribute__((vector_size(16)));
typedef float any4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t i4 __attribute__((vector_size(16)));

#if defined(__aarch64__)
#include <arm_neon.h>
static inline v4 fma4(v4 a, v4 b, v4 c) { return (v4)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
static inline v4 sqrt4(v4 a) { return (v4)vsqrtq_f32((float32x4_t)a); }
#else
static inline v4 fma4(v4 a, v4 b, v4 c) {
  for (int i = 0; i < 4; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
static inline v4 sqrt4(v4 a) {
  for (int i = 0; i < 4; i++) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
#endif
static inline v4 load4(const float *p, long n) {
  v4 v = {0};
  for (long i = 0; i < n; i++) v[i] = p[i];
  return v;
}
static inline void store4(float *p, long n, v4 v) {
  for (long i = 0; i < n; i++) p[i] = v[i];
}
static inline void squares4(long n, const float *g, double *lanes) {
  for (int l = 0; l < 32; l++) lanes[l] = 0;
  for (; n >= 32; n -= 32, g += 32)
    for (int l = 0; l < 32; l++) lanes[l] += (double)g[l] * g[l];
}
static inline void transpose4(float *t, long tn, const float *w, long wn) {
  for (int x = 0; x < 8; x++)
    for (int y = 0; y < 8; y++) t[x * tn + y] = w[y * wn + x];
}
static inline v4 keep4(v4 v, i4 yes) { return (v4)((i4)v & yes); }

#define NAME(f) portable_##f
#define TARGET
#define REGISTERS 16
#define LANES 4
#define V v4
#define MASK long
#define MASKN(n) (n)
#define ZERO ((v4){0})
#define SET1(x) ((v4){x, x, x, x})
#define LOAD(p) ((v4)*(const any4 *)(p))
#define STORE(p, x) (*(any4 *)(p) = (x))
#define LOADM(p, m) load4(p, m)
#define STOREM(p, m, x) store4(p, m, x)
#define FMA(a, b, c) fma4(a, b, c)
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define SQRT(a) sqrt4(a)
#define RECTIFY(a) keep4(a, ~((a) < ZERO))
#define FLUSH(a, tiny) flush4(a, tiny)
#define SQUARES squares4
#define TRANSPOSE8 transpose4
static inline v4 flush4(v4 a, v4 tiny) { return keep4(a, ~((a < tiny) & (a > -tiny))); }
#include "vector_body.h"

#if defined(__x86_64__)
#include <immintrin.h>


static const int32_t lanes8[16] = {-1, -1, -1, -1, -1, -1, -1, -1};

#define NAME(f) avx2_##f
#define TARGET __attribute__((target("avx2,fma")))
#define REGISTERS 16
#define LANES 8
#define V __m256
#define MASK __m256i
#define MASKN(n) _mm256_loadu_si256((const __m256i *)(lanes8 + 8 - (n)))
#define ZERO _mm256_setzero_ps()
#define SET1(x) _mm256_set1_ps(x)
#define LOAD(p) _mm256_loadu_ps(p)
#define STORE(p, x) _mm256_storeu_ps(p, x)
#define LOADM(p, m) _mm256_maskload_ps(p, m)
#define STOREM(p, m, x) _mm256_maskstore_ps(p, m, x)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define DIV(a, b) _mm256_div_ps(a, b)
#define SQRT(a) _mm256_sqrt_ps(a)
#define RECTIFY(a) _mm256_max_ps(_mm256_setzero_ps(), a)
#define FLUSH(a, tiny) avx2_flush(a, tiny)
#define SQUARES avx2_squares
#define TRANSPOSE8 avx2_transpose8
static inline TARGET __m256 avx2_flush(__m256 a, __m256 tiny) {
  const __m256 size = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a);
  return _mm256_andnot_ps(_mm256_cmp_ps(size, tiny, _CMP_LT_OQ), a);
}
static inline TARGET void avx2_squares(long n, const float *g, double *lanes) {
  __m256d sum[8];
  for (int q = 0; q < 8; q++) sum[q] = _mm256_setzero_pd();
  for (; n >= 32; n -= 32, g += 32)
#pragma GCC unroll 8
    for (int q = 0; q < 8; q++) {
      const __m256d d = _mm256_cvtps_pd(_mm_loadu_ps(g + 4 * q));
      sum[q] = _mm256_fmadd_pd(d, d, sum[q]);
    }
  for (int q = 0; q < 8; q++) _mm256_storeu_pd(lanes + 4 * q, sum[q]);
}
// Transposes eight rows of eight: pairs within halves, then quadruples, then the halves.
static inline TARGET void avx2_transpose8(float *t, long tn, const float *w, long wn) {
  __m256 r[8], s[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(w + i * wn);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(s[i], s[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(s[i], s[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(s[i + 1], s[i + 3], 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(t + i * tn, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(t + (i + 4) * tn, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}
#include "vector_body.h"


#define NAME(f) avx512_##f
#define TARGET __attribute__((target("avx512f,avx2,fma")))
#define REGISTERS 32
#define LANES 16
#define V __m512
#define MASK __mmask16
#define MASKN(n) ((__mmask16)(0xffffu >> (16 - (n))))
#define ZERO _mm512_setzero_ps()
#define SET1(x) _mm512_set1_ps(x)
#define LOAD(p) _mm512_loadu_ps(p)
#define STORE(p, x) _mm512_storeu_ps(p, x)
#define LOADM(p, m) _mm512_maskz_loadu_ps(m, p)
#define STOREM(p, m, x) _mm512_mask_storeu_ps(p, m, x)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define MUL(a, b) _mm512_mul_ps(a, b)
#define DIV(a, b) _mm512_div_ps(a, b)
#define SQRT(a) _mm512_sqrt_ps(a)
#define RECTIFY(a) _mm512_max_ps(_mm512_setzero_ps(), a)
#define SQUARES avx512_squares
#define TRANSPOSE8 avx2_transpose8
#define FLUSH(a, tiny) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(a), tiny, _CMP_NLT_UQ), a)
static inline TARGET void avx512_squares(long n, const float *g, double *lanes) {
  __m512d sum[4];
  for (int q = 0; q < 4; q++) sum[q] = _mm512_setzero_pd();
  for (; n >= 32; n -= 32, g += 32)
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) {
      const __m512d d = _mm512_cvtps_pd(_mm256_loadu_ps(g + 8 * q));
      sum[q] = _mm512_fmadd_pd(d, d, sum[q]);
    }
  for (int q = 0; q < 4; q++) _mm512_storeu_pd(lanes + 8 * q, sum[q]);
}
#include "vector_body.h"

int net_best_level(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return LEVEL_AVX512;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? LEVEL_AVX2 : LEVEL_NONE;
}

#define CHOOSE(f, ...) \
  level == LEVEL_AVX512 ? avx512_##f(__VA_ARGS__) : level == LEVEL_AVX2 ? avx2_##f(__VA_ARGS__) : portable_##f(__VA_ARGS__)

#else

int net_best_level(void) {
#if defined(__aarch64__)
  return LEVEL_PORTABLE;
#else
  return LEVEL_NONE; // fused products may lack an instruction here, and calls of the C library are slower than Go
#endif
}

#define CHOOSE(f, ...) portable_##f(__VA_ARGS__)

#endif

void net_product(int level, long m, long n, long k, const float *a, long rs, long cs, const float *b, float *c,
                 const float *bias, int flags) {
  CHOOSE(product, m, n, k, a, rs, cs, b, c, bias, flags);
}
void net_adam(int level, long n, float *p, float *g, float *m, float *v, const float *factors) {
  CHOOSE(adam, n, p, g, m, v, factors);
}
void net_drop(int level, long n, float *h, uint64_t key, uint32_t threshold, float scale) {
  CHOOSE(drop, n, h, key, threshold, scale);
}
void net_relu_backward(int level, long n, float *d, const float *h, float scale) {
  CHOOSE(relu_backward, n, d, h, scale);
}
void net_column_sums(int level, long rows, long n, float *g, const float *d) { CHOOSE(column_sums, rows, n, g, d); }
void net_blend(int level, long n, float *p, const float *o, float tau) { CHOOSE(blend, n, p, o, tau); }
double net_sum_of_squares(int level, long n, const float *g) { return CHOOSE(sum_of_squares, n, g); }
void net_transpose(int level, long rows, long cols, float *t, const float *w) { CHOOSE(transpose, rows, cols, t, w); }
