/* Runs the SQL of standard input on a database file, or in memory, and prints each row of an answer as a line. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

static int print_row(void *unused, int columns, char **values, char **names)
{
    (void)unused;
    (void)names;
    for (int column = 0; column < columns; column++)
        printf("%s%s", column ? "|" : "", values[column] ? values[column] : "NULL");
    putchar('\n');
    return 0;
}

/* All of standard input, with a zero behind it. */
static char *read_all(void)
{
    size_t length = 0, space = 1 << 12, count;
    char *text = malloc(space);
    while (text && (count = fread(text + length, 1, space - length - 1, stdin)) > 0) {
        length += count;
        if (space - length < 2)
            text = realloc(text, space *= 2);
    }
    if (text)
        text[length] = 0;
    return text;
}

int main(int argc, char **argv)
{
    sqlite3 *database;
    char *why = NULL, *text = read_all();
    if (!text || sqlite3_open(argc > 1 ? argv[1] : ":memory:", &database) != SQLITE_OK)
        return 2;
    if (sqlite3_exec(database, text, print_row, NULL, &why) != SQLITE_OK) {
        printf("error: %s\n", why);
        return 1;
    }
    free(text);
    return sqlite3_close(database) != SQLITE_OK;
}
