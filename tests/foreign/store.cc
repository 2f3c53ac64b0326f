// A LevelDB store in the folder that the first argument names: threads write, one reads all of it back.
#include <leveldb/db.h>

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(const leveldb::Status &status)
{
    if (status.ok())
        return;
    std::cout << status.ToString() << std::endl;
    std::exit(1);
}

std::string key(unsigned number)
{
    auto digits = std::to_string(number * 2654435761u);
    return std::string(10 - digits.size(), '0') + digits;
}

} // namespace

int main(int argc, char **argv)
{
    const unsigned writers = argc > 2 ? std::stoul(argv[2]) : 2, pairs = argc > 3 ? std::stoul(argv[3]) : 1000;
    leveldb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size = 1 << 16;
    leveldb::DB *opened;
    check(leveldb::DB::Open(options, argv[1], &opened));
    std::unique_ptr<leveldb::DB> store(opened);
    std::vector<std::thread> threads;
    for (unsigned writer = 0; writer < writers; writer++)
        threads.emplace_back([&, writer] {
            for (unsigned number = writer; number < pairs; number += writers)
                check(store->Put({}, key(number), std::string(number % 200, 'a' + number % 26)));
        });
    for (auto &thread : threads)
        thread.join();
    for (unsigned number = 0; number < pairs; number += 3)
        check(store->Delete({}, key(number)));
    std::uint64_t sum = 0, count = 0, bytes = 0;
    std::unique_ptr<leveldb::Iterator> at(store->NewIterator({}));
    for (at->SeekToFirst(); at->Valid(); at->Next()) {
        for (char byte : at->key().ToString() + at->value().ToString())
            sum = sum * 31 + static_cast<unsigned char>(byte);
        count++;
        bytes += at->value().size();
    }
    check(at->status());
    std::cout << count << " pairs, " << bytes << " bytes, " << std::hex << sum << std::endl;
    try {
        throw std::runtime_error("an exception is caught");
    } catch (const std::exception &error) {
        std::cout << error.what() << std::endl;
    }
}
