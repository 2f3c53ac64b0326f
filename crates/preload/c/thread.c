/* State of the calling thread in the library.
 *
 * The words are in the static block of thread-local storage: to reach them takes no call of
 * __tls_get_addr, which may allocate, and allocating asks for them. */

static __thread unsigned depth __attribute__((tls_model("initial-exec")));
static __thread void *stack __attribute__((tls_model("initial-exec")));

/* Depth of the calling thread's entries into the library; a large number in the library's own threads. */
unsigned *rackmem_preload_depth(void)
{
    return &depth;
}

/* The calling thread's alternate signal stack of the library's; NULL if it has none. */
void **rackmem_preload_stack(void)
{
    return &stack;
}
