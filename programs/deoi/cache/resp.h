/* Redis' protocol (RESP2): requests as servers read them, answers as clients do. */
#ifndef DEOI_CACHE_RESP_H
#define DEOI_CACHE_RESP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RESP_MOST_WORDS = 16, RESP_MOST_BYTES = 1 << 20 /* of a word, and of a line */ };

/* Bytes that have arrived, or are to be sent. */
typedef struct resp_bytes {
    char *at;
    size_t begin, end, room;
} resp_bytes;

typedef struct resp_word {
    const char *at;
    size_t bytes;
} resp_word;

typedef enum resp_state { RESP_PARTIAL, RESP_WHOLE, RESP_WRONG } resp_state;

/* An answer: its first character is the kind ('+', '-', ':' or '$'). */
typedef struct resp_answer {
    char kind;
    bool is_none; /* of '$': there is no value */
    resp_word text;
} resp_answer;

/* The beginning of a word as text of one line: '?' stands for what is not printable ASCII. */
void resp_printable(const resp_word *w, char *text, size_t room);

/* Makes room for so many bytes after the end; false if there is no memory. */
bool bytes_room(resp_bytes *b, size_t more);

/* Appends; false if there is no memory. */
bool bytes_add(resp_bytes *b, const void *from, size_t count);
bool bytes_print(resp_bytes *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a value, or a request of so many words. */
bool resp_add_value(resp_bytes *b, const char *value, size_t count);
bool resp_add_request(resp_bytes *b, const resp_word words[], size_t count);

/* Takes a request out: an array of words, or a line of them. RESP_WRONG: `wrong` says what is. The words are valid
 * until bytes are added. */
resp_state resp_take_request(resp_bytes *b, resp_word words[RESP_MOST_WORDS], size_t *count, const char **wrong);

/* Takes an answer out, likewise. */
resp_state resp_take_answer(resp_bytes *b, resp_answer *a);

#endif
