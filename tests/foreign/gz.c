/* Standard input to standard output: `gz LEVEL` compresses, `gz -d` decompresses. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char block[1 << 14];

static int decompress(void)
{
    gzFile from = gzdopen(STDIN_FILENO, "rb");
    int length;
    while ((length = gzread(from, block, sizeof block)) > 0)
        fwrite(block, 1, length, stdout);
    if (length < 0)
        fprintf(stderr, "%s\n", gzerror(from, &length));
    return gzclose(from) != Z_OK || fflush(stdout);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "-d") == 0)
        return decompress();
    char mode[] = "wb6";
    if (argc > 1)
        mode[2] = argv[1][0];
    gzFile to = gzdopen(STDOUT_FILENO, mode);
    size_t length;
    while ((length = fread(block, 1, sizeof block, stdin)) > 0)
        if (gzwrite(to, block, length) != (int)length)
            return 1;
    return gzclose(to) != Z_OK;
}
