/* printf of floating point, malloc small and large, square roots, arguments; exit code 3. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    double *values = malloc(1000 * sizeof *values);
    double sum = 0;
    for (int i = 0; i < 1000; i++)
        values[i] = sqrt(i) / argc;
    for (int i = 0; i < 1000; i++)
        sum += values[i];
    printf("%s: %.12f %g %e %a\n", argc > 1 ? argv[1] : "-", sum, values[2], 1e-310 * values[3],
           (float)values[5] / 3);
    char *large = calloc(50000000, 1);
    large[49999999] = 3;
    printf("%d %d\n", large[25000000], large[49999999]);
    large = realloc(large, 70000000);
    printf("%d\n", large[49999999]);
    free(large);
    free(values);
    return 3;
}
