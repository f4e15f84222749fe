/* The folder build behind the launcher in the single file. pack.py says how. */

#ifndef PAYLOAD_H
#define PAYLOAD_H

#include "sha256.h"

#include <stdbool.h>

enum { KEY_SIZE = 16 };

struct payload {
    const char *path; /* of the single file */
    int file;
    uint64_t offset, size;
    uint64_t unpacked; /* bytes on the disk */
    uint64_t entries;  /* of its MANIFEST */
    uint8_t sha256[SHA256_SIZE], manifest[SHA256_SIZE];
    char key[KEY_SIZE + 1]; /* the name of the unpacked folder */
};

/* Whether a file that this user or root owns is a whole single file. */
bool is_whole_file(const char *path);

/* Find the payload of the single file that is open; exit with a sentence if it isn't whole. */
void find_payload(struct payload *payload, const char *path, int file);

/* Unpack it into an empty folder that is open; exit with a sentence if that can't be done. */
void unpack_payload(const struct payload *payload, int folder);

#endif
