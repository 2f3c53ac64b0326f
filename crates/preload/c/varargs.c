/* Functions with a variable number of arguments.
 *
 * The C library gives large strings of formatted output to the kernel by itself, and executes programs by a function
 * of its own. So output is formatted into memory that is not borrowed (what the C library allocates for itself never
 * is), and programs are executed by the functions of this library. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int rackmem_preload_is_helping(void);
int __vasprintf_chk(char **text, int flag, const char *format, va_list arguments);

/* The C library's functions behind this library; all formatted output is made by these two. */
static int (*next_vfprintf)(FILE *, int, const char *, va_list);
static int (*next_vdprintf)(int, int, const char *, va_list);

__attribute__((constructor)) static void look_up(void)
{
    next_vfprintf = (int (*)(FILE *, int, const char *, va_list))dlsym(RTLD_NEXT, "__vfprintf_chk");
    next_vdprintf = (int (*)(int, int, const char *, va_list))dlsym(RTLD_NEXT, "__vdprintf_chk");
}

int rackmem_preload_vfprintf_chk(FILE *file, int flag, const char *format, va_list arguments)
{
    if (!next_vfprintf)
        look_up();
    if (!rackmem_preload_is_helping())
        return next_vfprintf(file, flag, format, arguments);
    char *text;
    int length = __vasprintf_chk(&text, flag, format, arguments);
    if (length < 0)
        return length;
    int is_written = fwrite(text, 1, (size_t)length, file) == (size_t)length;
    free(text);
    return is_written ? length : -1;
}

int rackmem_preload_vdprintf_chk(int fd, int flag, const char *format, va_list arguments)
{
    if (!next_vdprintf)
        look_up();
    if (!rackmem_preload_is_helping())
        return next_vdprintf(fd, flag, format, arguments);
    char *text;
    int length = __vasprintf_chk(&text, flag, format, arguments);
    if (length < 0)
        return length;
    int done = 0;
    while (done < length) {
        ssize_t written = write(fd, text + done, (size_t)(length - done));
        if (written <= 0)
            break;
        done += (int)written;
    }
    free(text);
    return done == length ? length : -1;
}

int rackmem_preload_vprintf_chk(int flag, const char *format, va_list arguments)
{
    return rackmem_preload_vfprintf_chk(stdout, flag, format, arguments);
}

int rackmem_preload_vfprintf(FILE *file, const char *format, va_list arguments)
{
    return rackmem_preload_vfprintf_chk(file, 0, format, arguments);
}

int rackmem_preload_vprintf(const char *format, va_list arguments)
{
    return rackmem_preload_vfprintf_chk(stdout, 0, format, arguments);
}

int rackmem_preload_vdprintf(int fd, const char *format, va_list arguments)
{
    return rackmem_preload_vdprintf_chk(fd, 0, format, arguments);
}

/* Passes on the arguments that follow the last one which has a name. */
#define PASS_ON(last, call)                                                                     \
    va_list arguments;                                                                          \
    va_start(arguments, last);                                                                  \
    int status = call;                                                                          \
    va_end(arguments);                                                                          \
    return status

int rackmem_preload_printf(const char *format, ...)
{
    PASS_ON(format, rackmem_preload_vfprintf_chk(stdout, 0, format, arguments));
}

int rackmem_preload_fprintf(FILE *file, const char *format, ...)
{
    PASS_ON(format, rackmem_preload_vfprintf_chk(file, 0, format, arguments));
}

int rackmem_preload_dprintf(int fd, const char *format, ...)
{
    PASS_ON(format, rackmem_preload_vdprintf_chk(fd, 0, format, arguments));
}

int rackmem_preload_printf_chk(int flag, const char *format, ...)
{
    PASS_ON(format, rackmem_preload_vfprintf_chk(stdout, flag, format, arguments));
}

int rackmem_preload_fprintf_chk(FILE *file, int flag, const char *format, ...)
{
    PASS_ON(format, rackmem_preload_vfprintf_chk(file, flag, format, arguments));
}

int rackmem_preload_dprintf_chk(int fd, int flag, const char *format, ...)
{
    PASS_ON(format, rackmem_preload_vdprintf_chk(fd, flag, format, arguments));
}

/* Makes a list of the arguments from the first on, and after its end takes the environment if there is one. */
#define EXECUTE(first, after, call)                                                             \
    va_list arguments;                                                                          \
    size_t count = 1;                                                                           \
    va_start(arguments, first);                                                                 \
    while (first && va_arg(arguments, char *))                                                  \
        count++;                                                                                \
    va_end(arguments);                                                                          \
    char *list[count + 1];                                                                      \
    list[0] = (char *)first;                                                                    \
    va_start(arguments, first);                                                                 \
    for (size_t i = 1; i < count; i++)                                                          \
        list[i] = va_arg(arguments, char *);                                                    \
    list[count] = NULL;                                                                         \
    after;                                                                                      \
    va_end(arguments);                                                                          \
    return call

int rackmem_preload_execl(const char *path, const char *first, ...)
{
    EXECUTE(first, (void)0, execv(path, list));
}

int rackmem_preload_execlp(const char *file, const char *first, ...)
{
    EXECUTE(first, (void)0, execvp(file, list));
}

int rackmem_preload_execle(const char *path, const char *first, ...)
{
    EXECUTE(first,
            (void)va_arg(arguments, char *);
            char **environment = va_arg(arguments, char **),
            execve(path, list, environment));
}
