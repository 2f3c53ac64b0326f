#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#ifndef RACKMEM_NO_ZLIB

#include <zlib.h>

input *input_open(const char *path, unsigned block_bytes, const char **why)
{
    gzFile file = gzopen(path, "rb");
    if (file)
        gzbuffer(file, block_bytes);
    else
        *why = errno ? strerror(errno) : "not enough memory to open it";
    return (input *)file;
}

int input_read(input *in, void *bytes, unsigned size, const char **why)
{
    gzFile file = (gzFile)in;
    int got = gzread(file, bytes, size), system_error = errno, code;
    *why = gzerror(file, &code); /* a file that ends too early says so only with its last bytes */
    if (code == Z_BUF_ERROR)
        *why = "the gzip file is truncated";
    else if (code == Z_ERRNO)
        *why = strerror(system_error);
    return code == Z_OK ? got : -1;
}

void input_close(input *in)
{
    gzclose_r((gzFile)in); /* whatever it can find wrong, gzerror has told already */
}

#else /* Where there is no zlib, compressed files are known by their first bytes and refused. */

input *input_open(const char *path, unsigned block_bytes, const char **why)
{
    (void)block_bytes;
    FILE *file = fopen(path, "rb");
    if (!file)
        *why = strerror(errno);
    return (input *)file;
}

int input_read(input *in, void *bytes, unsigned size, const char **why)
{
    static const unsigned char gzip[] = {0x1f, 0x8b};
    FILE *file = (FILE *)in;
    int at_start = ftell(file) == 0;
    size_t got = fread(bytes, 1, size, file);
    if (at_start && got >= sizeof gzip && memcmp(bytes, gzip, sizeof gzip) == 0) {
        *why = "compressed, and this program was built without zlib: gunzip the file first";
        return -1;
    }
    *why = strerror(errno);
    return ferror(file) ? -1 : (int)got;
}

void input_close(input *in)
{
    fclose((FILE *)in);
}

#endif
