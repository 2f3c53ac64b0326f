/* Reads the file named by the first argument in several ways; a missing one is an error. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char line[256];
    FILE *file = fopen(argv[1], "r");
    if (argc < 2 || !file)
        return 1;
    while (fgets(line, sizeof line, file))
        printf("%zu %s", strlen(line), line);
    fseek(file, -6, SEEK_END);
    printf("end: %s", fgets(line, sizeof line, file));
    fclose(file);

    struct stat status;
    int descriptor = open(argv[1], O_RDONLY);
    fstat(descriptor, &status);
    printf("%d bytes, regular: %d\n", (int)status.st_size, S_ISREG(status.st_mode));
    printf("read %d\n", (int)read(descriptor, line, 10));
    printf("at %d\n", (int)lseek(descriptor, 0, SEEK_CUR));
    close(descriptor);
    printf("closed: %d %d\n", (int)read(descriptor, line, 1), errno == EBADF);
    printf("missing: %d %d\n", open("/no/such/file", O_RDONLY), errno == ENOENT);
    return 0;
}
