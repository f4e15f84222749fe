/* What the launcher says (on stderr, and nothing when all goes well), and how it leaves. */

#ifndef SAY_H
#define SAY_H

#include <stdbool.h>

/* How Baton is started with another folder for all that it keeps. */
#define ELSEWHERE "BATON_HOME=/a/folder baton"

/* Say what happened and what to do, and exit with 1. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Say that a place can't be used, because of an errno, and exit with 1. */
_Noreturn void fail_at(const char *path, const char *what, int error);

/* From here on, leaving removes this folder first; NULL: nothing. */
void remove_when_leaving(const char *folder);

/* Between these two, Ctrl+C and its like only ask to leave; then the program gets them. */
void hold_signals(void);
void release_signals(void);
void leave_if_asked(void);

/* Show on a terminal how far it is, once that takes long; -1: nobody knows. */
void show_progress(int percent);
void hide_progress(void);

#endif
