// A fixed crew of threads that splits a range of tables. The caller's thread works too; with one thread there is
// no synchronisation at all.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace native {

class ThreadPool {
 public:
  explicit ThreadPool(int threads) : threads_(threads) {
    for (int i = 1; i < threads; ++i) {
      crew_.emplace_back([this, i] { serve(i); });
    }
  }

  ~ThreadPool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    start_.notify_all();
    for (std::thread& thread : crew_) thread.join();
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }

  // work(begin, end) on disjoint parts of 0..count-1; returns when all are done. The first exception is
  // passed on.
  void split(int count, const std::function<void(int, int)>& work) {
    if (threads_ == 1 || count < 2) return work(0, count);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      count_ = count;
      busy_ = threads_ - 1;
      error_ = nullptr;
      ++generation_;
    }
    start_.notify_all();
    run_part(0, work, count);
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run_part(int part, const std::function<void(int, int)>& work, int count) {
    const auto bound = [&](int p) { return static_cast<int>(static_cast<int64_t>(count) * p / threads_); };
    try {
      work(bound(part), bound(part + 1));
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }

  void serve(int part) {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      start_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      const auto* work = work_;
      const int count = count_;
      lock.unlock();
      run_part(part, *work, count);
      lock.lock();
      if (--busy_ == 0) finished_.notify_one();
    }
  }

  const int threads_;
  std::vector<std::thread> crew_;
  std::mutex mutex_;
  std::condition_variable start_, finished_;
  const std::function<void(int, int)>* work_ = nullptr;
  int count_ = 0, busy_ = 0;
  uint64_t generation_ = 0;
  std::exception_ptr error_;
  bool stopping_ = false;
};

}  // namespace native
