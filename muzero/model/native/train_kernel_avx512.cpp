#include "muzero/model/native/train_kernel.h"

namespace slot_step {

const TrainKernel train_kernel_avx512 = train_kernel("avx512");

}  // namespace slot_step
