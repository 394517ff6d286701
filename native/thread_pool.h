// ThreadPool: a fixed number of threads that share a range of work. The caller's thread works too; with one thread, or
// little work, there is no synchronisation at all.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace native {

class ThreadPool {
 public:
  using Work = std::function<void(int64_t begin, int64_t end)>;

  explicit ThreadPool(int threads) : threads_(threads), process_(getpid()) {
    for (int i = 1; i < threads; ++i) {
      helpers_.emplace_back([this] { serve(); });
    }
  }

  ~ThreadPool() {
    if (forked()) {
      for (std::thread& thread : helpers_) thread.detach();
      (void)signals_.release();  // destroying it would wait for the parent's threads
      return;
    }
    {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      stopping_ = true;
    }
    signals_->start.notify_all();
    for (std::thread& thread : helpers_) thread.join();
  }

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Calls work(begin, end) on disjoint parts of 0..count-1, all but the last of at least `grain`, and returns when all
  // are done. A thread that is free takes the next part, so that a busy core does not delay the rest. The first
  // exception is rethrown.
  void split(int64_t count, int64_t grain, const Work& work) {
    if (threads_ == 1 || count <= grain || forked()) return work(0, count);
    {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      work_ = &work;
      count_ = count;
      part_ = std::max(grain, count / (threads_ * 8));
      next_ = 0;
      busy_ = threads_ - 1;
      error_ = nullptr;
      ++generation_;
    }
    signals_->start.notify_all();
    take_parts();
    std::unique_lock<std::mutex> lock(signals_->mutex);
    signals_->finished.wait(lock, [this] { return busy_ == 0; });
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Signals {
    std::mutex mutex;
    std::condition_variable start, finished;
  };

  // A forked process has no helper threads.
  bool forked() const { return getpid() != process_; }

  void take_parts() {
    try {
      for (int64_t begin; (begin = next_.fetch_add(part_)) < count_;) {
        (*work_)(begin, std::min(begin + part_, count_));
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      if (!error_) error_ = std::current_exception();
    }
  }

  void serve() {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(signals_->mutex);
    while (true) {
      signals_->start.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) return;
      seen = generation_;
      lock.unlock();
      take_parts();
      lock.lock();
      if (--busy_ == 0) signals_->finished.notify_one();
    }
  }

  const int threads_;
  const pid_t process_;
  std::vector<std::thread> helpers_;
  std::unique_ptr<Signals> signals_ = std::make_unique<Signals>();
  const Work* work_ = nullptr;
  int64_t count_ = 0, part_ = 1;
  std::atomic<int64_t> next_{0};
  int busy_ = 0;
  uint64_t generation_ = 0;
  bool stopping_ = false;
  std::exception_ptr error_;
};

}  // namespace native
