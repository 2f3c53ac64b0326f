// Loads a plugin at run time, calls it on two threads, catches what it throws, and closes it.
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

template <class F> static F *find(void *library, const char *name)
{
    return reinterpret_cast<F *>(dlsym(library, name));
}

int main(int count, char **arguments)
{
    const std::string name = count > 1 ? arguments[1] : "libplugin.so";
    void *library = dlopen(name.c_str(), RTLD_NOW);
    if (library == nullptr) {
        std::cout << dlerror() << std::endl;
        return 3;
    }
    auto *twice = find<int(int)>(library, "twice");
    std::thread([&] { std::cout << twice(1) << " " << twice(2) << std::endl; }).join();
    std::cout << twice(3) << std::endl;
    try {
        twice(4);
    } catch (const std::runtime_error &error) {
        std::cout << "caught " << error.what() << std::endl;
    }
    if (count > 2)
        find<void(volatile int *)>(library, "follow")(nullptr);
    dlclose(library);
    std::cout << (dlopen("libmissing.so", RTLD_NOW) ? "?" : dlerror()) << std::endl;
    std::map<std::string, int> words = {{"one", 1}, {"two", 2}};
    return words["one"] + words["two"];
}
