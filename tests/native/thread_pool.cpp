// Test of ThreadPool: every part is done once, with any number of threads, and exceptions reach the caller.
#include "native/thread_pool.h"

#include <cstdint>
#include <vector>

#include "tests/native/require.h"

int main() {
  native::ThreadPool pool(4);
  for (int n = 0; n < 20000; ++n) {
    const int64_t count = 1 + n % 97, grain = 1 + n % 7;
    std::vector<int> done(static_cast<size_t>(count));
    pool.split(
        count, grain,
        [&](int64_t begin, int64_t end) {
          REQUIRE(begin % grain == 0);
          for (; begin < end; ++begin) ++done[static_cast<size_t>(begin)];
        },
        1 + n % 5);
    for (int times : done) REQUIRE(times == 1);
  }
  for (int n = 0; n < 200; ++n) {
    bool caught = false;
    try {
      pool.split(100, 1, [](int64_t begin, int64_t end) {
        if (begin <= 50 && 50 < end) throw 7;
      });
    } catch (int number) {
      caught = number == 7;
    }
    REQUIRE(caught);
    int64_t total = 0;
    pool.split(10, 100, [&](int64_t begin, int64_t end) { total += end - begin; });
    REQUIRE(total == 10);
  }
}
