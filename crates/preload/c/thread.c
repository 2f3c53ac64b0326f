/* What the library knows of the calling thread.
 *
 * The words are in the static block of thread-local storage: to reach them takes no call of
 * __tls_get_addr, which may allocate, and allocating asks for them. */

static __thread unsigned depth __attribute__((tls_model("initial-exec")));

/* How many times the calling thread has entered the library, or a large number if it is the library's own. */
unsigned *rackmem_preload_depth(void)
{
    return &depth;
}
