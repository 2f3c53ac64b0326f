#include "resp.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEAST_ROOM = 4096, LINE_END = 2 /* \r\n */ };

bool bytes_room(resp_bytes *b, size_t more)
{
    if (b->begin == b->end)
        b->begin = b->end = 0;
    if (b->room - b->end >= more)
        return true;
    if (b->begin > 0) {
        memmove(b->at, b->at + b->begin, b->end - b->begin);
        b->end -= b->begin;
        b->begin = 0;
    }
    size_t room = b->room > 0 ? b->room : LEAST_ROOM;
    while (room - b->end < more)
        room *= 2;
    char *at = room == b->room ? b->at : realloc(b->at, room);
    if (at == NULL)
        return false;
    b->at = at;
    b->room = room;
    return true;
}

bool bytes_add(resp_bytes *b, const void *from, size_t count)
{
    if (!bytes_room(b, count))
        return false;
    memcpy(b->at + b->end, from, count);
    b->end += count;
    return true;
}

bool bytes_print(resp_bytes *b, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    int count = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return count >= 0 && bytes_add(b, text, (size_t)count < sizeof text ? (size_t)count : sizeof text - 1);
}

void resp_printable(const resp_word *w, char *text, size_t room)
{
    size_t count = w->bytes < room ? w->bytes : room - 1;
    for (size_t i = 0; i < count; i++)
        text[i] = w->at[i] >= 0x20 && w->at[i] <= 0x7e ? w->at[i] : '?';
    text[count] = '\0';
}

/* A kind, a number and the end of a line; printf would take most of a request's time. */
static bool add_number(resp_bytes *b, char kind, size_t number)
{
    char text[24];
    char *at = text + sizeof text;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    *--at = kind;
    return bytes_add(b, at, (size_t)(text + sizeof text - at));
}

bool resp_add_value(resp_bytes *b, const char *value, size_t count)
{
    return add_number(b, '$', count) && bytes_add(b, value, count) && bytes_add(b, "\r\n", LINE_END);
}

bool resp_add_request(resp_bytes *b, const resp_word words[], size_t count)
{
    bool is_added = add_number(b, '*', count);
    for (size_t i = 0; i < count; i++)
        is_added = is_added && resp_add_value(b, words[i].at, words[i].bytes);
    return is_added;
}

/* The line that begins at `from`, without its end; the next one begins at `next`. */
static resp_state line_at(const resp_bytes *b, size_t from, resp_word *line, size_t *next)
{
    if (from == b->end)
        return RESP_PARTIAL;
    const char *end = memchr(b->at + from, '\n', b->end - from);
    if (end == NULL)
        return b->end - from > RESP_MOST_BYTES ? RESP_WRONG : RESP_PARTIAL;
    *next = (size_t)(end - b->at) + 1;
    size_t count = *next - 1 - from;
    *line = (resp_word){b->at + from, count > 0 && end[-1] == '\r' ? count - 1 : count};
    return RESP_WHOLE;
}

/* The number after the first character of a line; false if there is none, or one above `most`. */
static bool number_of(const resp_word *line, size_t most, size_t *number)
{
    size_t value = 0;
    for (size_t i = 1; i < line->bytes; i++) {
        if (line->at[i] < '0' || line->at[i] > '9')
            return false;
        value = value * 10 + (size_t)(line->at[i] - '0');
        if (value > most)
            return false;
    }
    *number = value;
    return line->bytes > 1;
}

/* The value whose length `line` has, and the place after it. */
static resp_state value_at(const resp_bytes *b, const resp_word *line, size_t *at, resp_word *value)
{
    size_t count;
    if (!number_of(line, RESP_MOST_BYTES, &count))
        return RESP_WRONG;
    if (b->end - *at < count + LINE_END)
        return RESP_PARTIAL;
    if (memcmp(b->at + *at + count, "\r\n", LINE_END) != 0)
        return RESP_WRONG;
    *value = (resp_word){b->at + *at, count};
    *at += count + LINE_END;
    return RESP_WHOLE;
}

/* A line of words between spaces, as people type it. */
static resp_state take_line(const resp_word *line, resp_word words[], size_t *count)
{
    const char *at = line->at, *end = line->at + line->bytes;
    *count = 0;
    for (;;) {
        while (at < end && *at == ' ')
            at++;
        if (at == end)
            return RESP_WHOLE;
        if (*count == RESP_MOST_WORDS)
            return RESP_WRONG;
        const char *begin = at;
        while (at < end && *at != ' ')
            at++;
        words[(*count)++] = (resp_word){begin, (size_t)(at - begin)};
    }
}

resp_state resp_take_request(resp_bytes *b, resp_word words[RESP_MOST_WORDS], size_t *count, const char **wrong)
{
    size_t at = b->begin;
    resp_word line;
    resp_state state = line_at(b, at, &line, &at);
    *wrong = "too big request";
    if (state != RESP_WHOLE)
        return state;
    if (line.bytes == 0 || line.at[0] != '*') {
        state = take_line(&line, words, count);
    } else {
        *wrong = "invalid multibulk length";
        if (!number_of(&line, RESP_MOST_WORDS, count))
            return RESP_WRONG;
        for (size_t i = 0; i < *count && state == RESP_WHOLE; i++) {
            state = line_at(b, at, &line, &at);
            *wrong = "expected '$'";
            if (state == RESP_WHOLE && (line.bytes == 0 || line.at[0] != '$'))
                return RESP_WRONG;
            *wrong = "invalid bulk length";
            if (state == RESP_WHOLE)
                state = value_at(b, &line, &at, &words[i]);
        }
    }
    if (state == RESP_WHOLE)
        b->begin = at;
    return state;
}

resp_state resp_take_answer(resp_bytes *b, resp_answer *a)
{
    size_t at = b->begin;
    resp_word line;
    resp_state state = line_at(b, at, &line, &at);
    if (state != RESP_WHOLE)
        return state;
    if (line.bytes == 0 || memchr("+-:$", line.at[0], 4) == NULL)
        return RESP_WRONG;
    *a = (resp_answer){.kind = line.at[0], .text = {line.at + 1, line.bytes - 1}};
    if (a->kind == '$') {
        a->is_none = line.bytes == 3 && memcmp(line.at, "$-1", 3) == 0;
        state = a->is_none ? RESP_WHOLE : value_at(b, &line, &at, &a->text);
    }
    if (state == RESP_WHOLE)
        b->begin = at;
    return state;
}
