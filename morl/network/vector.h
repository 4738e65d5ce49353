// Vector routines of the perceptrons; vector_go.go documents each of them. level selects the instruction set:
// net_best_level returns the best one of this processor.

#include <stdint.h>

enum { LEVEL_NONE, LEVEL_PORTABLE, LEVEL_AVX2, LEVEL_AVX512 };
enum { ACCUMULATE = 1, RELU = 2 };

int net_best_level(void);
void net_product(int level, long m, long n, long k, const float *a, long rs, long cs, const float *b, float *c,
                 const float *bias, int flags);
void net_adam(int level, long n, float *p, float *g, float *m, float *v, const float *factors);
void net_drop(int level, long n, float *h, uint64_t key, uint32_t threshold, float scale);
void net_relu_backward(int level, long n, float *d, const float *h, float scale);
void net_column_sums(int level, long rows, long n, float *g, const float *d);
void net_blend(int level, long n, float *p, const float *o, float tau);
double net_sum_of_squares(int level, long n, const float *g);
void net_transpose(int level, long rows, long cols, float *t, const float *w);
