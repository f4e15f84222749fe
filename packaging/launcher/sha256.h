/* SHA-256 (FIPS 180-4), of what comes in pieces. */

#ifndef SHA256_H
#define SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_SIZE = 32, SHA256_BLOCK = 64 };

struct sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[SHA256_BLOCK];
};

void sha256_start(struct sha256 *sha);
void sha256_add(struct sha256 *sha, const void *data, size_t size);
void sha256_end(struct sha256 *sha, uint8_t digest[SHA256_SIZE]);

/* Hash what is in one piece; tell whether its hash is this one. */
void sha256(const void *data, size_t size, uint8_t digest[SHA256_SIZE]);
bool is_sha256(const void *data, size_t size, const uint8_t digest[SHA256_SIZE]);

/* Write bytes as hex digits, and a zero behind. */
void write_hex(char *text, const uint8_t *bytes, size_t size);

#endif
