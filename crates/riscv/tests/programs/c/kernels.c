/* Integer and floating-point kernels whose results depend on every instruction. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint64_t hash(const void *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
    return hash;
}

static void sorting(void)
{
    static uint32_t numbers[20000];
    uint64_t state = 1;
    for (int i = 0; i < 20000; i++)
        numbers[i] = (uint32_t)((state = state * 6364136223846793005 + 1442695040888963407) >> 33);
    qsort(numbers, 20000, sizeof *numbers, ascending);
    printf("sorted: %016llx\n", (unsigned long long)hash(numbers, sizeof numbers));
}

static void matrices(void)
{
    static double a[60][60], b[60][60], c[60][60];
    static float f[60];
    for (int i = 0; i < 60; i++)
        for (int j = 0; j < 60; j++)
            a[i][j] = sin(i + 0.1 * j), b[i][j] = exp(-0.01 * i * j);
    for (int i = 0; i < 60; i++)
        for (int j = 0; j < 60; j++)
            for (int k = 0; k < 60; k++)
                c[i][j] += a[i][k] * b[k][j];
    for (int i = 0; i < 60; i++)
        f[i] = sqrtf((float)fabs(c[i][i])) / (1 + i);
    printf("product: %016llx %016llx\n", (unsigned long long)hash(c, sizeof c),
           (unsigned long long)hash(f, sizeof f));
}

static void division(void)
{
    uint64_t sum = 0;
    for (int64_t i = 1; i < 20000; i++) {
        int64_t value = i * 0x9e3779b97f4a7c15;
        sum += value / i + value % (i * 37) + (uint64_t)value / 1000003 + (int32_t)value / (int32_t)i;
        sum ^= (uint64_t)(((__int128)value * value) >> 64);
    }
    printf("divided: %016llx\n", (unsigned long long)sum);
}

int main(void)
{
    sorting();
    matrices();
    division();
    char text[64];
    for (int i = -330; i < 310; i += 71)
        printf("%.17g %s\n", strtod((snprintf(text, sizeof text, "1.2345678901234567e%d", i), text), 0),
               text);
    return 0;
}
