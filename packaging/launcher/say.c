#include "say.h"

#include "folder.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 500 /* ms */, LINE = 2 * 4096 };

static const char *unfinished;

void remove_when_leaving(const char *folder) {
    unfinished = folder;
}

static _Noreturn void leave(int status) {
    hide_progress();
    if (unfinished) remove_folder(unfinished);
    _exit(status);
}

static void write_all(const char *text, size_t size) {
    while (size > 0) {
        ssize_t written = write(STDERR_FILENO, text, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        text += written, size -= (size_t)written;
    }
}

/* Names come from outside: nothing in them may move the cursor. */
static void tame(char *text) {
    for (unsigned char *at = (unsigned char *)text; *at; at++) {
        bool high = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0;
        if (*at < ' ' || *at == 0x7f) *at = '?';
        if (high) at[0] = at[1] = '?';
    }
}

void fail(const char *format, ...) {
    char line[LINE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line - 1, format, arguments);
    va_end(arguments);
    tame(line);
    strcat(line, "\n");
    hide_progress();
    write_all(line, strlen(line));
    leave(EXIT_FAILURE);
}

void fail_at(const char *path, const char *what, int error) {
    fail("Baton can't %s %s: %s. "
         "Start it with another folder for what it keeps, one that you may write to: " ELSEWHERE,
         what, path, strerror(error));
}

/* The last is a limit on a file's size: then writing fails, which is reported. */
static const int asking[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXFSZ};
enum { ASKING = sizeof asking / sizeof *asking };
static struct sigaction before[ASKING];
static volatile sig_atomic_t asked;

static void note(int number) {
    asked = number;
}

void hold_signals(void) {
    struct sigaction noted = {.sa_handler = note};
    for (int i = 0; i < ASKING; i++) {
        sigaction(asking[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(asking[i], &noted, NULL);
    }
}

void release_signals(void) {
    for (int i = 0; i < ASKING; i++) sigaction(asking[i], &before[i], NULL);
    leave_if_asked();
}

void leave_if_asked(void) {
    if (asked) leave(128 + asked);
}

static int shown = -2; /* the percent on the screen; -2: nothing is */

static long long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

void show_progress(int percent) {
    static long long since;
    if (!since) since = now();
    if (percent == shown || now() - since < PATIENCE || !isatty(STDERR_FILENO)) return;
    char line[80];
    int size = percent < 0
                   ? snprintf(line, sizeof line, "\rBaton unpacks itself, once ...")
                   : snprintf(line, sizeof line, "\rBaton unpacks itself, once: %3d %%", percent);
    write_all(line, (size_t)size);
    shown = percent;
}

void hide_progress(void) {
    if (shown == -2) return;
    char line[80];
    int size = snprintf(line, sizeof line, "\r%40s\r", "");
    write_all(line, (size_t)size);
    shown = -2;
}
