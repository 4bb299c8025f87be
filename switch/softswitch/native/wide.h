// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic of generated programs: bytes to numbers and back, and numbers wider than 64 bits.
//
// Numbers up to 64 bits are uint64_t; up to 448 bits _BitInt of whole limbs (ss_b2 .. ss_b7); up to 2048 bits vectors
// of 8, 16 or 32 limbs (ss_v8, ss_v16, ss_v32), which compilers keep in SIMD registers, unlike a _BitInt. Everything
// wraps modulo 2^(64 * limbs).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "limbs are kept as little-endian bytes");

// ---------------------------------------------------------------- up to 64 bits in network order

// A number from the first `count` (1 to 8) bytes; `count` is a constant in all calls.
static inline __attribute__((always_inline)) uint64_t ss_get(const uint8_t *bytes, uint32_t count) {
  uint64_t value = 0;
  if (count == 8) {
    memcpy(&value, bytes, 8);
    return __builtin_bswap64(value);
  }
  if (count >= 4) {
    uint32_t part;
    memcpy(&part, bytes, 4);
    value = __builtin_bswap32(part);
    return count == 4 ? value : value << 8 * (count - 4) | ss_get(bytes + 4, count - 4);
  }
  if (count >= 2) {
    uint16_t part;
    memcpy(&part, bytes, 2);
    value = __builtin_bswap16(part);
    return count == 2 ? value : value << 8 | bytes[2];
  }
  return bytes[0];
}

static inline __attribute__((always_inline)) void ss_put(uint8_t *bytes, uint32_t count, uint64_t value) {
  if (count == 8) {
    value = __builtin_bswap64(value);
    memcpy(bytes, &value, 8);
  } else if (count >= 4) {
    const uint32_t part = __builtin_bswap32((uint32_t)(value >> 8 * (count - 4)));
    memcpy(bytes, &part, 4);
    if (count > 4) ss_put(bytes + 4, count - 4, value);
  } else if (count >= 2) {
    const uint16_t part = __builtin_bswap16((uint16_t)(value >> 8 * (count - 2)));
    memcpy(bytes, &part, 2);
    if (count > 2) bytes[2] = (uint8_t)value;
  } else {
    bytes[0] = (uint8_t)value;
  }
}

// ---------------------------------------------------------------- fields at any bit, of any width

// Position of byte `index` (from the least significant) of a field of `width` bits that starts at `bit`.
struct ss_place {
  uint32_t last;   // the byte that holds its lowest bit
  uint32_t shift;  // of that bit in its byte
  uint32_t bits;   // 8, fewer at the top of the field
};

static inline struct ss_place ss_locate(uint32_t bit, uint32_t width, uint32_t index) {
  const uint32_t end = bit + width - 8 * index;
  const uint32_t last = (end - 1) / 8;
  const uint32_t left = width - 8 * index;
  return (struct ss_place){last, 8 * (last + 1) - end, left < 8 ? left : 8};
}

// Reads `width` bits that start at bit `bit` of `bytes`. Reads no byte outside the field.
static inline void ss_get_bits(uint64_t *limbs, uint32_t count, const uint8_t *bytes, uint32_t bit, uint32_t width) {
  uint8_t *image = (uint8_t *)limbs;
  memset(limbs, 0, (size_t)count * 8);
  for (uint32_t index = 0; 8 * index < width; index++) {
    const struct ss_place at = ss_locate(bit, width, index);
    uint32_t value = (uint32_t)bytes[at.last] >> at.shift;
    if (at.shift + at.bits > 8) value |= (uint32_t)bytes[at.last - 1] << (8 - at.shift);
    image[index] = (uint8_t)(value & ((1u << at.bits) - 1));
  }
}

// Writes the bits; they must be 0 before.
static inline void ss_put_bits(uint8_t *bytes, uint32_t bit, uint32_t width, const uint64_t *limbs) {
  const uint8_t *image = (const uint8_t *)limbs;
  for (uint32_t index = 0; 8 * index < width; index++) {
    const struct ss_place at = ss_locate(bit, width, index);
    const uint32_t value = image[index] & ((1u << at.bits) - 1);
    bytes[at.last] |= (uint8_t)(value << at.shift);
    if (at.shift + at.bits > 8) bytes[at.last - 1] |= (uint8_t)(value >> (8 - at.shift));
  }
}

// ---------------------------------------------------------------- limbs

static inline void ss_limbs_multiply(uint64_t *out, const uint64_t *left, const uint64_t *right, uint32_t count) {
  memset(out, 0, (size_t)count * 8);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t carry = 0;
    if (left[i] == 0) continue;
    for (uint32_t j = 0; i + j < count; j++) {
      const unsigned __int128 sum = (unsigned __int128)left[i] * right[j] + out[i + j] + carry;
      out[i + j] = (uint64_t)sum;
      carry = (uint64_t)(sum >> 64);
    }
  }
}

static inline void ss_limbs_left(uint64_t *out, const uint64_t *value, uint32_t count, uint64_t distance) {
  const uint64_t whole = distance / 64, part = distance % 64;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t high = i >= whole ? value[i - whole] : 0;
    const uint64_t low = i >= whole + 1 ? value[i - whole - 1] : 0;
    out[i] = part ? high << part | low >> (64 - part) : high;
  }
}

// `fill`: the limb that is shifted in at the top, 0 or all ones.
static inline void ss_limbs_right(uint64_t *out, const uint64_t *value, uint32_t count, uint64_t distance,
                                  uint64_t fill) {
  const uint64_t whole = distance / 64, part = distance % 64;
  for (uint64_t i = 0; i < count; i++) {
    const uint64_t low = whole < count - i ? value[i + whole] : fill;
    const uint64_t high = whole + 1 < count - i ? value[i + whole + 1] : fill;
    out[i] = part ? low >> part | high << (64 - part) : low;
  }
}

static inline bool ss_limbs_less(const uint64_t *left, const uint64_t *right, uint32_t count) {
  for (uint32_t i = count; i-- > 0;) {
    if (left[i] != right[i]) return left[i] < right[i];
  }
  return false;
}

static inline void ss_limbs_add(uint64_t *out, const uint64_t *left, const uint64_t *right, uint32_t count,
                                uint64_t carry) {
  for (uint32_t i = 0; i < count; i++) {
    const unsigned __int128 sum = (unsigned __int128)left[i] + right[i] + carry;
    out[i] = (uint64_t)sum;
    carry = (uint64_t)(sum >> 64);
  }
}

// ---------------------------------------------------------------- vectors of limbs

#define SS_BYTES_DOWN_8(last) \
  (last), (last) - 1, (last) - 2, (last) - 3, (last) - 4, (last) - 5, (last) - 6, (last) - 7
#define SS_BYTES_DOWN_64(last)                                                                     \
  SS_BYTES_DOWN_8(last), SS_BYTES_DOWN_8((last) - 8), SS_BYTES_DOWN_8((last) - 16),                \
      SS_BYTES_DOWN_8((last) - 24), SS_BYTES_DOWN_8((last) - 32), SS_BYTES_DOWN_8((last) - 40),    \
      SS_BYTES_DOWN_8((last) - 48), SS_BYTES_DOWN_8((last) - 56)
#define SS_BYTES_DOWN_128(last) SS_BYTES_DOWN_64(last), SS_BYTES_DOWN_64((last) - 64)
#define SS_BYTES_DOWN_256(last) SS_BYTES_DOWN_128(last), SS_BYTES_DOWN_128((last) - 128)

// Functions for one number of limbs. `BYTES`: the indices of all bytes, the last first.
#define SS_VECTOR(LIMBS, BYTES)                                                                                  \
  typedef uint64_t ss_v##LIMBS __attribute__((ext_vector_type(LIMBS)));                                          \
  typedef uint8_t ss_v##LIMBS##_bytes __attribute__((ext_vector_type(LIMBS * 8)));                               \
  typedef bool ss_v##LIMBS##_mask __attribute__((ext_vector_type(LIMBS)));                                       \
                                                                                                                 \
  static inline ss_v##LIMBS ss_v##LIMBS##_load(const uint64_t *limbs, uint32_t count) {                          \
    ss_v##LIMBS value = (ss_v##LIMBS)(0);                                                                        \
    memcpy(&value, limbs, (size_t)count * 8);                                                                    \
    return value;                                                                                                \
  }                                                                                                              \
  static inline void ss_v##LIMBS##_store(uint64_t *limbs, uint32_t count, ss_v##LIMBS value) {                   \
    memcpy(limbs, &value, (size_t)count * 8);                                                                    \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_get(const uint8_t *bytes) {                                            \
    ss_v##LIMBS##_bytes image;                                                                                   \
    memcpy(&image, bytes, LIMBS * 8);                                                                            \
    image = __builtin_shufflevector(image, image, BYTES);                                                        \
    return (ss_v##LIMBS)image;                                                                                   \
  }                                                                                                              \
  static inline void ss_v##LIMBS##_put(uint8_t *bytes, ss_v##LIMBS value) {                                      \
    ss_v##LIMBS##_bytes image = (ss_v##LIMBS##_bytes)value;                                                      \
    image = __builtin_shufflevector(image, image, BYTES);                                                        \
    memcpy(bytes, &image, LIMBS * 8);                                                                            \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_of(uint64_t low, uint64_t fill) {                                      \
    ss_v##LIMBS value = (ss_v##LIMBS)(fill);                                                                     \
    value[0] = low;                                                                                              \
    return value;                                                                                                \
  }                                                                                                              \
  static inline bool ss_v##LIMBS##_equal(ss_v##LIMBS left, ss_v##LIMBS right) {                                  \
    return __builtin_reduce_or(left ^ right) == 0;                                                               \
  }                                                                                                              \
  static inline bool ss_v##LIMBS##_less(ss_v##LIMBS left, ss_v##LIMBS right) {                                   \
    return ss_limbs_less((const uint64_t *)&left, (const uint64_t *)&right, LIMBS);                              \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_multiply(ss_v##LIMBS left, ss_v##LIMBS right) {                        \
    ss_v##LIMBS out;                                                                                             \
    ss_limbs_multiply((uint64_t *)&out, (const uint64_t *)&left, (const uint64_t *)&right, LIMBS);               \
    return out;                                                                                                  \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_left(ss_v##LIMBS value, uint64_t distance) {                           \
    ss_v##LIMBS out;                                                                                             \
    ss_limbs_left((uint64_t *)&out, (const uint64_t *)&value, LIMBS, distance);                                  \
    return out;                                                                                                  \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_right(ss_v##LIMBS value, uint64_t distance, uint64_t fill) {           \
    ss_v##LIMBS out;                                                                                             \
    ss_limbs_right((uint64_t *)&out, (const uint64_t *)&value, LIMBS, distance, fill);                           \
    return out;                                                                                                  \
  }

SS_VECTOR(8, SS_BYTES_DOWN_64(63))
SS_VECTOR(16, SS_BYTES_DOWN_128(127))
SS_VECTOR(32, SS_BYTES_DOWN_256(255))

#ifdef __AVX512F__

// Adds limb by limb, then adds the carries between limbs. The carries are found by one addition of numbers with one bit
// per limb: a limb makes a carry, or passes one on if all its bits are ones. Subtraction does the same with borrows,
// which a limb of 0 passes on.
#define SS_CARRY(LIMBS, BITS)                                                                                    \
  static inline BITS ss_v##LIMBS##_flags(ss_v##LIMBS##_mask mask) {                                              \
    BITS bits;                                                                                                   \
    memcpy(&bits, &mask, sizeof bits);                                                                           \
    return bits;                                                                                                 \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_ones(BITS bits) {                                                      \
    ss_v##LIMBS##_mask mask;                                                                                     \
    memcpy(&mask, &bits, sizeof bits);                                                                           \
    return __builtin_convertvector(mask, ss_v##LIMBS);                                                           \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_add(ss_v##LIMBS left, ss_v##LIMBS right) {                             \
    const ss_v##LIMBS sum = left + right;                                                                        \
    const BITS made = ss_v##LIMBS##_flags(__builtin_convertvector(sum < left, ss_v##LIMBS##_mask));              \
    const BITS handed = ss_v##LIMBS##_flags(__builtin_convertvector(~sum == 0, ss_v##LIMBS##_mask));             \
    return sum + ss_v##LIMBS##_ones((BITS)(((BITS)(made << 1) + handed) ^ handed));                              \
  }                                                                                                              \
  static inline ss_v##LIMBS ss_v##LIMBS##_subtract(ss_v##LIMBS left, ss_v##LIMBS right) {                        \
    const ss_v##LIMBS difference = left - right;                                                                 \
    const BITS made = ss_v##LIMBS##_flags(__builtin_convertvector(left < right, ss_v##LIMBS##_mask));            \
    const BITS handed = ss_v##LIMBS##_flags(__builtin_convertvector(difference == 0, ss_v##LIMBS##_mask));       \
    return difference - ss_v##LIMBS##_ones((BITS)(((BITS)(made << 1) + handed) ^ handed));                       \
  }

SS_CARRY(8, uint8_t)
SS_CARRY(16, uint16_t)
SS_CARRY(32, uint32_t)

#else

#define SS_CARRY(LIMBS)                                                                                \
  static inline ss_v##LIMBS ss_v##LIMBS##_add(ss_v##LIMBS left, ss_v##LIMBS right) {                   \
    ss_v##LIMBS out;                                                                                   \
    ss_limbs_add((uint64_t *)&out, (const uint64_t *)&left, (const uint64_t *)&right, LIMBS, 0);       \
    return out;                                                                                        \
  }                                                                                                    \
  static inline ss_v##LIMBS ss_v##LIMBS##_subtract(ss_v##LIMBS left, ss_v##LIMBS right) {              \
    ss_v##LIMBS out;                                                                                   \
    const ss_v##LIMBS inverted = ~right;                                                               \
    ss_limbs_add((uint64_t *)&out, (const uint64_t *)&left, (const uint64_t *)&inverted, LIMBS, 1);    \
    return out;                                                                                        \
  }

SS_CARRY(8)
SS_CARRY(16)
SS_CARRY(32)

#endif

// ---------------------------------------------------------------- _BitInt of whole limbs

#define SS_BITINT(LIMBS)                                                                              \
  typedef unsigned _BitInt(64 * LIMBS) ss_b##LIMBS;                                                   \
                                                                                                      \
  static inline ss_b##LIMBS ss_b##LIMBS##_load(const uint64_t *limbs) {                               \
    ss_b##LIMBS value;                                                                                \
    memcpy(&value, limbs, LIMBS * 8);                                                                 \
    return value;                                                                                     \
  }                                                                                                   \
  static inline void ss_b##LIMBS##_store(uint64_t *limbs, ss_b##LIMBS value) {                        \
    memcpy(limbs, &value, LIMBS * 8);                                                                 \
  }                                                                                                   \
  static inline ss_b##LIMBS ss_b##LIMBS##_multiply(ss_b##LIMBS left, ss_b##LIMBS right) {             \
    uint64_t factors[2][LIMBS], out[LIMBS];                                                           \
    memcpy(factors[0], &left, sizeof factors[0]);                                                     \
    memcpy(factors[1], &right, sizeof factors[1]);                                                    \
    ss_limbs_multiply(out, factors[0], factors[1], LIMBS);                                            \
    return ss_b##LIMBS##_load(out);                                                                   \
  }

// Conversions from and to the vector of as many limbs.
#define SS_VECTOR_BITS(LIMBS)                                                   \
  static inline ss_b##LIMBS ss_v##LIMBS##_bits(ss_v##LIMBS value) {             \
    ss_b##LIMBS bits;                                                           \
    memcpy(&bits, &value, LIMBS * 8);                                           \
    return bits;                                                                \
  }                                                                             \
  static inline ss_v##LIMBS ss_v##LIMBS##_of_bits(ss_b##LIMBS bits) {           \
    ss_v##LIMBS value;                                                          \
    memcpy(&value, &bits, LIMBS * 8);                                           \
    return value;                                                               \
  }

// ---------------------------------------------------------------- checksums and hashes

// Keeps the number modulo 65535 (2^32 is 1 there); only 0 becomes 0.
static inline uint64_t ss_fold(uint64_t value) { return (value >> 32) + (value & 0xFFFFFFFFu); }

static inline uint64_t ss_fold_limbs(const uint64_t *limbs, uint32_t count) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; i++) sum += ss_fold(limbs[i]);
  return sum;
}

// The internet checksum (RFC 1071) of 16-bit words whose plain sum is `total`, modulo 65535.
static inline uint64_t ss_checksum(uint64_t total) {
  const uint64_t rest = total % 65535;
  return 65535 - (rest ? rest : total ? 65535 : 0);
}

// A hash's input: bits joined from the first byte's highest on. What follows the last bit is 0.
struct ss_joined {
  uint8_t *bytes;
  uint32_t bits;
};

static inline void ss_join(struct ss_joined *joined, uint32_t width, const uint64_t *limbs) {
  ss_put_bits(joined->bytes, joined->bits, width, limbs);
  joined->bits += width;
}

// Whole bytes, from the next byte on.
static inline void ss_join_bytes(struct ss_joined *joined, const uint8_t *bytes, size_t count) {
  joined->bits = (joined->bits + 7) / 8 * 8;
  memcpy(joined->bytes + joined->bits / 8, bytes, count);
  joined->bits += (uint32_t)count * 8;
}

static inline uint32_t ss_joined_size(const struct ss_joined *joined) { return (joined->bits + 7) / 8; }

// Words of two bytes; an odd last byte is the high half of its word.
static inline uint64_t ss_word(const struct ss_joined *joined, uint32_t index) {
  const uint32_t size = ss_joined_size(joined);
  return (uint64_t)joined->bytes[index] << 8 | (index + 1 < size ? joined->bytes[index + 1] : 0);
}

static inline uint64_t ss_hash_csum16(const struct ss_joined *joined) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < ss_joined_size(joined); i += 2) sum += ss_word(joined, i);
  return ss_checksum(sum);
}

static inline uint64_t ss_hash_xor16(const struct ss_joined *joined) {
  uint64_t result = 0;
  for (uint32_t i = 0; i < ss_joined_size(joined); i += 2) result ^= ss_word(joined, i);
  return result;
}

// A reflected CRC of `polynomial` (reflected too).
static inline uint32_t ss_crc(const struct ss_joined *joined, uint32_t remainder, uint32_t polynomial) {
  for (uint32_t i = 0; i < ss_joined_size(joined); i++) {
    remainder ^= joined->bytes[i];
    for (uint32_t bit = 0; bit < 8; bit++) remainder = remainder >> 1 ^ (polynomial & (0u - (remainder & 1)));
  }
  return remainder;
}

// CRC-16/ARC.
static inline uint64_t ss_hash_crc16(const struct ss_joined *joined) { return ss_crc(joined, 0, 0xA001); }

static inline uint64_t ss_hash_crc32(const struct ss_joined *joined) {
  return ~ss_crc(joined, 0xFFFFFFFFu, 0xEDB88320u);
}

// The first eight bytes, or all if there are fewer.
static inline uint64_t ss_hash_identity(const struct ss_joined *joined) {
  const uint32_t size = ss_joined_size(joined);
  uint64_t result = 0;
  for (uint32_t i = 0; i < size && i < 8; i++) result = result << 8 | joined->bytes[i];
  return result;
}
