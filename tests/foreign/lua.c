/* Runs the Lua script that the first argument names, or standard input; `arg` has the other arguments. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    lua_State *state = luaL_newstate();
    if (!state)
        return 2;
    luaL_openlibs(state);
    lua_createtable(state, argc, 0);
    for (int index = 1; index < argc; index++) {
        lua_pushstring(state, argv[index]);
        lua_rawseti(state, -2, index - 1);
    }
    lua_setglobal(state, "arg");
    int failed = luaL_dofile(state, argc > 1 ? argv[1] : NULL);
    if (failed)
        printf("error: %s\n", lua_tostring(state, -1));
    lua_close(state);
    return failed;
}
