/* callgrind.c - lets a Python program tell callgrind what to count; without valgrind each call does nothing.
 *   gcc -O2 -shared -fPIC -o callgrind.so callgrind.c     (the header is in the package valgrind)
 */
#include <valgrind/callgrind.h>

void start_counting(void) { CALLGRIND_START_INSTRUMENTATION; }
void stop_counting(void) { CALLGRIND_STOP_INSTRUMENTATION; }
/* What was counted since the last call, or since the start, as a file of its own. */
void write_counts(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
