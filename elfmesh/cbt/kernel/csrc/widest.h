/* Loops over columns in several versions, of which the machine takes the widest that it has; not under a
 * sanitizer, which cannot stand the choice being made before it has begun. */
#ifndef ELFMESH_WIDEST_H
#define ELFMESH_WIDEST_H

#if defined(__x86_64__) && __GNUC__ >= 12 && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(ELFMESH_PORTABLE)
#define WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDEST
#endif

#endif
