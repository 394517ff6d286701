// ThreadPool: a fixed number of threads that share a range of work. The caller's thread works too; with one thread, or
// little work, there is no synchronisation at all.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "native/aligned.h"
#include "native/flush.h"

namespace native {

class ThreadPool {
 public:
  using Work = std::function<void(int64_t begin, int64_t end)>;

  explicit ThreadPool(int threads)
      : threads_(threads), process_(getpid()), shares_(static_cast<size_t>(std::max(1, threads))) {
    for (int i = 1; i < threads; ++i) {
      helpers_.emplace_back([this, i] { serve(i); });
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

  // Calls work(begin, end) on disjoint parts of 0..count-1, each but the last a multiple of `grain`, and returns when all
  // are done. Each thread begins with the same share of the range in every call, so that its part of the data stays in
  // its cache; one that is done takes parts of the others' shares, so that a busy core does not delay the rest. The
  // first exception is rethrown. At most `most` threads take part. Denormal numbers count as 0, whichever thread works.
  void split(int64_t count, int64_t grain, const Work& work, int most = INT_MAX) {
    const FlushDenormals flush;
    const int threads = std::min(most, threads_);
    if (threads <= 1 || count <= grain || forked()) return work(0, count);
    bool asleep;
    {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      work_ = &work;
      part_ = std::max<int64_t>(1, count / (threads * 8) / grain) * grain;
      const int64_t parts = (count + part_ - 1) / part_;
      for (int i = 0; i < threads; ++i) {
        Share& share = shares_[static_cast<size_t>(i)];
        share.next = parts * i / threads * part_;
        share.end = std::min(count, parts * (i + 1) / threads * part_);
      }
      active_ = threads;
      open_ = true;
      error_ = nullptr;
      ++generation_;
      asleep = sleepers_ > 0;
    }
    if (asleep) signals_->start.notify_all();
    take_parts(0);
    {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      open_ = false;  // nobody waits for helpers that have not begun: on a busy machine that may take long
    }
    if (!spin([this] { return joined_ == 0; })) {
      std::unique_lock<std::mutex> lock(signals_->mutex);
      signals_->finished.wait(lock, [this] { return joined_ == 0; });
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Signals {
    std::mutex mutex;
    std::condition_variable start, finished;
  };

  // Part of the range that one thread begins with.
  struct alignas(kCacheLine) Share {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  // A forked process has no helper threads.
  bool forked() const { return getpid() != process_; }

  // Does the parts of a thread's own share, then those that are left of the others'.
  void take_parts(int own) {
    try {
      for (int i = 0; i < active_; ++i) {
        Share& share = shares_[static_cast<size_t>((own + i) % active_)];
        for (int64_t begin; (begin = share.next.fetch_add(part_)) < share.end;) {
          (*work_)(begin, std::min(begin + part_, share.end));
        }
      }
    } catch (...) {
      std::lock_guard<std::mutex> lock(signals_->mutex);
      if (!error_) error_ = std::current_exception();
    }
  }

  void serve(int own) {
    const FlushDenormals flush;
    uint64_t seen = 0;
    while (true) {
      if (!spin([&] { return stopping_ || generation_ != seen; })) {
        std::unique_lock<std::mutex> lock(signals_->mutex);
        ++sleepers_;
        signals_->start.wait(lock, [&] { return stopping_ || generation_ != seen; });
        --sleepers_;
      }
      {
        std::lock_guard<std::mutex> lock(signals_->mutex);
        if (stopping_) return;
        seen = generation_;
        if (!open_ || own >= active_) continue;
        ++joined_;
      }
      take_parts(own);
      std::lock_guard<std::mutex> lock(signals_->mutex);
      if (--joined_ == 0) signals_->finished.notify_one();
    }
  }

  // Waits for a few microseconds, about as long as waking a thread takes; returns whether the event has come.
  template <class Event>
  static bool spin(Event&& event) {
    for (int i = 0; i < kSpins; ++i) {
      if (event()) return true;
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    return event();
  }

  static constexpr int kSpins = 1000;
  const int threads_;
  const pid_t process_;
  AlignedVector<Share> shares_;
  std::vector<std::thread> helpers_;
  std::unique_ptr<Signals> signals_ = std::make_unique<Signals>();
  const Work* work_ = nullptr;
  int64_t part_ = 1;
  int active_ = 1;              // threads that take part in the current work
  std::atomic<int> joined_{0};  // helpers that work on the current work
  bool open_ = false;           // whether helpers may still join in
  std::atomic<uint64_t> generation_{0};
  std::atomic<bool> stopping_{false};
  int sleepers_ = 0;  // helpers that wait for a signal
  std::exception_ptr error_;
};

}  // namespace native
