/* Calls on other processes, of a program that has no children and leads its session. Prints what each says. */

#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHOW(call) printf("%s: %s\n", #call, (call) < 0 ? strerror(errno) : "ok")

int main(void)
{
    int status;
    siginfo_t info;
    setsid();
    SHOW(wait(&status));
    SHOW(waitpid(-1, &status, WNOHANG));
    SHOW(waitpid(getpid(), NULL, 0));
    SHOW(waitpid(-1, NULL, 1 << 20));
    SHOW(waitid(P_ALL, 0, &info, WEXITED | WNOHANG));
    SHOW(waitid(P_ALL, 0, &info, WNOHANG));
    SHOW(waitid(9, 0, &info, WEXITED));
    SHOW(getpgid(0));
    SHOW(getpgid(getpid()));
    SHOW(getpgid(99999999));
    SHOW(getsid(99999999));
    SHOW(setpgid(0, -1));
    SHOW(setpgid(99999999, 0));
    printf("%d\n", getpgrp() == getpid() && getsid(0) == getpid());
    SHOW(setsid());
    SHOW(setpgid(0, 0));
    return 0;
}
