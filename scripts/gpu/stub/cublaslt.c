// cuBLASLt without a GPU, of as much of the interface as is called: products on the host's memory,
// which is that of `cuda.c`, by the library's rules, matrices by columns. A wrong call fails; with
// STUB_LOG set every product is printed.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef struct {
    int type;
    uint64_t rows, cols;
    int64_t ld;
    int batch;
    int64_t step;
} Layout;
typedef struct {
    int comp, ta, tb;
} Description;
typedef struct {
    size_t ws;
    int al[4];
} Preference;
// CUBLAS_STATUS_INVALID_VALUE, and a line that says why.
static int wrong(const char *what) {
    fprintf(stderr, "cuBLASLt was called with a wrong %s\n", what);
    return 7;
}
int cublasLtCreate(void **h) {
    *h = (void *)1;
    return 0;
}
int cublasLtDestroy(void *h) { return 0; }
size_t cublasLtGetVersion(void) { return 130000; }
int cublasLtMatrixLayoutCreate(void **l, int t, uint64_t r, uint64_t c, int64_t ld) {
    Layout *x = calloc(1, sizeof(Layout));
    x->type = t;
    x->rows = r;
    x->cols = c;
    x->ld = ld;
    x->batch = 1;
    *l = x;
    if (ld < (int64_t)r) {
        fprintf(stderr, "ld %ld < rows %lu\n", (long)ld, (long)r);
        return 7;
    }
    return 0;
}
int cublasLtMatrixLayoutDestroy(void *l) { return 0; }
int cublasLtMatrixLayoutSetAttribute(void *l, int a, const void *b, size_t n) {
    Layout *x = l;
    if (a == 5)
        x->batch = *(int *)b;
    else if (a == 6)
        x->step = *(int64_t *)b;
    else
        return wrong("attribute of a layout");
    return 0;
}
int cublasLtMatmulDescCreate(void **d, int c, int s) {
    Description *m = calloc(1, sizeof(Description));
    m->comp = c;
    *d = m;
    return 0;
}
int cublasLtMatmulDescDestroy(void *d) { return 0; }
int cublasLtMatmulDescSetAttribute(void *d, int a, const void *b, size_t n) {
    Description *m = d;
    if (a == 3)
        m->ta = *(int *)b;
    else if (a == 4)
        m->tb = *(int *)b;
    else
        return wrong("attribute of a description");
    return n == 4 ? 0 : wrong("size of an attribute");
}
int cublasLtMatmulPreferenceCreate(void **p) {
    *p = calloc(1, sizeof(Preference));
    return 0;
}
int cublasLtMatmulPreferenceDestroy(void *p) {
    free(p);
    return 0;
}
int cublasLtMatmulPreferenceSetAttribute(void *p, int a, const void *b, size_t n) {
    if (!(a == 1 && n == 8) && !(a >= 5 && a <= 8 && n == 4))
        return wrong("attribute of a preference");
    return 0;
}
typedef struct {
    uint64_t algo[8];
    size_t ws;
    int state;
    float waves;
    int r[4];
} Found;
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *p,
                                   int n, Found *r, int *found) {
    memset(r, 0, sizeof(Found));
    r->ws = 1 << 20;
    *found = 1;
    Description *m = d;
    Layout *A = a, *B = b, *C = c;
    uint64_t am = m->ta ? A->cols : A->rows, ak = m->ta ? A->rows : A->cols,
             bk = m->tb ? B->cols : B->rows, bn = m->tb ? B->rows : B->cols;
    if (am != C->rows || bn != C->cols || ak != bk) {
        fprintf(stderr, "shapes\n");
        *found = 0;
        return 15;
    }
    return 0;
}
static float get(const void *p, int t, int64_t i) {
    if (t == 0)
        return ((float *)p)[i];
    if (t == 14) {
        uint32_t u = (uint32_t)((uint16_t *)p)[i] << 16;
        float f;
        memcpy(&f, &u, 4);
        return f;
    }
    _Float16 f = ((_Float16 *)p)[i];
    return f;
}
static void put(void *p, int t, int64_t i, float v) {
    if (t == 0)
        ((float *)p)[i] = v;
    else if (t == 14) {
        uint32_t u;
        memcpy(&u, &v, 4);
        ((uint16_t *)p)[i] = (u + 0x8000) >> 16;
    } else
        ((_Float16 *)p)[i] = v;
}
int cublasLtMatmul(void *h, void *d, const float *al, const void *a, void *la, const void *b,
                   void *lb, const float *be, const void *c, void *lc, void *o, void *lo,
                   const void *algo, void *ws, size_t wn, void *st) {
    Description *m = d;
    Layout *A = la, *B = lb, *C = lc;
    int64_t K = m->ta ? A->rows : A->cols;
    if ((long)st < 0x2000)
        return wrong("stream");
    if (*al != 1 || *be != 0)
        return wrong("scale");
    if (A->type != B->type || A->batch != B->batch || A->batch != C->batch)
        return wrong("types or numbers of matrices");
    if (getenv("STUB_LOG"))
        fprintf(stderr, "matmul %lux%lux%ld batch %d ta %d tb %d ld %ld %ld %ld types %d %d\n",
                C->rows, C->cols, (long)K, C->batch, m->ta, m->tb, (long)A->ld, (long)B->ld,
                (long)C->ld, A->type, C->type);
    int ea = A->type == 0 ? 4 : 2, ec = C->type == 0 ? 4 : 2;
    for (int z = 0; z < C->batch; z++) {
        const char *x = (char *)a + z * A->step * ea, *y = (char *)b + z * B->step * ea;
        char *w = (char *)o + z * C->step * ec;
        for (int64_t j = 0; j < C->cols; j++)
            for (int64_t i = 0; i < C->rows; i++) {
                double s = 0;
                for (int64_t k = 0; k < K; k++)
                    s += get(x, A->type, m->ta ? k + i * A->ld : i + k * A->ld) *
                         get(y, B->type, m->tb ? j + k * B->ld : k + j * B->ld);
                put(w, C->type, i + j * C->ld, s);
            }
    }
    return 0;
}
