/* The environment that the official tests expect, for user mode: they end with exit code 0, or with
   the number of the case that failed. */
#define TESTNUM gp

#define RVTEST_RV64U
#define RVTEST_RV64UF

#define RVTEST_CODE_BEGIN                                                                          \
    .text;                                                                                         \
    .globl _start;                                                                                 \
    _start:
#define RVTEST_CODE_END

#define RVTEST_PASS                                                                                \
    li a0, 0;                                                                                      \
    li a7, 93;                                                                                     \
    ecall
#define RVTEST_FAIL                                                                                \
    mv a0, TESTNUM;                                                                                \
    li a7, 93;                                                                                     \
    ecall

#define RVTEST_DATA_BEGIN .align 6
/* A test reserves a word that is far from the one it stores to. */
#define RVTEST_DATA_END .skip 4096
